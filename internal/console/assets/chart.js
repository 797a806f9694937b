// The picture of a budget: what it holds, earned above the reserve, what it has spent in its window, and
// when it had nothing.
import {h, s, text} from './dom.js';
import {at, count, decimal} from './words.js';

const width = 600, height = 100;

// Fields of a sample.
export const field = {requests: 0, retries: 1, denied: 2, ambiguous: 3, earned: 4, left: 5, firsts: 6, spent: 7, refused: 8};

export class Chart {
  constructor() {
    this.reserve = s('path', {class: 'reserve'});
    this.earned = s('path', {class: 'earned'});
    this.spent = s('path', {class: 'spent'});
    this.refused = s('path', {class: 'refused'});
    this.cursor = s('line', {class: 'cursor', y1: 0, y2: height, visibility: 'hidden'});
    this.svg = s('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img'},
      s('path', {class: 'grid', d: `M0 ${height / 2}H${width}`}), this.reserve, this.earned, this.spent, this.refused, this.cursor);
    this.past = h('span');
    this.top = h('span', {class: 'top-label'});
    this.values = Object.fromEntries(['balance', 'earned', 'reserve', 'spent', 'refused', 'window'].map(key => [key, h('b')]));
    this.ofReserve = h('span');
    this.interval = h('span');
    this.each = h('span');
    this.when = h('span', {class: 'when'});
    const v = this.values;
    this.element = h('figure', {class: 'budget'},
      h('div', {class: 'plot', pointermove: e => this.point(e), pointerleave: () => this.point()},
        this.svg, this.top),
      h('div', {class: 'axis', 'aria-hidden': 'true'}, this.past, this.when, h('span', {}, 'now')),
      h('figcaption', {},
        h('span', {}, 'Balance ', v.balance),
        h('span', {}, h('i', {class: 'key earned', 'aria-hidden': 'true'}), 'earned ', v.earned),
        h('span', {}, h('i', {class: 'key reserve', 'aria-hidden': 'true'}), 'reserve ', v.reserve, this.ofReserve),
        h('span', {}, h('i', {class: 'key spent', 'aria-hidden': 'true'}), 'spent ', v.spent),
        h('span', {}, h('i', {class: 'key refused', 'aria-hidden': 'true'}), 'refused ', v.refused),
        h('span', {}, 'window ', this.interval, ' ', v.window, this.each)));
  }

  // update draws an upstream's samples, the last one taken at the time now, in room for so many.
  update(upstream, keep, every, now) {
    const {points} = upstream;
    const minutes = keep * every / 60_000;
    Object.assign(this, {upstream, keep, every, now});
    text(this.past, `−${minutes} min`);
    const x = i => (keep - points.length + i) / (keep - 1) * width;
    const most = Math.max(1, ...points.map(p => Math.max(p[field.earned] + p[field.left], p[field.spent])));
    const scale = round(most * 1.1);
    const y = tokens => (height - tokens / scale * (height - 4)).toFixed(1);
    const along = of => points.map((p, i) => `${x(i).toFixed(1)} ${y(of(p))}`);
    const total = along(p => p[field.left] + p[field.earned]);
    const left = along(p => p[field.left]);
    const first = x(0).toFixed(1);
    this.reserve.setAttribute('d', `M${first} ${height}L${left.join('L')}L${width} ${height}Z`);
    this.earned.setAttribute('d', `M${total.join('L')}L${[...left].reverse().join('L')}Z`);
    this.spent.setAttribute('d', `M${along(p => p[field.spent]).join('L')}`);
    this.refused.setAttribute('d', points.map((p, i) => p[field.refused] > 0 ? `M${x(i).toFixed(1)} 0v9` : '').join('') || 'M0 0');
    text(this.top, `${count(scale)} tokens`);
    this.show();
  }

  // point chooses the sample under the pointer, or the last one.
  point(event) {
    if (!this.upstream) return;
    this.chosen = undefined;
    if (event) {
      const box = this.svg.getBoundingClientRect();
      const back = Math.round((box.right - event.clientX) / box.width * (this.keep - 1));
      if (back >= 0 && back < this.upstream.points.length) this.chosen = back;
    }
    this.show();
  }

  show() {
    const {upstream, keep, every, now, values: v} = this;
    const back = Math.min(this.chosen ?? 0, upstream.points.length - 1);
    const p = upstream.points.at(-1 - back);
    const x = (keep - 1 - back) / (keep - 1) * width;
    this.cursor.setAttribute('x1', x);
    this.cursor.setAttribute('x2', x);
    this.cursor.setAttribute('visibility', this.chosen === undefined ? 'hidden' : 'visible');
    text(this.when, this.chosen === undefined ? '' : at(now - back * every));
    text(v.balance, decimal(p[field.earned] + p[field.left]));
    text(v.earned, decimal(p[field.earned]));
    text(v.reserve, count(p[field.left]));
    text(this.ofReserve, ` of ${count(upstream.reserve)}`);
    text(v.spent, count(p[field.spent]));
    text(v.refused, count(p[field.refused]));
    text(this.interval, `${upstream.interval} s:`);
    text(v.window, count(p[field.firsts]));
    text(this.each, ` first attempts × ${upstream.ratio}`);
    if (this.chosen === undefined) {
      this.svg.setAttribute('aria-label', `Retry budget: ${decimal(p[field.earned] + p[field.left])} tokens, of which ${decimal(p[field.earned])} earned; ` +
        `${count(p[field.spent])} spent and ${count(p[field.refused])} refused in the last ${upstream.interval} seconds`);
    }
  }
}

// round goes up to 1, 2 or 5 times a power of ten.
function round(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].find(step => step * power >= n) * power;
}
