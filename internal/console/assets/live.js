import {admin} from './api.js';
import {Chart, field} from './chart.js';
import {confirm} from './dialog.js';
import {announce, byId, h, name, show, text} from './dom.js';
import {count, rate} from './words.js';

// shared is the label of upstreams that have none of their own.
const shared = 'other';
const replica = 'It holds for this replica only, until it is undone or the process ends. Attempts that wait already are not sent.';

const views = new Map();
const totals = new Map();

// state is what the server has said last, its samples added up.
export const state = {upstreams: new Map(), killed: false};

// take adds an event: all samples, or the next one.
export function take(kind, event) {
  const before = kind === 'all' ? new Map() : state.upstreams;
  state.upstreams = new Map(event.upstreams.map(upstream => {
    const points = [...before.get(upstream.name)?.points ?? [], ...upstream.points];
    return [upstream.name, {...upstream, points: points.slice(-event.keep)}];
  }));
  Object.assign(state, {killed: event.killed, at: event.at, every: event.every, keep: event.keep, unseen: event.unseen});
  draw();
}

const sum = (upstream, of) => upstream.points.reduce((n, p) => n + p[field[of]], 0);

// lately counts over the last ten seconds.
function lately(upstream, of) {
  const samples = Math.max(1, Math.round(10_000 / state.every));
  return upstream.points.slice(-samples).reduce((n, p) => n + p[field[of]], 0);
}

// room is how many samples are drawn: as much of the past as there is.
function room() {
  const most = Math.max(0, ...[...state.upstreams.values()].map(u => u.points.length));
  return [1, 2].map(minutes => Math.round(minutes * 60_000 / state.every)).find(n => n >= most && n < state.keep) ?? state.keep;
}

function draw() {
  state.room = room();
  const list = byId('upstreams');
  for (const [key, view] of views) {
    if (!state.upstreams.has(key)) {
      view.element.remove();
      views.delete(key);
    }
  }
  let after = null;
  for (const [key, upstream] of state.upstreams) { // in the order of their names, so that no button moves
    if (!views.has(key)) views.set(key, new View(key));
    const view = views.get(key);
    if ((after ? after.nextElementSibling : list.firstElementChild) !== view.element) {
      after ? after.after(view.element) : list.prepend(view.element);
    }
    after = view.element;
    view.update(upstream);
  }
  const none = state.upstreams.size === 0;
  byId('live-empty').hidden = !none;
  byId('totals').hidden = none;
  byId('unseen').hidden = !state.unseen;
  text(byId('unseen'), `${count(state.unseen)} more upstreams are not shown: there is room for those that were busy first.`);
  drawTotals();
  const kill = byId('kill');
  text(kill, state.killed ? 'Allow retries again' : 'Stop all retries');
  kill.classList.toggle('danger', !state.killed);
  const names = byId('upstream-names');
  const known = [...state.upstreams.keys()].filter(key => key !== shared);
  if (names.dataset.known !== known.join('\n')) {
    names.dataset.known = known.join('\n');
    names.replaceChildren(...known.map(key => h('option', {value: key})));
  }
}

const kinds = [
  ['requests', 'Requests'],
  ['retries', 'Retries'],
  ['denied', 'Denied'],
  ['ambiguous', 'Ambiguous'],
];

function drawTotals() {
  const all = [...state.upstreams.values()];
  for (const [key, title] of kinds) {
    if (!totals.has(key)) {
      const view = {number: h('b'), rate: h('span', {class: 'rate'})};
      totals.set(key, view);
      byId('totals').append(h('div', {class: key}, h('dt', {}, title), h('dd', {}, view.number, ' ', view.rate)));
    }
    const view = totals.get(key);
    text(view.number, count(all.reduce((n, u) => n + sum(u, key), 0)));
    text(view.rate, rate(all.reduce((n, u) => n + lately(u, key), 0), 10));
  }
}

class View {
  constructor(key) {
    this.key = key;
    this.chip = h('span', {class: 'chip'});
    this.button = h('button', {type: 'button', class: 'quiet', click: () => this.toggle()});
    this.chart = new Chart();
    this.reasons = h('ul', {class: 'reasons'});
    this.numbers = Object.fromEntries(kinds.map(([kind]) => [kind, {number: h('b'), rate: h('span', {class: 'rate'})}]));
    const heading = key === shared ? h('h2', {}, 'all others') : h('h2', {title: show(key)}, name(key));
    this.element = h('article', {class: 'upstream'},
      h('header', {}, heading, this.chip, key === shared ? '' : this.button),
      h('dl', {class: 'numbers'}, kinds.map(([kind, title]) => h('div', {class: kind},
        h('dt', {}, title), h('dd', {}, this.numbers[kind].number, ' ', this.numbers[kind].rate)))),
      this.chart.element,
      h('div', {class: 'why'}, h('h3', {}, 'Not retried, by reason'), this.reasons));
  }

  update(upstream) {
    this.upstream = upstream;
    const stopped = upstream.drained || state.killed || upstream.shadow;
    text(this.chip, upstream.shadow ? 'shadow: nothing is retried' : upstream.drained ? 'drained' : state.killed ? 'stopped' : 'retries on');
    this.chip.className = stopped ? 'chip stopped' : 'chip on';
    text(this.button, upstream.drained ? 'Undrain' : 'Drain');
    this.button.setAttribute('aria-label', `${upstream.drained ? 'Undrain' : 'Drain'} ${show(this.key)}`);
    for (const [kind] of kinds) {
      text(this.numbers[kind].number, count(sum(upstream, kind)));
      text(this.numbers[kind].rate, rate(lately(upstream, kind), 10));
    }
    this.chart.update(upstream, state.room, state.every, state.at);
    this.drawReasons(Object.entries(upstream.reasons).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])));
  }

  drawReasons(reasons) {
    const said = JSON.stringify(reasons);
    if (said === this.said) return;
    this.said = said;
    const most = Math.max(1, ...reasons.map(([, n]) => n));
    this.reasons.replaceChildren(...reasons.map(([reason, n]) => {
      const [, verdict, why] = /^(\w+)\((.*)\)$/.exec(reason);
      const bar = h('i', {class: 'bar', 'aria-hidden': 'true'});
      bar.style.setProperty('--share', n / most);
      return h('li', {class: verdict}, h('span', {}, `${verdict} `, h('code', {}, show(why))), h('b', {}, count(n)), bar);
    }));
    if (!reasons.length) this.reasons.append(h('li', {class: 'none'}, 'none in five minutes'));
  }

  toggle() {
    const {drained} = this.upstream;
    const called = show(this.key);
    confirm(drained ? {
      title: `Undrain ${called}?`, said: 'Failed requests to it may be sent again, as the rules and its budget allow.',
      hint: state.killed ? 'All retries are stopped at present; that stays.' : 'It holds for this replica only.', yes: 'Undrain',
      run: () => this.set('UndrainUpstream', `${called} is undrained`),
    } : {
      title: `Drain ${called}?`, said: 'No failed request to it is sent again: denied (runtime_draining). First attempts go through as before.',
      hint: replica, yes: 'Drain',
      run: () => this.set('DrainUpstream', `${called} is drained`),
    });
  }

  async set(method, said) {
    await admin(method, {upstream: this.key});
    this.upstream.drained = method === 'DrainUpstream';
    this.update(this.upstream);
    announce(said);
  }
}

byId('kill').addEventListener('click', () => {
  const on = state.killed;
  confirm(on ? {
    title: 'Allow retries again?', said: 'Failed requests may be sent again, as the rules and the budgets allow. Upstreams that were drained one by one stay so.',
    hint: 'It holds for this replica only.', yes: 'Allow retries', run: () => setKillSwitch('KILL_SWITCH_OFF'),
  } : {
    title: 'Stop all retries?', said: 'No failed request to any upstream is sent again: denied (runtime_draining). First attempts go through as before.',
    hint: replica, yes: 'Stop all retries', run: () => setKillSwitch('KILL_SWITCH_ON'),
  });
});

async function setKillSwitch(killSwitch) {
  await admin('SetKillSwitch', {killSwitch});
  state.killed = killSwitch === 'KILL_SWITCH_ON';
  draw();
  announce(state.killed ? 'All retries are stopped' : 'Retries are allowed again');
}
