// The ladder of rules, and the facts that it was given.
import {h, name, show} from './dom.js';
import {answer, rules as questions, word} from './words.js';

const all = Object.keys(questions);

// ladder lists the nine rules. Those that are missing in rules were not asked.
export function ladder(rules) {
  const first = rules.find(rule => rule.verdict);
  return h('ol', {class: 'ladder', 'aria-label': 'The nine rules, in order'}, all.map((key, i) => {
    const rule = rules.find(r => r.number === i + 1);
    const [kind, says] = spoken(rule, first);
    return h('li', {class: kind, 'data-rule': i + 1},
      h('span', {class: 'mark', 'aria-hidden': 'true'}),
      h('span', {class: 'asks'}, questions[key], ' ', h('code', {}, key)),
      h('span', {class: 'says'}, says));
  }));
}

function spoken(rule, first) {
  if (!rule) return ['unasked', 'not asked: nothing is known'];
  if (!rule.verdict) return [first && rule.number > first.number ? 'after' : 'passes', 'no objection'];
  const said = answer(rule.verdict, rule.reason);
  if (rule === first) return [`decides ${word('VERDICT', rule.verdict)}`, said];
  return ['after also', `also ${said}`];
}

// facts lists those that are known.
export function facts(m) {
  const rows = [];
  const add = (title, value, prefix) => {
    if (value === undefined || value === null || value === '' || value === 0) return;
    rows.push(h('div', {}, h('dt', {}, title), h('dd', {}, prefix ? word(prefix, value) : name(value))));
  };
  const {call = {}, body, earlier, ending = {}} = m;
  add('Class that held', call.idempotency, 'IDEMPOTENCY');
  const seen = ending.observation;
  if (seen) {
    add('Evidence', seen.evidence, 'EVIDENCE');
    add('Stage', seen.stage, 'STAGE');
    add('Status', seen.status);
    add('Permanent failure', seen.permanent, 'PERMANENT_CATEGORY');
    add('Retry-After', seen.retryAfter?.map(seconds => seconds + ' s').join(', '));
  }
  add('Attempt', m.attempt || 'not known');
  add('Earlier attempts', earlier ? `${word('EXECUTION', earlier.execution) || 'unknown'}, ${word('CERTAINTY', earlier.certainty) || 'unknown'}` : m.attempt > 1 ? 'not remembered' : '');
  add('Body', bodies[body?.kind] ?? 'cannot be sent again, or not known');
  add('Time left', m.noDeadline ? 'no deadline' : m.remaining ? m.remaining.replace(/s$/, ' s') : 'not known');
  add('Longest wait', m.maxWait?.replace(/s$/, ' s'));
  add('Wait before', m.previousWait?.replace(/s$/, ' s'));
  add('Answer', m.delivery, 'DELIVERY');
  add('Early data', m.earlyData, 'EARLY_DATA');
  if (seen?.status === 401) add('Credential', m.credential, 'CREDENTIAL');
  add('Upstream or service', m.runtime, 'RUNTIME');
  return h('dl', {class: 'known'}, rows);
}

const bodies = {
  BODY_KIND_BYTES: 'can be sent again', BODY_KIND_FILE: 'can be opened again', BODY_KIND_STREAM: 'cannot be sent again',
  BODY_KIND_NONE: 'none',
};

// verdict is a decision in one line, and below it what is known of the request.
export function verdict(d) {
  const said = word('VERDICT', d.verdict);
  const parts = [];
  if (d.rule) parts.push(`by rule ${d.rule}`);
  if (d.wait) parts.push(`after a wait of ${d.wait.replace(/s$/, ' s')}`);
  if (d.category) parts.push(word('PERMANENT_CATEGORY', d.category));
  return h('div', {class: 'verdict ' + said},
    h('p', {class: 'word'}, h('b', {}, said), d.reason ? [' ', h('code', {}, word('REASON', d.reason))] : '',
      parts.length ? h('span', {}, ', ' + parts.join(', ')) : ''),
    h('dl', {class: 'known'},
      h('div', {}, h('dt', {}, 'Evidence'), h('dd', {}, word('EVIDENCE', d.evidence))),
      h('div', {}, h('dt', {}, 'Execution of the request'), h('dd', {}, word('EXECUTION', d.execution) || 'unknown')),
      h('div', {}, h('dt', {}, 'Outcome'), h('dd', {}, word('CERTAINTY', d.certainty))),
      h('div', {}, h('dt', {}, 'Class'), h('dd', {}, word('IDEMPOTENCY', d.idempotency) || 'unknown')),
      d.operation ? h('div', {}, h('dt', {}, 'Operation'), h('dd', {}, show(d.operation))) : ''));
}
