import {admin, ledger} from './api.js';
import {announce, byId, h, name, problem, show, text} from './dom.js';
import {facts, ladder, verdict} from './ladder.js';
import {ago, answer, count, exactly, states, word} from './words.js';

const page = 50;
const most = 1000; // on a page of the API
const walks = ['CASE_STATE_OPEN', 'CASE_STATE_EXECUTED', 'CASE_STATE_NOT_EXECUTED', 'CASE_STATE_GIVEN_UP'];
const form = byId('filter');

let cases = []; // as listed
let more = false; // are there
let turn = 0; // of the latest listing: what an older one brings is dropped
let wanted = page; // cases, as often as somebody has asked for more
let chosen = '';

const filterOf = () => {
  const {state, upstream, operation, within} = form.elements;
  const filter = {upstream: upstream.value.trim(), operation: operation.value.trim()};
  if (within.value) filter.since = new Date(Date.now() - within.value * 1000).toISOString();
  return {filter, states: state.value ? [state.value] : walks};
};

// list begins anew; as many cases as are wanted are asked for.
export async function list() {
  const {filter, states} = filterOf();
  const enough = wanted;
  const mine = ++turn;
  const next = {filter, states: [...states], token: ''};
  const found = [];
  try {
    await gather(next, found, enough);
  } catch (error) {
    if (mine === turn) problem(byId('ledger-problem'), error);
    return;
  }
  if (mine !== turn) return;
  cases = found;
  more = next.states.length > 0;
  problem(byId('ledger-problem'), '');
  draw();
}

async function gather(next, found, enough) {
  while (next.states.length && found.length < enough) {
    const answer = await ledger('List', {filter: {...next.filter, state: next.states[0]}, pageSize: Math.min(enough - found.length, most), pageToken: next.token});
    found.push(...answer.cases ?? []);
    next.token = answer.nextPageToken ?? '';
    if (!next.token) next.states.shift();
  }
}

byId('more').addEventListener('click', async () => {
  const before = cases.length;
  wanted = before + page;
  await list();
  announce(`${count(cases.length - before)} more cases`);
});

function draw() {
  const list = byId('cases');
  const focused = document.activeElement?.closest?.('#cases a')?.dataset.case;
  list.replaceChildren(...cases.map(row));
  if (focused) [...list.querySelectorAll('a')].find(a => a.dataset.case === focused)?.focus();
  byId('more').hidden = !more;
  const empty = byId('ledger-empty');
  empty.hidden = cases.length > 0;
  if (cases.length) return;
  const filtered = form.elements.upstream.value || form.elements.operation.value || form.elements.within.value || form.elements.state.value !== 'CASE_STATE_OPEN';
  empty.replaceChildren(...filtered ? [
    h('h2', {}, 'No case matches'), h('p', {}, 'Widen the filter, or clear it.'),
  ] : [
    h('h2', {}, 'Nothing to reconcile'),
    h('p', {}, 'A request that ends in a failure and may have been executed is entered here. Whoever sent it was told its case in ', h('code', {}, 'x-retry-ambiguity-id'), '.'),
    h('p', {}, 'Resolved ones are under ', h('b', {}, 'State'), '; ', h('code', {}, 'extproc why REQUEST_ID'), ' says what was decided on any request.'),
  ]);
}

const chip = state => h('span', {class: 'chip ' + (state === 'CASE_STATE_OPEN' ? 'open' : 'done')}, states[state]);

function row(c) {
  return h('li', {}, h('a', {href: '#ledger/' + encodeURIComponent(c.caseId), 'data-case': c.caseId, 'aria-current': c.caseId === chosen && 'true'},
    h('span', {class: 'what'}, h('b', {}, show(c.method || '?')), ' ', name(c.path || c.operation || 'path not known', {class: 'path'})),
    chip(c.state),
    h('span', {class: 'of'}, name(c.upstream || 'upstream not known', {class: 'path'}), ' · ', answer(c.verdict, c.reason)),
    h('time', {datetime: c.time, title: exactly(new Date(c.time))}, ago(new Date(c.time)))));
}

// Why shows what was decided on a request, which need not be in the ledger.
export async function why(id) {
  const detail = select('?' + id);
  byId('find').elements.id.value = id;
  try {
    const {decisions = []} = await admin('Why', {id});
    if (chosen !== '?' + id) return;
    detail.replaceChildren(back(),
      h('h2', {id: 'h-case', tabindex: -1}, 'What was decided on ', name(id, {class: 'mono'})),
      ...decisions.map(d => h('section', {class: 'past-decision'},
        h('h3', {}, `Attempt ${d.attempt || 'not known'}, ${exactly(new Date(d.time))}`),
        h('p', {}, h('b', {}, show(d.method || '?')), ' ', name(d.path || 'path not known'), ' to ', name(d.upstream || 'an upstream not known')),
        verdict(d.decision), d.cause ? h('p', {class: 'sub'}, 'Seen: ', name(d.cause)) : '',
        d.rules?.length ? h('div', {class: 'said'}, ladder(d.rules)) : '',
        d.caseId ? h('p', {}, h('a', {class: 'button quiet', href: '#ledger/' + encodeURIComponent(d.caseId)}, 'Open its case')) : '')),
      decisions.length ? '' : h('p', {}, 'Nothing is remembered of it. It may have succeeded at once, been decided by another replica, or be older than the latest 10,000 decisions.'));
  } catch (error) {
    if (chosen === '?' + id) unseen(detail, error);
  }
  byId('h-case')?.focus();
}

byId('find').addEventListener('submit', event => {
  event.preventDefault();
  location.hash = '#why/' + encodeURIComponent(event.target.elements.id.value.trim());
});

function select(key) {
  chosen = key;
  byId('view-ledger').classList.toggle('reading', Boolean(key));
  const detail = byId('case');
  detail.hidden = !key;
  detail.classList.remove('case');
  detail.replaceChildren(h('p', {class: 'sub'}, 'Loading …'));
  return detail;
}

function unseen(detail, error, ...more) {
  detail.replaceChildren(back(), h('h2', {id: 'h-case', tabindex: -1}, 'This cannot be shown'), h('p', {class: 'problem'}, show(error.message)), ...more);
}

// open shows one case; '' shows none.
export async function open(caseId) {
  for (const a of byId('cases').querySelectorAll('a')) {
    a.toggleAttribute('aria-current', a.dataset.case === caseId);
    if (a.dataset.case === caseId) a.setAttribute('aria-current', 'true');
  }
  const detail = select(caseId);
  if (!caseId) return;
  try {
    const {case: found} = await ledger('Get', {caseId});
    if (chosen === caseId) read(found);
  } catch (error) {
    if (chosen !== caseId) return;
    unseen(detail, error, h('p', {}, 'When the ledger is full, the case that was resolved first makes room, else the oldest.'));
  }
  byId('h-case')?.focus();
}

const back = () => h('a', {class: 'back', href: '#ledger'}, 'All cases');

function read(c) {
  byId('case').classList.add('case');
  const row = (title, value) => value ? h('div', {}, h('dt', {}, title), h('dd', {}, value)) : '';
  byId('case').replaceChildren(
    back(),
    h('header', {},
      h('h2', {id: 'h-case', tabindex: -1}, h('b', {}, show(c.method || '?')), ' ', name(c.path || 'path not known')), chip(c.state)),
    h('p', {class: 'lead'}, lead(c)),
    h('dl', {class: 'known about'},
      row('Case', name(c.caseId, {class: 'mono'})),
      row('Request id', c.requestId && name(c.requestId, {class: 'mono'})),
      row('Upstream', c.upstream && name(c.upstream)),
      row('Operation', c.operation && name(c.operation)),
      row('Idempotency key', c.idempotencyKey && name(c.idempotencyKey, {class: 'mono'})),
      row('Attempts made', String(c.attempts || 'not known')),
      row('Seen', c.cause && name(c.cause)),
      row('Entered', exactly(new Date(c.time)))),
    resolution(c),
    h('section', {class: 'said'}, h('h3', {}, 'What the rules said'), said(c)),
    h('section', {class: 'given'}, h('h3', {}, 'What they were given'),
      c.facts ? facts(c.facts) : h('p', {class: 'sub'}, 'Nothing was known.'),
      c.facts ? h('p', {}, h('a', {class: 'button quiet', href: '#what-if/' + encodeURIComponent(c.caseId)}, 'Ask “What if” with these facts')) : ''));
}

function lead(c) {
  const evidence = {
    EVIDENCE_NOT_SENT: 'Its last attempt never reached the upstream, but an earlier one may have.',
    EVIDENCE_SENT_NO_RESPONSE: 'Some or all of the request was written, and no answer arrived.',
    EVIDENCE_RESPONSE_RECEIVED: 'An answer arrived that does not say whether it was executed.',
    EVIDENCE_PARTIAL_RESPONSE: 'The answer was cut off.',
  }[c.evidence] ?? '';
  return `${c.state === 'CASE_STATE_OPEN' ? 'It may or may not have been executed.' : 'It was not known whether it had been executed.'} ${evidence}`;
}

function said(c) {
  const rules = c.rules ?? [];
  const decided = rules.find(rule => rule.verdict);
  const final = answer(c.verdict, c.reason);
  const after = decided && answer(decided.verdict, decided.reason) !== final
    ? h('p', {class: 'sub'}, `The rules said ${answer(decided.verdict, decided.reason)}; it ended as ${final}.`) : '';
  return [rules.length ? ladder(rules) : h('p', {class: 'sub'}, `${final}; the ladder was not kept.`), after];
}

function resolution(c) {
  const open = c.state === 'CASE_STATE_OPEN';
  const trouble = h('p', {class: 'problem', role: 'alert', hidden: true});
  const choice = (value, title, help) => h('label', {class: 'choice'},
    h('input', {type: 'radio', name: 'found', value, required: true}), h('span', {}, h('b', {}, title), ' ', h('span', {class: 'hint'}, help)));
  const note = h('textarea', {name: 'note', rows: 2, autocomplete: 'off'});
  const button = h('button', {type: 'submit', class: 'main'}, 'Resolve');
  const submit = async event => {
    event.preventDefault();
    const found = event.target.elements.found.value;
    if (!found) {
      problem(trouble, 'Say what was found.');
      event.target.elements.found[0].focus();
      return;
    }
    button.disabled = true;
    try {
      const {case: resolved} = await ledger('Resolve', {caseId: c.caseId, state: found, note: note.value});
      if (chosen === c.caseId) {
        read(resolved);
        byId('h-case').focus();
      }
      announce(`Resolved: ${states[resolved.state]}`);
      list();
    } catch (error) {
      problem(trouble, error);
      button.disabled = false;
    }
  };
  const ask = h('form', {class: 'resolve', novalidate: true, submit},
    h('fieldset', {},
      h('legend', {}, 'What did reconciliation find?'),
      choice('CASE_STATE_EXECUTED', 'Executed', 'it took effect'),
      choice('CASE_STATE_NOT_EXECUTED', 'Not executed', 'it is safe to send it again'),
      choice('CASE_STATE_GIVEN_UP', 'Given up', 'it could not be found out'),
      h('label', {class: 'wide'}, 'Note', note)),
    trouble, h('div', {class: 'actions'}, button));
  if (open) return ask;
  return h('div', {class: 'resolved'},
    h('p', {}, h('b', {}, `Resolved: ${states[c.state]}`), c.resolved ? `, ${exactly(new Date(c.resolved))}` : ''),
    c.note ? h('blockquote', {}, name(c.note)) : '',
    h('details', {}, h('summary', {}, 'Change it'), ask));
}

// changed is told how many cases are unresolved, and how many were lost.
export function changed(open, lost) {
  const badge = byId('open-count');
  badge.hidden = !open;
  text(badge, count(open));
  badge.setAttribute('aria-label', `${count(open)} unresolved`);
  text(byId('ledger-sub'), 'Requests that ended in a failure and may have been executed, unresolved first.' +
    (lost ? ` ${count(lost)} fell out of the full ledger unresolved.` : ''));
}

// age says anew how long ago the cases were entered.
export function age() {
  for (const time of byId('cases').querySelectorAll('time')) text(time, ago(new Date(time.dateTime)));
}

function begin() {
  wanted = page;
  list();
}

let typing;
form.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => { begin(); }, 200);
});
form.addEventListener('submit', event => event.preventDefault());
form.addEventListener('reset', () => setTimeout(() => { begin(); }));
