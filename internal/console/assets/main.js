import {announce, byId, text} from './dom.js';
import {age, changed, list, open, why} from './ledger.js';
import {take} from './live.js';
import {begin} from './whatif.js';
import {at} from './words.js';

const views = {live: 'Live', ledger: 'Ledger', 'what-if': 'What if'};
let shown = '';

// route shows the view that the address names: #live, #ledger, #ledger/CASE, #why/REQUEST, #what-if, #what-if/CASE.
function route() {
  const [view, ...rest] = location.hash.slice(1).split('/');
  const now = view === 'why' ? 'ledger' : view in views ? view : 'live';
  const argument = rest.length ? decode(rest.join('/')) : '';
  for (const key of Object.keys(views)) byId('view-' + key).hidden = key !== now;
  for (const a of document.querySelectorAll('nav a')) {
    if (a.hash === '#' + now) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  document.title = `${views[now]} · Verdict console`;
  if (now === 'ledger') {
    if (shown !== 'ledger') list();
    if (view === 'why') why(argument);
    else open(argument);
  }
  if (now === 'what-if') begin(argument);
  if (shown && shown !== now && !argument) byId('h-' + now).closest('section').querySelector('h1').focus();
  shown = now;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The stream of samples. It is closed while nobody looks: a browser has six connections for all pages.
let source, watchdog, retry, process, lost = false, last = 0, cases = '';

function connect() {
  disconnect();
  source = new EventSource('live');
  source.addEventListener('all', event => received('all', event));
  source.addEventListener('now', event => received('now', event));
  source.addEventListener('error', failed);
  watch(15_000);
}

function disconnect() {
  source?.close();
  clearTimeout(watchdog);
  clearTimeout(retry);
}

// watch takes a silence for a lost connection.
function watch(limit) {
  clearTimeout(watchdog);
  watchdog = setTimeout(failed, limit);
}

function failed() {
  disconnect();
  if (!lost) announce('The connection to Verdict is lost');
  lost = true;
  link('lost', last ? `Lost: figures of ${at(last)}` : 'No connection');
  retry = setTimeout(connect, 1000);
}

function received(kind, {data}) {
  const event = JSON.parse(data);
  watch(Math.max(10_000, 4 * event.every));
  take(kind, event);
  last = event.at;
  link('on', `Live, ${at(last)}`);
  if (lost) announce('Connected again');
  lost = false;
  if (process && process !== event.process) announce('Verdict has been restarted');
  process = event.process;
  byId('banner').hidden = !event.killed && !event.draining;
  text(byId('banner'), event.draining ? 'This replica is shutting down: no new retries.' : 'All retries are stopped on this replica: denied (runtime_draining).');
  changed(event.open, event.lost);
  const now = `${event.process} ${event.open} ${event.lost}`;
  if (shown === 'ledger' && now !== cases) list();
  else if (shown === 'ledger') age();
  if (kind === 'now' && cases && Number(cases.split(' ')[1]) < event.open) announce(`${event.open} unresolved cases`);
  cases = now;
}

function link(kind, said) {
  byId('link').dataset.state = kind;
  text(byId('link-text'), said);
}

document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') return connect();
  disconnect();
  link('paused', 'Paused');
});
addEventListener('hashchange', route);
text(byId('where'), location.host);
for (const heading of document.querySelectorAll('h1')) heading.tabIndex = -1;
route();
connect();
