// The API's words as people read them.

// word is an enum's value without its prefix.
export const word = (prefix, value) => value ? value.replace(prefix + '_', '').toLowerCase() : '';

export function answer(verdict, reason) {
  const said = word('VERDICT', verdict);
  const why = word('REASON', reason);
  return why && why !== 'unspecified' ? `${said} (${why})` : said;
}

export const states = {
  CASE_STATE_OPEN: 'unresolved',
  CASE_STATE_EXECUTED: 'executed',
  CASE_STATE_NOT_EXECUTED: 'not executed',
  CASE_STATE_GIVEN_UP: 'given up',
};

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const tenth = new Intl.NumberFormat('en', {minimumFractionDigits: 1, maximumFractionDigits: 1});
export const count = n => whole.format(n);
export const decimal = n => tenth.format(n);

// rate is for what happens n times in some seconds.
export const rate = (n, seconds) => n > 0 ? `${n / seconds >= 100 ? count(n / seconds) : decimal(n / seconds)}/s` : '';

const clock = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});
const day = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short'});
export const at = time => clock.format(time);
export const exactly = time => day.format(time);

export function ago(time, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - time) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

// rules are what each asks, by its name.
export const rules = {
  attempts_exhausted: 'Is an attempt left?',
  budget_empty: 'May the budget have a token?',
  body_not_replayable: 'Can the body be sent again?',
  response_already_delivered: 'Is none of the answer delivered?',
  runtime_draining: 'Is nothing being drained?',
  deadline_below_minimum: 'Does the deadline leave room?',
  permanent_failure: 'Can another attempt cure it?',
  possibly_executed: 'Is a second execution harmless, or excluded?',
  status_and_failure: 'Do status and failure allow it?',
};

// parseTime reads 250ms, 1.5s, 2m or 1h, and writes it as protobuf's JSON does.
export function parseTime(text) {
  const found = /^(-?\d+(?:\.\d+)?)\s*(ms|s|m|min|h)$/.exec(text.trim());
  if (!found) return undefined;
  const seconds = Number(found[1]) * {ms: 0.001, s: 1, m: 60, min: 60, h: 3600}[found[2]];
  return seconds.toFixed(9).replace(/\.?0+$/, '') + 's';
}
