import {explain, ledger} from './api.js';
import {byId, h, problem, show} from './dom.js';
import {ladder, verdict} from './ladder.js';
import {parseTime} from './words.js';

const form = byId('facts');
const fields = () => [...form.elements].filter(e => e.name && e.tagName !== 'FIELDSET');
const value = name => form.elements[name].value.trim();

const presets = {
  reset: {'call.method': 'POST', 'call.path': '/pay', 'body.kind': 'BODY_KIND_BYTES', ending: 'stage', 'ending.observation.stage': 'STAGE_CONNECTION_RESET', attempt: '1', deadline: '2s'},
  unavailable: {'call.method': 'GET', 'call.path': '/', 'body.kind': 'BODY_KIND_NONE', ending: 'http', status: '503', retry_after: '1', delivery: 'DELIVERY_NOT_DELIVERED', attempt: '1', deadline: '5s'},
  refused: {'call.method': 'POST', 'call.path': '/pay', 'body.kind': 'BODY_KIND_BYTES', ending: 'stage', 'ending.observation.stage': 'STAGE_CONNECT', attempt: '1', deadline: '2s'},
  third: {'call.method': 'PUT', 'call.path': '/doc', 'body.kind': 'BODY_KIND_BYTES', ending: 'stage', 'ending.observation.stage': 'STAGE_CONNECTION_RESET', attempt: '3', deadline: '2s', 'earlier.execution': 'EXECUTION_UNSPECIFIED', 'earlier.certainty': 'CERTAINTY_UNCERTAIN'},
};

// Invalid names the field whose text is none that it can be.
class Invalid extends Error {
  constructor(field, message) {
    super(message);
    this.fields = [{field}];
  }
}

function time(field) {
  const text = value(field);
  if (!text) return undefined;
  const parsed = parseTime(text);
  if (!parsed) throw new Invalid(field, `“${text}” is no time such as 250ms or 1.5s.`);
  return parsed;
}

function whole(field) {
  const text = value(field);
  if (!text) return undefined;
  if (!/^\d+$/.test(text)) throw new Invalid(field, `“${text}” is no whole number.`);
  return text;
}

// read makes Facts of the form. What is empty is left out: not known.
function read() {
  const facts = {call: {}};
  for (const key of ['upstream', 'early_data', 'delivery', 'credential', 'runtime']) if (value(key)) facts[key] = value(key);
  for (const key of ['method', 'path', 'route_operation', 'idempotency']) if (value('call.' + key)) facts.call[key] = value('call.' + key);
  if (value('call.idempotency_keys')) facts.call.idempotency_keys = [value('call.idempotency_keys')];
  if (value('body.kind')) facts.body = {kind: value('body.kind'), declared: value('body.declared') || undefined};
  facts.attempt = whole('attempt');
  if (value('earlier.execution')) facts.earlier = {execution: value('earlier.execution'), certainty: value('earlier.certainty') || undefined};
  facts.previous_wait = time('previous_wait');
  facts.max_wait = time('max_wait');
  if (value('deadline') === 'none') facts.no_deadline = {};
  else facts.remaining = time('deadline');
  facts.ending = ending();
  return facts;
}

function ending() {
  const status = whole('status');
  const after = value('retry_after');
  const headers = after ? [{name: 'retry-after', value: after}] : undefined;
  switch (value('ending')) {
    case 'http': return {http: {status, headers}};
    case 'envoy': return {envoy: {
      details: value('ending.envoy.details') || undefined, wire_bytes_sent: whole('ending.envoy.wire_bytes_sent'),
      upstream_attempt_count: whole('ending.envoy.upstream_attempt_count'),
      transport_failure_reason: value('ending.envoy.transport_failure_reason') || undefined, status, headers,
    }};
    case 'stage': case 'evidence': {
      const reach = value('ending');
      return {observation: {
        [reach]: value('ending.observation.' + reach), status, permanent: value('ending.observation.permanent') || undefined,
        retry_after: after ? [after] : undefined,
      }};
    }
  }
  return undefined;
}

// adapt shows the fields that the others call for.
function adapt() {
  for (const label of form.querySelectorAll('[data-if]')) {
    const [field, values] = label.dataset.if.split('=');
    label.hidden = !values.split(',').includes(form.elements[field].value);
  }
}

function set(values) {
  form.reset();
  for (const [key, text] of Object.entries(values)) form.elements[key].value = text;
  complain();
  adapt();
}

function complain(error) {
  for (const field of fields()) {
    field.removeAttribute('aria-invalid');
    field.removeAttribute('aria-describedby');
  }
  byId('facts-problem').hidden = !error;
  if (!error) return;
  problem(byId('facts-problem'), error.message);
  const blamed = (error.fields ?? []).map(f => input(f.field)).filter(Boolean);
  for (const field of blamed) {
    field.setAttribute('aria-invalid', 'true');
    field.setAttribute('aria-describedby', 'facts-problem');
  }
  blamed[0]?.focus();
}

// input finds the one that a field path of the API means.
function input(path) {
  const field = path.replace(/^facts\./, '').replace(/\[\d+\].*$/, '');
  const also = {remaining: 'deadline', 'ending.http.status': 'status', 'ending.envoy.status': 'status', 'ending.observation.status': 'status',
    'ending.http.headers': 'retry_after', 'ending.envoy.headers': 'retry_after', 'ending.observation.retry_after': 'retry_after'};
  return form.elements[also[field] ?? field];
}

async function ask() {
  complain();
  let facts;
  try {
    facts = read();
    const said = await explain(facts);
    byId('answer').replaceChildren(
      h('h2', {}, 'The answer'), verdict(said.decision),
      ...said.rules?.length ? [h('h3', {}, 'What the rules say'), h('div', {class: 'said'}, ladder(said.rules))] : [h('p', {}, 'The request succeeded: no rule was asked.')],
      h('details', {}, h('summary', {}, 'The same by gRPC'),
        h('pre', {tabindex: 0}, 'retry.v1.DecisionService/Explain\n' + show(JSON.stringify({facts}, null, 2)).replaceAll('\\u000a', '\n'))));
  } catch (error) {
    complain(error);
  }
}

// begin fills the form in with a case's facts.
export async function begin(caseId) {
  if (!caseId) return;
  try {
    const {case: found} = await ledger('Get', {caseId});
    set(fromFacts(found.facts ?? {}));
    await ask();
  } catch (error) {
    complain(error);
  }
}

function fromFacts(m) {
  const seen = m.ending?.observation ?? {};
  const all = {
    upstream: m.upstream, 'call.method': m.call?.method, 'call.path': m.call?.path, 'call.idempotency': m.call?.idempotency,
    'call.idempotency_keys': m.call?.idempotencyKeys?.[0], 'body.kind': m.body?.kind, early_data: m.earlyData, delivery: m.delivery,
    credential: m.credential, runtime: m.runtime, attempt: m.attempt, deadline: m.noDeadline ? 'none' : m.remaining,
    max_wait: m.maxWait, previous_wait: m.previousWait, ending: 'evidence', 'ending.observation.evidence': seen.evidence,
    'ending.observation.permanent': seen.permanent, status: seen.status, retry_after: seen.retryAfter?.[0],
    'earlier.execution': m.earlier && (m.earlier.execution ?? 'EXECUTION_UNSPECIFIED'), 'earlier.certainty': m.earlier?.certainty,
  };
  return Object.fromEntries(Object.entries(all).filter(([, text]) => text !== undefined));
}

form.addEventListener('submit', event => {
  event.preventDefault();
  ask();
});
form.addEventListener('change', adapt);
form.addEventListener('reset', () => setTimeout(() => { complain(); adapt(); }));
form.querySelector('.presets').addEventListener('click', event => {
  const preset = presets[event.target.dataset.preset];
  if (!preset) return;
  set(preset);
  ask();
});
adapt();
