
'use strict';

// The script draws the page from JSON: that of -o json, in the page itself, or, for the board, that which the board sends. What the
// three pages have in common comes first; then each has a description of its tables. Data becomes text nodes and never markup.
const byId = (id) => document.getElementById(id);
const kind = document.documentElement.dataset.kind;
const number = new Intl.NumberFormat('en').format;
const natural = new Intl.Collator('en', { numeric: true }).compare;
const many = (n, one, more = one + 's') => number(n) + ' ' + (n === 1 ? one : more);
const sum = (rows, of) => rows.reduce((total, row) => total + of(row), 0);
const groups = (rows, key) => {
  const all = new Map();
  for (const row of rows) {
    const at = key(row);
    if (all.has(at)) all.get(at).push(row); else all.set(at, [row]);
  }
  return all;
};

// Anyone may have written a name or a message: characters that control the text around them are shown, not obeyed.
const printable = (text) => text.replace(/[\p{Cc}\p{Bidi_Control}]/gu, (c) => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0'));
const drawings = new Set(['svg', 'g', 'path', 'rect', 'line', 'text', 'tspan', 'circle']);

// h makes an element: h('b.late', {title: 'x'}, children). Absent children are left out, and other children become text.
const h = (name, attributes, ...children) => {
  const [tag, ...classes] = name.split('.');
  const made = drawings.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  if (classes.length > 0) made.setAttribute('class', classes.join(' '));
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  const there = children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false && child !== '');
  made.append(...there.map((child) => (child instanceof Node ? child : printable(String(child)))));
  return made;
};
const setText = (element, text) => { if (element.textContent !== text) element.textContent = text; };

// ---- Time. An instant is in milliseconds since 1970, and a span in milliseconds. ----

const never = Date.UTC(9999, 0);
const instant = (text) => (text ? Date.parse(text) || never : undefined);
const units = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, 'µs': 1e-3, ns: 1e-6 };
const duration = (text) => sum([...(text ?? '').matchAll(/([\d.]+)(h|ms|µs|ns|m|s)/g)], ([, n, unit]) => n * units[unit]);
// span writes a span as kubectl does: its two largest units.
const span = (ms) => {
  const s = ms > 0 ? Math.max(1, Math.round(ms / 1000)) : 0;
  const parts = [[Math.floor(s / 31_536_000), 'y'], [Math.floor(s / 86400) % 365, 'd'], [Math.floor(s / 3600) % 24, 'h'], [Math.floor(s / 60) % 60, 'm'], [s % 60, 's']];
  const first = parts.findIndex(([n]) => n > 0);
  return first < 0 ? '0s' : parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => n + unit).join('');
};
let clock = () => Date.now();
const clockTime = (ms) => {
  if (ms >= never) return 'practically never';
  const iso = new Date(ms).toISOString();
  return (iso.slice(0, 10) === new Date(clock()).toISOString().slice(0, 10) ? '' : iso.slice(0, 10) + ' ') + iso.slice(11, 19) + 'Z';
};
const until = (ms) => {
  const left = ms - clock();
  if (ms >= never) return 'practically never';
  if (kind !== 'board') return left > 0 ? 'in ' + span(left) : 'now';
  return left > 0 ? 'in ' + span(left + 499) : left > -1000 ? 'now' : span(-left - 499) + ' late';
};
// Running times: the board updates what they say every second.
const running = {
  due: (ms) => until(ms), since: (ms) => 'for ' + span(Math.max(0, clock() - ms)), ago: (ms) => span(Math.max(0, clock() - ms)) + ' ago',
  waits: (ms) => (clock() - ms >= 1000 ? 'due ' + span(clock() - ms) + ' ago' : until(ms)),
};
const tick = (element) => {
  const ms = Number(element.dataset.at);
  setText(element, running[element.dataset.runs](ms));
  if (element.dataset.runs === 'due') element.classList.toggle('bad', kind === 'board' && ms < clock() - 1000);
};
const runs = (how, ms) => {
  const made = h(how === 'due' || how === 'waits' ? 'b.time' : 'span.soft.time', { 'data-runs': how, 'data-at': ms });
  tick(made);
  return made;
};

// ---- Columns and the parts of their cells. ----

// column describes a column: its title, its cells, and the values that it is sorted by; a number is on the right.
const column = (title, cell, value) => ({ title, cell, value });
const amount = (title, cell, value = cell) => ({ title, cell: (row) => (cell === value ? countOf(cell(row)) : cell(row)), value, n: true });
const sub = (...text) => h('span.sub', {}, text);
const soft = (text) => h('span.soft', {}, text);
const bad = (text) => h('b.bad', {}, text);
const code = (text) => h('code', {}, text.split(/(?<=[/=:])/).flatMap((part, i) => [i > 0 && h('wbr'), part]));
const named = (row) => [row.namespace && soft(row.namespace + '/'), row.namespace && h('wbr'), row.name];
const workload = (row) => [soft(row.kind + ' '), ...named(row)];
const ownerOf = (pod) => (pod.owner ? pod.owner.kind + '/' + pod.owner.name : '');
const ownerColumn = column('Owner', (pod) => [pod.owner && [soft(pod.owner.kind + '/'), h('wbr'), pod.owner.name], pod.budgets?.map((budget) => sub('budget ', budget))], ownerOf);
const fullName = (row) => row.namespace + '/' + row.name;
// chosenBy is a button that lists the pods with all of some words.
const chosenBy = (text, ...words) => h('button', { type: 'button', 'data-find': JSON.stringify(words.filter(Boolean)) }, text);
const countOf = (n, wrong) => (n > 0 && wrong ? bad(number(n)) : n > 0 ? number(n) : soft('0'));
const bar = (part, whole, wrong) => whole > 0 && h('svg.share' + (wrong ? '.wrong' : ''), { viewBox: '0 0 60 6', 'aria-hidden': 'true' },
  h('rect.whole', { width: 60, height: 6, rx: 1 }), h('rect', { width: Math.min(60, 60 * part / whole), height: 6, rx: 1 }));
const share = (part, whole, wrong) => [bar(part, whole, wrong), countOf(part, wrong), soft(' of ' + number(whole))];
const toleration = (t) => {
  if (!t) return 'not tolerated';
  const what = !t.key ? 'everything' : t.operator === 'Exists' ? t.key + '=*' : t.key + (t.value ? '=' + t.value : '');
  return 'toleration: ' + what + (t.effect ? ':' + t.effect : '') + (t.tolerationSeconds === undefined ? ' forever' : ' for ' + t.tolerationSeconds + 's');
};
const holds = (pod) => pod.answer?.says === 'Wait' || pod.answer?.says === 'Hold';
const heldBy = ({ answer }) => 'held by policy ' + answer.policy + ': ' + answer.reason + (answer.leavesAt ? ', until ' + clockTime(instant(answer.leavesAt)) : '');
const leaves = (pod) => {
  const due = instant(pod.due);
  return due === undefined ? soft('stays') : [pod.about && 'about ', runs(holds(pod) ? 'waits' : 'due', due), due < never && h('span.sub.time', {}, clockTime(due)), holds(pod) && sub(heldBy(pod))];
};
const why = (pod) => [pod.taint && code(pod.taint), sub(pod.reason || (pod.taint || pod.toleration ? toleration(pod.toleration) : ''))];
const loss = (pod) => [pod.lost && h('span.sub.bad', {}, 'lost: no controller replaces it'), pod.localData && h('span.sub.bad', {}, 'loses its local data')];

// ---- The filter of all tables, and what chooses the pods that are listed. ----

const textOf = new WeakMap();
const texts = (value) => {
  if (typeof value !== 'object' || value === null) return ' ' + (value ?? '');
  const name = value.name && (value.namespace || value.kind) ? ' ' + (value.namespace ?? value.kind) + '/' + value.name : '';
  return name + Object.values(value).map(texts).join('');
};
const words = (row) => {
  if (!textOf.has(row)) textOf.set(row, (texts(row) + ' ').toLowerCase());
  return textOf.get(row);
};
let filter = [];
let chosen = null; // which pods are listed: {title, has}
const keyOf = (row) => row.uid ?? row.id ?? [row.kind, row.namespace, row.name].join('/');
const matches = (row) => filter.every((word) => words(row).includes(word));

// ---- Tables, of which a few rows are drawn: more on demand. ----

const fewRows = 20;
const same = (a, b) => a.isEqualNode(b);
// become changes a row to what a new one shows, in place, so that the focus stays where it is.
const become = (row, fresh) => {
  [...fresh.cells].forEach((cell, i) => {
    const old = row.cells[i];
    if (same(old, cell)) return;
    const place = old.contains(document.activeElement) ? [...old.querySelectorAll('button')].indexOf(document.activeElement) : -1;
    old.replaceWith(cell);
    if (place >= 0) (cell.querySelectorAll('button')[place] ?? row).focus({ preventScroll: true });
  });
};

class Table {
  constructor({ id, title, short = title, hint, none, columns }) {
    Object.assign(this, { id, columns, none, all: [], drawn: new Map(), limit: fewRows });
    this.count = h('span.count');
    this.heads = columns.map((column) => {
      const sorts = h('button', { type: 'button' }, column.title);
      sorts.addEventListener('click', () => this.sortBy(column));
      return h('th' + (column.n ? '.n' : ''), { role: 'columnheader', scope: 'col' }, sorts);
    });
    this.body = h('tbody', { role: 'rowgroup' });
    this.table = h('table' + (columns.slice(1).every((column) => column.n) ? '.slim' : ''), { role: 'table', 'aria-labelledby': id + '-title' },
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, this.heads)), this.body);
    this.more = h('button.more', { type: 'button' });
    this.more.addEventListener('click', () => { this.limit = Math.max(this.limit * 5, 100); this.draw(); });
    this.nothing = h('p.hint.nothing', {}, none);
    this.only = h('p.only', { hidden: '' });
    this.section = h('section', { id, tabindex: -1, 'data-short': short, 'aria-labelledby': id + '-title' },
      h('h2', { id: id + '-title' }, title, ' ', this.count), hint && h('p.hint', {}, hint), this.only, this.nothing, this.table, this.more);
  }
  set(rows) {
    this.all = rows;
    this.draw();
  }
  sortBy(column) {
    this.down = this.sorted === column && !this.down;
    this.sorted = column;
    this.columns.forEach((other, i) => {
      if (other === column) this.heads[i].setAttribute('aria-sort', this.down ? 'descending' : 'ascending'); else this.heads[i].removeAttribute('aria-sort');
    });
    say('Sorted by ' + column.title + ', ' + (this.down ? 'descending' : 'ascending') + '.');
    this.draw();
  }
  rows() {
    let rows = filter.length > 0 ? this.all.filter(matches) : this.all;
    const only = this.id === 'pods' && chosen;
    if (only) rows = rows.filter(only.has);
    this.only.hidden = !only;
    if (only) this.only.replaceChildren(h('b', {}, only.title), ' ', h('button', { type: 'button', 'data-find': '[]' }, 'Show all pods'));
    if (!this.sorted) return rows;
    const by = (value) => (value === undefined || value === '' ? null : value);
    const values = rows.map((row) => [by(this.sorted.value(row)), row]);
    const order = (a, b) => (a === null || b === null ? (a === null) - (b === null) : typeof a === 'number' ? a - b : natural(a, b));
    return values.sort(([a], [b]) => (this.down && a !== null && b !== null ? -1 : 1) * order(a, b)).map(([, row]) => row);
  }
  draw() {
    const rows = this.rows();
    const listed = rows.slice(0, this.limit);
    const kept = new Map();
    let next = this.body.firstElementChild;
    for (const row of listed) {
      const key = keyOf(row);
      let old = this.drawn.get(key);
      if (!old) old = { tr: this.row(row, key), row };
      else if (old.row !== row) become(old.tr, this.row(row, key));
      old.row = row;
      kept.set(key, old);
      if (old.tr === next) next = next.nextElementSibling; else this.move(old.tr, next);
    }
    for (const [key, old] of this.drawn) {
      if (kept.get(key) === old) continue;
      if (old.tr.contains(document.activeElement)) this.section.focus({ preventScroll: true });
      old.tr.remove();
    }
    this.drawn = kept;
    this.shown = rows.length;
    this.section.hidden = this.all.length === 0 && !this.none;
    this.table.hidden = listed.length === 0;
    this.nothing.hidden = this.all.length > 0 || !this.none;
    this.more.hidden = listed.length === rows.length;
    setText(this.more, 'Show more: ' + number(rows.length - listed.length) + ' of ' + number(rows.length) + ' are not listed');
    setText(this.count, rows.length === this.all.length ? (rows.length > 0 ? number(rows.length) : '') : number(rows.length) + ' of ' + number(this.all.length));
    this.section.dataset.rows = rows.length;
  }
  move(tr, next) {
    const focused = tr.contains(document.activeElement) ? document.activeElement : null;
    this.body.insertBefore(tr, next);
    focused?.focus({ preventScroll: true });
  }
  row(row, key) {
    return h('tr', { role: 'row', id: this.id + '.' + key, tabindex: -1 }, this.columns.map((column, i) => h(
      (i === 0 ? 'th' : 'td') + (column.n ? '.n' : ''),
      i === 0 ? { role: 'rowheader', scope: 'row' } : { role: 'cell', 'data-label': column.title }, column.cell(row))));
  }
}
const podColumn = column('Pod', named, fullName);
const nodeColumn = column('Node', (pod) => pod.node && chosenBy(pod.node, pod.node), (pod) => pod.node ?? '');

// ---- The timeline: lanes with bars, which last, and marks, each for pods to which the same happens at about the same time. ----

// What happens, in the order of lanes: a shape around the origin, what it means, and the verb for one pod and for several.
const kinds = {
  lost: ['M-7 -4.5L-4.5 -7L0 -2.5L4.5 -7L7 -4.5L2.5 0L7 4.5L4.5 7L0 2.5L-4.5 7L-7 4.5L-2.5 0z', 'lost: no controller replaces them', 'is lost', 'are lost'],
  leaves: ['M-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0z', 'leave', 'leaves', 'leave'],
  earlier: ['M-7.5 0L5.5 -7.5V7.5z', 'leave earlier than without the plan', 'leaves earlier', 'leave earlier'],
  later: ['M7.5 0L-5.5 -7.5V7.5z', 'leave later than without the plan', 'leaves later', 'leave later'],
  same: ['M0 -7.5L7.5 0L0 7.5L-7.5 0z', 'leave at the same time with or without the plan', 'leaves as without the plan', 'leave as without the plan'],
  stays: ['M-5.5 -5.5h11v11h-11z', 'stay, but would leave without the plan', 'stays', 'stay'],
  held: ['M-5.5 -6.5h4v13h-4zM1.5 -6.5h4v13h-4z', 'are held by policies when they are due', 'is held', 'are held'],
  waits: ['M-6.5 -6.5h13L0 0L6.5 6.5h-13L0 0z', 'find no room', 'finds no room', 'find no room'],
  unreachable: ['M-9 -3.5h18v7h-18z', 'nodes are unreachable'],
  tainted: ['M-9 -4h18v8h-18z', 'nodes have a NoExecute taint'],
  fewer: ['M-9 -1.5h18v3h-18z', 'workloads have fewer ready replicas'],
  none: ['M-9 -4h18v8h-18z', 'workloads have no ready replica'],
};
const glyph = (name) => h('svg.glyph.' + name, { viewBox: '-10 -10 20 20', 'aria-hidden': 'true' }, h('path', { d: kinds[name][0] }));
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000, 7_776_000, 31_536_000, 315_360_000, 3_153_600_000].map((s) => s * 1000);
const mostLanes = 12;

// axis places spans from the start. It is linear, or logarithmic if that would squeeze most of them at its beginning.
const axis = (spans, end, left, right) => {
  const later = spans.filter((ms) => ms > 0).sort((a, b) => a - b);
  const last = Math.max(end ?? 0, later.at(-1) ?? 0) || 60_000;
  const middle = later[Math.floor(later.length / 2)] ?? last;
  const logarithmic = last > 30 * middle;
  const x = (ms) => left + (right - left) * (logarithmic ? Math.log1p(Math.max(0, ms) / middle) / Math.log1p(last / middle) : Math.max(0, ms) / last);
  const apart = 72;
  const step = steps.find((ms) => x(ms) - left >= apart) ?? last;
  const round = logarithmic ? steps.filter((ms) => ms < last) : Array.from({ length: Math.floor(last / step) }, (_, i) => (i + 1) * step);
  const ticks = [0];
  for (const ms of round) if (x(ms) - x(ticks.at(-1)) >= apart && (right - x(ms) >= apart || ms === last)) ticks.push(ms);
  if (ticks.at(-1) !== last) ticks.push(last);
  return { x, ticks, logarithmic };
};

class Timeline {
  constructor() {
    this.about = h('p.about', { 'aria-hidden': 'true' }, soft('Arrow keys move between marks. Enter or a click lists the pods of a mark.'));
    this.legend = h('ul.legend', { 'aria-label': 'Legend' });
    this.chart = h('div.chart');
    this.section = h('section', { id: 'timeline', 'aria-labelledby': 'timeline-title', tabindex: -1 }, h('h2', { id: 'timeline-title' }, 'Timeline'), this.legend, this.about, this.chart);
    this.chart.addEventListener('keydown', (event) => this.key(event));
    this.chart.addEventListener('click', (event) => this.choose(event.target.closest('.mark')));
    for (const what of ['focusin', 'pointerover']) this.chart.addEventListener(what, (event) => this.tell(event.target.closest('[aria-label]')));
    let width = 0;
    new ResizeObserver(() => {
      if (this.data && width !== this.chart.clientWidth) this.set(this.data);
      width = this.chart.clientWidth;
    }).observe(this.chart);
  }
  // set draws {start, end, note, counts of bars, lanes: [{kind, name, detail, answer, bars: [[{kind, from, to, what}]], marks: [{kind, at, pod}]}]}.
  set(data) {
    this.data = data;
    this.section.hidden = !data.lanes.some((lane) => lane.marks.length + (lane.bars ?? []).flat().length > 0);
    if (this.section.hidden) return;
    const focused = this.chart.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const current = this.current ?? focused;
    this.width = Math.max(280, this.chart.clientWidth || 960);
    this.narrow = this.width < 600;
    const spans = data.lanes.flatMap((lane) => [...lane.marks.map((mark) => mark.at), ...(lane.bars ?? []).flat().flatMap((bar) => [bar.from, bar.to])]).map((at) => at - data.start);
    this.axis = axis(spans, data.end - data.start, 34, this.width - 44);
    const counts = { ...data.counts };
    for (const lane of data.lanes) for (const mark of lane.marks) counts[mark.kind] = (counts[mark.kind] ?? 0) + 1;
    this.legend.replaceChildren(...Object.keys(kinds).filter((name) => counts[name]).map((name) => h('li', {}, glyph(name), kinds[name][1] + ' ', h('b', {}, number(counts[name])))),
      ...[data.note, this.axis.logarithmic && 'The axis is logarithmic.'].filter(Boolean).map((text) => h('li.soft', {}, text)));
    this.y = 40;
    this.marks = [];
    this.bands = [];
    const lanes = data.lanes.map((lane) => this.lane(lane));
    const { x, ticks } = this.axis;
    const height = this.y + 8;
    this.chart.replaceChildren(h('svg', { role: 'group', 'aria-label': 'When it happens', width: this.width, height, viewBox: '0 0 ' + this.width + ' ' + height },
      this.bands, h('g.axis', { 'aria-hidden': 'true' }, ticks.map((ms) => h('g', { transform: 'translate(' + x(ms) + ' 0)' },
        h('line', { y1: 36, y2: height }), h('text.label', { y: 14 }, ms === 0 ? (kind === 'simulate' ? 'start' : 'now') : '+' + span(ms)),
        h('text', { y: 29 }, this.tickTime(ms))))), lanes));
    const marks = this.marks.flat();
    (marks.find((mark) => mark.dataset.key === current) ?? marks[0])?.setAttribute('tabindex', 0);
    if (focused) marks.find((mark) => mark.dataset.key === focused)?.focus({ preventScroll: true });
  }
  tickTime(ms) {
    const iso = new Date(Math.min(this.data.start + ms, never)).toISOString();
    return this.data.start + ms >= never ? '' : ms > 172_800_000 ? iso.slice(0, 10) : iso.slice(11, 19);
  }
  lane(lane) {
    const top = this.y;
    const label = lane.kind + ' ' + lane.name;
    const shown = lane.kind === 'Node' ? lane.name : label;
    const drawn = [h('text.name', { x: 12, y: top + 18 }, shown.length > this.width / 8 ? shown.slice(0, this.width / 16) + '…' + shown.slice(-this.width / 18) : shown, !this.narrow && lane.detail && h('tspan.detail', { dx: 8 }, lane.detail))];
    drawn.push(h('text.answer', this.narrow ? { x: 12, y: top + 34 } : { x: this.width - 12, y: top + 18, class: 'answer right' }, lane.answer));
    this.y += this.narrow ? 42 : 26;
    for (const bars of lane.bars ?? []) {
      if (bars.length === 0) continue;
      drawn.push(bars.map((bar) => this.bar(label, bar)));
      this.y += 15;
    }
    for (const name of Object.keys(kinds)) {
      const marks = lane.marks.filter((mark) => mark.kind === name);
      if (marks.length > 0) drawn.push(this.line(label, name, marks));
    }
    this.y += 6;
    this.bands.push(h('rect.band', { y: top, width: this.width, height: this.y - top, rx: 5 }));
    this.y += 5;
    return h('g', { role: 'group', 'aria-label': [label, lane.detail, lane.answer].filter(Boolean).join(', ') }, drawn);
  }
  bar(label, { kind, from, to, what }) {
    const { x } = this.axis;
    const left = x(from - this.data.start);
    const high = { fewer: 4, unreachable: 7 }[kind] ?? 9;
    return h('rect.bar.' + kind, { role: 'img', 'aria-label': label + ', ' + this.during(from, to) + ': ' + what, x: left, y: this.y + 6 - high / 2, width: Math.max(4, x(to - this.data.start) - left), height: high, rx: 2 });
  }
  during(from, to) {
    const one = (at) => (kind === 'simulate' ? '+' + span(at - this.data.start) : until(at));
    return one(from) === one(to) ? one(from) : one(from) + ' to ' + one(to);
  }
  // line draws marks of one kind. Marks that would overlap become one.
  line(label, name, marks) {
    marks.sort((a, b) => a.at - b.at);
    const line = [];
    const { x } = this.axis;
    for (let i = 0; i < marks.length;) {
      const first = x(marks[i].at - this.data.start);
      let end = i + 1;
      while (end < marks.length && x(marks[end].at - this.data.start) - first < (end > i + 1 ? 52 : 20)) end++;
      const of = marks.slice(i, end);
      const n = of.length;
      const title = label + ', ' + this.during(of[0].at, of[n - 1].at) + ': ' + many(n, 'pod') + ' ' + kinds[name][n === 1 ? 2 : 3];
      const some = of.slice(0, 3).map((mark) => fullName(mark.pod)).join(', ') + (n > 3 ? ' and ' + number(n - 3) + ' more' : '');
      const size = n > 1 ? 1.1 + Math.min(Math.log10(n) * 0.1, 0.4) : 1;
      const made = h('g.mark.' + name, { role: 'button', tabindex: -1, 'aria-label': title + ': ' + some, 'data-key': label + ' ' + name + ' ' + i, 'data-all': n, transform: 'translate(' + first + ' ' + (this.y + 11) + ')' },
        h('rect.target', { x: -13, y: -13, width: 26, height: 26 }), h('circle.ring', { r: 12 }), h('path', { d: kinds[name][0], transform: 'scale(' + size + ')' }),
        n > 1 && h('text', { x: 12, y: 4 }, n < 10_000 ? number(n) : Math.round(n / 1000) + 'k'));
      made.pods = () => {
        const keys = new Set(of.map((mark) => keyOf(mark.pod)));
        return { title, has: (row) => keys.has(keyOf(row)) };
      };
      line.push(made);
      i = end;
    }
    this.y += 25;
    this.marks.push(line);
    return line;
  }
  tell(of) {
    if (of && this.chart.contains(of)) setText(this.about, of.getAttribute('aria-label'));
  }
  key(event) {
    const mark = event.target.closest('.mark');
    if (!mark || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = this.marks.flat();
    const line = this.marks.findIndex((marks) => marks.includes(mark));
    const at = (other) => other.getBoundingClientRect().left;
    const nearest = (marks) => marks?.reduce((best, other) => (Math.abs(at(other) - at(mark)) < Math.abs(at(best) - at(mark)) ? other : best));
    const go = {
      ArrowRight: () => all[all.indexOf(mark) + 1], ArrowLeft: () => all[all.indexOf(mark) - 1], Home: () => all[0], End: () => all.at(-1),
      ArrowDown: () => nearest(this.marks[line + 1]), ArrowUp: () => nearest(this.marks[line - 1]), Enter: () => this.choose(mark), ' ': () => this.choose(mark),
    }[event.key];
    if (!go) return;
    event.preventDefault();
    const to = go();
    if (!to) return;
    for (const other of all) other.setAttribute('tabindex', other === to ? 0 : -1);
    this.current = to.dataset.key;
    to.focus();
  }
  choose(mark) {
    if (mark) choose(mark.pods());
  }
}

// ---- The page: figures, sections, and the filter of all tables. ----

const say = (text) => setText(byId('status'), text);
const timeline = new Timeline();
const tables = {};
const drawAll = () => {
  for (const table of Object.values(tables)) table.draw();
  const { pods, nodes } = tables;
  setText(byId('filter-count'), filter.length === 0 ? '' : many(pods.shown, 'pod') + ', ' + many(nodes.shown, 'node'));
};
const input = h('input', { id: 'filter-text', type: 'search', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'filter-count' });
const search = (text) => {
  input.value = text;
  filter = text.toLowerCase().split(/\s+/).filter(Boolean);
  drawAll();
};
const choose = (pods) => {
  chosen = pods;
  drawAll();
  goTo(byId('pods'));
};
const goTo = (element) => {
  element.scrollIntoView({ block: 'start' });
  element.focus({ preventScroll: true });
};
const figures = (all) => {
  const parts = all.filter(Boolean).map(([label, value, of, wrong]) => h('div', {}, h('dt', {}, label),
    h('dd', {}, h('strong' + (wrong && value !== 0 && value !== '0' ? '.bad' : value === 0 ? '.soft' : ''), {}, typeof value === 'number' ? number(value) : value), of && ' ', of && soft(of))));
  const before = byId('figures');
  before.hidden = false;
  if (before.childElementCount !== parts.length) before.replaceChildren(...parts);
  else parts.forEach((part, i) => { if (!same(part, before.children[i])) before.children[i].replaceWith(part); });
};
const list = (id, title, sentences) => sentences?.length > 0 && h('section', { id, 'aria-labelledby': id + '-title', tabindex: -1 },
  h('h2', { id: id + '-title' }, title), h('ul.notes', {}, sentences.map((sentence) => h('li', {}, sentence))));

// begin puts the sections into the page: descriptions of tables, the timeline, and other elements.
const begin = (parts) => {
  const sections = parts.filter(Boolean).map((part) => {
    if (part instanceof Node) return part;
    tables[part.id] = new Table(part);
    return tables[part.id].section;
  });
  byId('static')?.remove();
  byId('main').append(...sections);
  byId('bar').append(h('nav', { 'aria-label': 'Sections' }, sections.map((section) => h('a', { href: '#' + section.id }, section.dataset.short ?? section.querySelector('h2').textContent))),
    h('search.filter', {}, h('label', { for: 'filter-text' }, 'Filter ', h('kbd', {}, '/')), input, h('span', { id: 'filter-count' })));
  input.addEventListener('input', () => search(input.value));
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/' && event.target !== input) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === 'Escape' && (input.value !== '' || chosen)) {
      event.preventDefault();
      chosen = null;
      search('');
      say('Everything is shown again.');
    }
  });
  document.addEventListener('click', (event) => {
    const button = event.target.closest('[data-find]');
    if (!button) return;
    const all = JSON.parse(button.dataset.find).map((word) => ' ' + word.toLowerCase() + ' ');
    choose(all.length > 0 ? { title: button.textContent, has: (row) => all.every((word) => words(row).includes(word)) } : null);
  });
};
const fill = (rows) => {
  for (const [id, table] of Object.entries(tables)) table.all = rows[id] ?? [];
  drawAll();
  for (const link of document.querySelectorAll('nav a')) link.hidden = byId(link.hash.slice(1)).hidden;
};

// Nodes and pods get the name of the zone under which the filter finds them.
const inZones = (nodes, pods) => {
  const zones = new Map(nodes.map((node) => [node.name, node.zone || '(none)']));
  for (const row of nodes) row.in = 'zone:' + zones.get(row.name);
  for (const row of pods) row.in = 'zone:' + (zones.get(row.node) ?? '(none)');
};
const zoneColumn = column('Zone', (zone) => chosenBy(zone.name, 'zone:' + zone.name), (zone) => zone.name);
const zonesOf = (nodes, count) => (nodes.some((node) => node.zone) ? [...groups(nodes, (node) => node.zone || '(none)')].map(([name, of]) => ({ name, nodes: of.length, ...count(of) })) : []);
// lanesOf returns a lane for each node if these are few, and otherwise for each zone.
const lanesOf = (nodes, marks, answer, bars = () => []) => {
  const of = groups(marks, (mark) => mark.pod.node);
  const with_ = nodes.filter((node) => of.has(node.name) || bars([node]).flat().length > 0);
  if (with_.length <= mostLanes) {
    return with_.map((node) => ({ kind: 'Node', name: node.name, detail: node.zone && 'zone ' + node.zone, answer: answer([node], of.get(node.name) ?? []), marks: of.get(node.name) ?? [], bars: bars([node]) }));
  }
  let zones = [...groups(nodes, (node) => node.zone || '(none)')].sort(([a], [b]) => natural(a, b));
  if (zones.length > 2 * mostLanes) zones = [['any of ' + zones.length, nodes]];
  return zones.map(([name, all]) => {
    const here = all.flatMap((node) => of.get(node.name) ?? []);
    return { kind: 'Zone', name, detail: many(all.length, 'node'), answer: answer(all, here), marks: here, bars: bars(all) };
  });
};
const taintsOf = (taints) => taints?.map((taint) => [code(taint), ' ']);

// ---- A plan. ----

const planKind = (pod) => (pod.leaves && pod.lost ? 'lost' : pod.change ? pod.change.toLowerCase() : pod.leaves ? 'same' : undefined);
const placed = (to) => {
  if (!to) return undefined;
  if (to.reason) return [h('b', {}, to.noSuccessor ? 'no successor' : 'no answer'), sub(to.reason)];
  return [to.bound ? h('b', {}, 'not placed') : to.node ? h('b', {}, to.node) : bad('nowhere'), sub(many(to.fits, 'node fits', 'nodes fit')), to.warnings?.map((warning) => h('span.sub.warn', {}, warning.message))];
};
const planned = (withPlaces) => [
  podColumn,
  column('Leaves', (pod) => [leaves(pod), loss(pod)], (pod) => instant(pod.due)),
  nodeColumn,
  column('Change', (pod) => [h('span.time', {}, planKind(pod) && glyph(planKind(pod)), pod.change ? pod.change.toLowerCase() : soft('none')), pod.dueBefore && sub('without the plan ', clockTime(instant(pod.dueBefore)))], (pod) => pod.change ?? ''),
  column('Why', why, (pod) => pod.taint ?? ''),
  ownerColumn,
  amount('Priority', (pod) => [number(pod.priority), sub('grace ', span(pod.gracePeriodSeconds * 1000))], (pod) => pod.priority),
  withPlaces && column('Where to', (pod) => placed(pod.whereTo), (pod) => pod.whereTo?.node ?? ''),
].filter(Boolean);

const drawPlan = (plan) => {
  const start = instant(plan.at);
  clock = () => start;
  const { summary: s, pods } = plan;
  const withPlaces = pods.some((pod) => pod.whereTo);
  inZones(plan.nodes, [...pods, ...plan.preempted ?? []]);
  begin([
    { id: 'zones', title: 'Zones', columns: [
      zoneColumn, amount('Nodes', (zone) => zone.nodes), amount('Emptied', (zone) => zone.emptied),
      amount('Pods leave', (zone) => share(zone.leave, zone.pods), (zone) => zone.leave),
    ] },
    { id: 'workloads', title: 'Workloads that lose replicas', short: 'Workloads', hint: 'The worst first.', columns: [
      column('Workload', (of) => chosenBy(workload(of), of.kind + '/' + of.name, of.namespace), fullName),
      amount('Leave', (of) => share(of.leave, of.replicas), (of) => of.leave),
      amount('Lowest', (of) => [bar(of.lowest, of.replicas), of.lowest === 0 ? bad('none ready') : [number(of.lowest), soft(' of ' + number(of.replicas) + ' ready')]], (of) => of.lowest),
    ] },
    { id: 'budgets', title: 'PodDisruptionBudgets', short: 'Budgets', hint: 'Taint-based evictions ignore them, except where an EvictionPolicy uses the Eviction API.', columns: [
      column('Budget', named, fullName), amount('Pods leave', (of) => of.leave), amount('It allows', (of) => of.allowed),
      column('Breach', (of) => (of.breach ? bad('by ' + number(of.breach)) : 'kept'), (of) => of.breach),
    ] },
    { id: 'policies', title: 'EvictionPolicies', short: 'Policies', columns: [
      column('Policy', (of) => of.name, (of) => of.name), amount('Pods', (of) => of.pods), amount('Held', (of) => of.held), amount('Eviction API', (of) => of.asked),
      column('Pace', (of) => of.pace, (of) => of.pace ?? ''), column('Breaker', (of) => of.tripsAt && [h('b', {}, 'opens ', until(instant(of.tripsAt))), sub(of.trips)], (of) => instant(of.tripsAt)),
    ] },
    timeline.section,
    { id: 'preempted', title: 'Pods that are preempted', short: 'Preempted', hint: 'The scheduler ends them to make room for successors of higher priority.', columns: planned(false) },
    { id: 'pods', title: 'Pods', none: 'There are no pods on these nodes.', columns: planned(withPlaces) },
    { id: 'nodes', title: 'Nodes', hint: 'Taints that the plan adds are underlined, and those that it removes are struck through.', columns: [
      column('Node', (node) => chosenBy(node.name, node.name), (node) => node.name), column('Zone', (node) => node.zone, (node) => node.zone ?? ''),
      amount('Pods leave', (node) => share(node.leave, node.pods), (node) => node.leave),
      column('Emptied', (node) => (node.emptied ? 'yes' : soft('no')), (node) => (node.emptied ? 'yes' : 'no')),
      column('Taints', (node) => [
        node.before?.filter((taint) => !node.after?.includes(taint)).map((taint) => [h('del', {}, code(taint)), ' ']),
        node.after?.map((taint) => [node.before?.includes(taint) ? code(taint) : h('ins', {}, code(taint)), ' ']),
      ], (node) => (node.after ?? []).join(' ')),
    ] },
    list('notes', 'Notes', plan.notes),
  ]);
  const held = pods.some(holds);
  figures([
    [held ? 'pods are due' : 'pods leave', s.leave, 'of ' + number(s.pods)], ['of them at once', s.atOnce],
    [held ? 'the last one is due' : 'the last one leaves', s.last ? until(instant(s.last)) : 'never', s.last && instant(s.last) < never && clockTime(instant(s.last))],
    ['pods change', s.changed, 'against now'], ['nodes emptied', s.emptied, 'of ' + number(s.nodes)], ['pods lost', s.podsLost, '', true],
    s.localData && ['lose local data', s.localData, '', true], ['workloads lose every replica', s.workloadsLost, '', true], ['budgets breached', s.budgetsBreached, '', true],
    withPlaces && ['pods fit no node', s.nowhere ?? 0, '', true], s.preempted && ['pods preempted', s.preempted, '', true],
  ]);
  const marks = pods.flatMap((pod) => {
    const at = planKind(pod) && instant(planKind(pod) === 'stays' ? pod.dueBefore : pod.due);
    return at ? [{ kind: planKind(pod), at: Math.max(at, start), pod }] : [];
  });
  const answer = (nodes) => number(sum(nodes, (node) => node.leave)) + ' of ' + many(sum(nodes, (node) => node.pods), 'pod leaves', 'pods leave') + (nodes.every((node) => node.emptied) ? ', emptied' : '');
  timeline.set({ start, end: start, lanes: lanesOf(plan.nodes, marks, answer) });
  fill({
    ...plan, zones: zonesOf(plan.nodes, (of) => ({ emptied: of.filter((node) => node.emptied).length, pods: sum(of, (node) => node.pods), leave: sum(of, (node) => node.leave) }))
      .sort((a, b) => b.leave - a.leave || natural(a.name, b.name)),
    nodes: [...plan.nodes].sort((a, b) => b.leave - a.leave || natural(a.name, b.name)),
  });
};

// ---- A simulation. Its times count from its start. ----

const drawSimulation = (report) => {
  const start = instant(report.at);
  const end = start + duration(report.until);
  clock = () => start;
  const { summary: s, pods, nodes } = report;
  inZones(nodes, pods);
  const plus = (text) => (text === undefined ? '' : '+' + span(duration(text)));
  const timed = (title, of) => column(title, (row) => h('span.time', {}, plus(of(row))), (row) => (of(row) === undefined ? undefined : duration(of(row))));
  // periods returns when the taints of a node are such that is holds.
  const periods = (node, is, kind, what) => {
    const all = [];
    for (const step of [{ at: '0s', taints: node.before ?? [] }, ...node.steps ?? []]) {
      const last = all.at(-1);
      const at = start + duration(step.at);
      const now = (step.taints ?? []).some(is);
      if (now && last?.to !== undefined || now && !last) all.push({ kind, from: at, what }); else if (!now && last && last.to === undefined) last.to = at;
    }
    return all.map((period) => ({ ...period, to: period.to ?? end })).filter((period) => period.from < period.to);
  };
  for (const node of nodes) {
    node.unreachable = periods(node, (taint) => taint.startsWith('node.kubernetes.io/unreachable:'), 'unreachable', 'unreachable');
    node.tainted = periods(node, (taint) => taint.endsWith(':NoExecute'), 'tainted', 'NoExecute taint');
  }
  // union merges overlapping periods of several nodes.
  const union = (of, key) => {
    const all = [];
    for (const [node, period] of of.flatMap((node) => node[key].map((period) => [node, period])).sort(([, a], [, b]) => a.from - b.from)) {
      const last = all.at(-1);
      if (!last || period.from > last.to) all.push({ ...period, nodes: new Set([node]) });
      else { last.to = Math.max(last.to, period.to); last.nodes.add(node); }
    }
    return all.map((period) => ({ ...period, what: period.what + (of.length > 1 ? ': ' + many(period.nodes.size, 'node') : '') }));
  };
  const replicas = (of) => of.steps.map((step, i) => ({
    kind: step.ready === 0 ? 'none' : 'fewer', from: start + duration(step.at), to: i + 1 < of.steps.length ? start + duration(of.steps[i + 1].at) : end,
    what: step.ready + ' of ' + many(of.replicas, 'replica') + ' ready', less: step.ready < of.replicas,
  })).filter((period) => period.less);
  begin([
    { id: 'zones', title: 'Zones', columns: [
      zoneColumn, amount('Nodes', (zone) => zone.nodes), amount('Unreachable', (zone) => zone.unreachable), amount('Tainted', (zone) => zone.tainted), amount('Pods leave', (zone) => zone.left),
    ] },
    { id: 'workloads', title: 'Workloads with fewer ready replicas', short: 'Workloads', hint: 'The worst first.', columns: [
      column('Workload', (of) => chosenBy(workload(of), of.kind + '/' + of.name, of.namespace), fullName),
      amount('Lowest', (of) => [bar(of.lowest, of.replicas), of.lowest === 0 ? bad('0') : number(of.lowest), soft(' of ' + number(of.replicas))], (of) => of.lowest),
      amount('For', (of) => (of.unknown ? 'unknown' : span(duration(of.lowestFor))), (of) => duration(of.lowestFor)),
      amount('From', (of) => plus(of.lowestAt), (of) => duration(of.lowestAt)),
      amount('At the end', (of) => (of.unknown ? 'unknown' : [number(of.atEnd), soft(' of ' + number(of.replicas))]), (of) => of.atEnd),
    ] },
    { id: 'budgets', title: 'PodDisruptionBudgets that are overrun', short: 'Budgets', columns: [
      column('Budget', named, fullName), amount('Asks for', (of) => of.desired), amount('Lowest', (of) => bad(number(of.lowest)), (of) => of.lowest),
      amount('From', (of) => plus(of.lowestAt), (of) => duration(of.lowestAt)), amount('Too few for', (of) => span(duration(of.overrunFor)), (of) => duration(of.overrunFor)),
    ] },
    timeline.section,
    { id: 'story', title: 'What happens', none: 'Nothing happens.', columns: [
      column('When', (of) => plus(of.at) + (of.ends && plus(of.ends) !== plus(of.at) ? ' to ' + plus(of.ends) : ''), (of) => duration(of.at)), column('What', (of) => of.message, (of) => of.message),
    ] },
    { id: 'pods', title: 'Pods that leave, are held or wait', short: 'Pods', none: 'No pod leaves, is held or waits for room.', columns: [
      podColumn, nodeColumn,
      timed('Leaves', (pod) => pod.leavesAt),
      column('Why', (pod) => [pod.taint && code(pod.taint), pod.preemptedBy && bad('preempted by ' + pod.preemptedBy), pod.heldBy && sub('held by policy ', pod.heldBy), loss(pod)], (pod) => pod.taint ?? ''),
      column('Waits for room', (pod) => pod.waitsSince && [pod.waitsUntil ? plus(pod.waitsSince) + ' to ' + plus(pod.waitsUntil) : bad(plus(pod.waitsSince) + ' to the end'), sub(pod.reason)], (pod) => pod.waitsSince && duration(pod.waitsSince)),
      column('Successor', (pod) => [pod.successor, pod.successorNode && sub('on ', pod.successorNode), pod.noSuccessor && sub(pod.noSuccessor), pod.volume && h('span.sub.warn', {}, pod.volume)], (pod) => pod.successor ?? ''),
      ownerColumn,
    ] },
    { id: 'nodes', title: 'Nodes', none: 'No node changes.', columns: [
      column('Node', (node) => chosenBy(node.name, node.name), (node) => node.name), column('Zone', (node) => node.zone, (node) => node.zone ?? ''),
      timed('Unreachable', (node) => node.unreachableAt), amount('Pods leave', (node) => node.left),
      column('Taints over time', (node) => [
        node.before?.length > 0 && h('span.sub', {}, 'at the start ', taintsOf(node.before)),
        node.steps?.map((step) => h('span.sub', {}, plus(step.at) + ' ', step.taints?.length > 0 ? taintsOf(step.taints) : 'none')), node.held && sub(node.held),
      ], (node) => node.steps?.length ?? 0),
    ] },
    list('notes', 'Notes', report.notes), list('not-simulated', 'Not simulated', report.notSimulated),
  ]);
  figures([
    ['nodes become unreachable', s.unreachable], ['nodes get a NoExecute taint', s.tainted], ['pods leave', s.left], ['pods lost', s.podsLost, '', true],
    s.localData && ['lose local data', s.localData, '', true], s.preempted && ['pods preempted', s.preempted, '', true],
    ['workloads have no ready replica', s.workloadsLost, '', true], ['budgets are overrun', s.budgetsOverrun, '', true],
    ['pods have no room at the end', s.nowhere, '', true], s.unattached && ['pods wait for volumes at the end', s.unattached, '', true], s.held && ['due pods are held at the end', s.held],
  ]);
  const left = groups(pods.filter((pod) => pod.leavesAt), (pod) => pod.node);
  for (const node of nodes) node.left = (left.get(node.name) ?? []).length;
  const marks = pods.filter((pod) => pod.leavesAt).map((pod) => ({ kind: pod.lost ? 'lost' : 'leaves', at: start + duration(pod.leavesAt), pod }));
  const worst = (report.workloads ?? []).slice(0, mostLanes);
  const waiting = groups(pods.filter((pod) => pod.waitsSince && pod.owner), (pod) => pod.namespace + ' ' + ownerOf(pod));
  timeline.set({
    start, end, note: worst.length < report.workloads?.length && 'The ' + worst.length + ' worst of ' + number(report.workloads.length) + ' workloads have a row.',
    counts: {
      unreachable: nodes.filter((node) => node.unreachable.length > 0).length, tainted: nodes.filter((node) => node.tainted.length > 0).length,
      none: worst.filter((of) => of.lowest === 0).length, fewer: worst.filter((of) => of.lowest > 0).length,
    },
    lanes: [
      ...lanesOf(nodes, marks, (of, here) => (here.length > 0 ? many(here.length, 'pod leaves', 'pods leave') : ''), (of) => [union(of, 'unreachable'), union(of, 'tainted')]),
      ...worst.map((of) => ({
        kind: of.kind, name: fullName(of), detail: many(of.replicas, 'replica'), answer: number(of.lowest) + ' ready for ' + (of.unknown ? 'an unknown time' : span(duration(of.lowestFor))),
        bars: [replicas(of)], marks: (waiting.get(of.namespace + ' ' + of.kind + '/' + of.name) ?? []).map((pod) => ({ kind: 'waits', at: start + duration(pod.waitsSince), pod })),
      })),
    ],
  });
  fill({
    ...report, zones: zonesOf(nodes, (of) => ({ unreachable: of.filter((node) => node.unreachableAt).length, tainted: of.filter((node) => node.tainted.length > 0).length, left: sum(of, (node) => node.left) }))
      .sort((a, b) => b.left - a.left || natural(a.name, b.name)),
    nodes: [...nodes].sort((a, b) => b.left - a.left || natural(a.name, b.name)),
  });
};

// ---- The board. It receives rows and counts down with the API server's clock. ----

const drawBoard = () => {
  const received = { head: new Map(), sources: new Map(), nodes: new Map(), rules: new Map() };
  const head = () => ({ zones: [], evictions: [], differences: [], noDifference: '', evicted: 0, toGo: {}, ...received.head.get('') });
  const source = (name) => received.sources.get(name) ?? {};
  let ahead = Date.now() - performance.now(); // the last update's time, and since then a monotonic clock
  clock = () => performance.now() + ahead;
  let heard = performance.now();
  let connected = false;
  let pods = [];
  let order = null; // the names of nodes

  const states = { Normal: 'well', PartialDisruption: 'warn', FullDisruption: 'bad' };
  const lateness = (row) => {
    if (row.late === undefined) return soft('not known: ' + row.unknown);
    if (Math.abs(row.late) <= 1) return h('span.well', {}, 'on time');
    return bad(span(Math.abs(row.late) * 1000) + (row.late > 0 ? ' late' : ' early'));
  };
  const ago = (row) => [runs('ago', row.at), h('span.sub.time', {}, clockTime(row.at))];
  const condition = (rule, type) => rule.status?.conditions?.find((is) => is.type === type);
  const problemOf = (rule) => {
    const accepted = condition(rule, 'Accepted');
    const holding = condition(rule, 'Holding');
    if (!accepted) return 'no controller has processed it yet: Taintkeeper does so only in enforce mode, with the controller node-taint-rule';
    const wrong = accepted.status !== 'True' ? accepted : holding?.status === 'True' ? holding : {};
    return wrong.message || wrong.reason;
  };
  const taintOf = (taint) => (taint ? taint.key + (taint.value ? '=' + taint.value : '') + ':' + taint.effect : '');
  begin([
    { id: 'zones', title: 'Zones', none: ' ', hint: 'States and rates assume the default flags of kube-controller-manager and Taintkeeper, and follow from the Ready conditions of the nodes.', columns: [
      zoneColumn, column('State', (zone) => h('b.' + (states[zone.state] ?? 'bad'), {}, zone.state), (zone) => zone.state),
      amount('Nodes', (zone) => zone.nodes), amount('Not ready', (zone) => zone.notReady), amount('Tainted', (zone) => zone.tainted),
      amount('Pods to leave', (zone) => (source('pods').read ? countOf(zone.pods) : '–'), (zone) => zone.pods),
      column('Why it holds', (zone) => [zone.why, zone.held > 0 && sub(many(zone.held, 'node waits', 'nodes wait'), ' for the taint, says Taintkeeper')], (zone) => zone.why ?? ''),
    ] },
    { id: 'workloads', title: 'Workloads that lose pods', short: 'Workloads', columns: [
      column('Workload', (of) => chosenBy(workload(of), of.kind + '/' + of.name, of.namespace), fullName), amount('Pods to leave', (of) => of.pods),
      amount('The first', (of) => runs('due', of.first), (of) => of.first), amount('The last', (of) => runs('due', of.last), (of) => of.last), amount('Held by policies', (of) => of.held),
    ] },
    { id: 'nodes', title: 'Nodes', none: ' ', hint: 'Those with a NoExecute taint first, then those that are not ready.', columns: [
      column('Node', (node) => chosenBy(node.name, node.name), (node) => node.name), column('Zone', (node) => node.zone, (node) => node.zone),
      column('Ready', (node) => [node.ready === 'True' ? 'ready' : bad(node.ready === 'False' ? 'not ready' : 'unknown'), node.cordoned && sub('cordoned')], (node) => node.ready),
      column('Taints', (node) => [node.taints?.map((taint) => h('div', {}, code(taint.text), ' ', taint.since && runs('since', taint.since))), node.held && sub(node.held)], (node) => node.taints?.length ?? 0),
      column('Last write', (node) => node.lastWrite && [node.lastWrite.by, ' ', runs('ago', instant(node.lastWrite.at))], (node) => instant(node.lastWrite?.at)),
      amount('Pods to leave', (node) => countOf(node.pods?.length ?? 0), (node) => node.pods?.length ?? 0),
    ] },
    { id: 'stuck', title: 'Pods that were evicted and still exist', short: 'Stuck', hint: 'kubectl taintkeeper why POD says what helps.', columns: [
      podColumn, column('Terminating', (pod) => runs('since', instant(pod.since)), (pod) => instant(pod.since)), column('Waits for', (pod) => [pod.waits, pod.finalizers && sub(pod.finalizers.join(', '))], (pod) => pod.waits), nodeColumn, ownerColumn,
    ] },
    timeline.section,
    { id: 'pods', title: 'Pods that must leave, soonest first', short: 'Pods', none: ' ', columns: [
      podColumn, column('Leaves', leaves, (pod) => pod.at), nodeColumn, column('Why', why, (pod) => pod.taint), ownerColumn, amount('Priority', (pod) => number(pod.priority), (pod) => pod.priority),
    ] },
    { id: 'rules', title: 'NodeTaintRules', short: 'Rules', none: ' ', columns: [
      column('Rule', (rule) => [rule.name, rule.spec?.dryRun && sub('dry run')], (rule) => rule.name),
      column('Condition', ({ spec }) => [spec?.condition?.type + '=' + spec?.condition?.status, spec?.condition?.reasons && sub(spec.condition.reasons.join(', '))], (rule) => rule.spec?.condition?.type ?? ''),
      column('Taint', (rule) => code(taintOf(rule.spec?.taint)), (rule) => taintOf(rule.spec?.taint)),
      ...['Selected', 'Matching', 'Tainted', 'Held'].map((title) => amount(title, (rule) => [countOf(rule.status?.[title.toLowerCase()] ?? 0), title === 'Tainted' && rule.spec?.maxTainted !== undefined && sub('of ' + rule.spec.maxTainted)], (rule) => rule.status?.[title.toLowerCase()] ?? 0)),
      column('Why', problemOf, (rule) => problemOf(rule) ?? ''),
    ] },
    { id: 'evictions', title: 'Evictions, newest first', short: 'Evictions', none: ' ', hint: 'The last 200 since the board started. The API server records deletions to the second, so lateness is in whole seconds. A difference of at most one second counts as on time.', columns: [
      podColumn, column('Evicted', ago, (row) => row.at), column('Lateness', lateness, (row) => row.late), column('By', (row) => row.by, (row) => row.by), nodeColumn, column('Taint', (row) => row.taint && code(row.taint), (row) => row.taint ?? ''),
    ] },
    { id: 'differences', title: 'What shadow mode found', short: 'Shadow mode', none: ' ', hint: 'The last 200. kubectl taintkeeper status also counts the evictions that were on time.', columns: [
      column('Node', (row) => row.node, (row) => row.node), column('Found', ago, (row) => row.at), column('Built-in', (row) => bad(row.kind), (row) => row.kind), column('What happened', (row) => row.sentence, (row) => row.sentence),
    ] },
  ]);

  const both = () => source('nodes').read && source('pods').read;
  const answerOf = () => {
    if (pods.length === 0 && !both()) return ['nodes', 'pods'].some((name) => source(name).state === 'denied') ? 'Some of the cluster cannot be read.' : received.sources.size > 0 ? 'Reading nodes and pods.' : 'Reading the cluster.';
    if (pods.length === 0) return 'No pod needs to leave.';
    const { due, held, next } = head().toGo;
    const parts = [
      due > 0 && number(due) + (due === 1 ? ' is' : ' are') + ' due and still there',
      held > 0 && (held === 1 ? '1 is' : (held === pods.length ? 'all' : number(held)) + ' are') + ' held by policies',
      next && (pods.length === 1 ? 'due ' : 'the next ') + until(instant(next)),
    ].filter(Boolean);
    return many(pods.length, 'pod') + ' must leave' + (parts.length > 0 ? ': ' + parts.join(', ') : '') + '.';
  };
  const showStale = () => {
    const broken = [...received.sources.values()].filter((row) => row.state === 'broken');
    const since = Math.min(...broken.map((row) => row.since ?? Infinity));
    let text = '';
    if (!connected && received.head.size > 0) text = 'Not current since ' + clockTime(heard + ahead) + ': the board does not answer. If it has stopped, start it again: kubectl taintkeeper board.';
    else if (broken.length > 0) text = 'Not current' + (since < Infinity ? ' since ' + clockTime(since) : '') + '. ' + (broken.find((row) => row.id === 'server') ?? broken[0]).problem;
    byId('stale').hidden = text === '';
    setText(byId('stale'), printable(text));
  };
  const showNumbers = () => {
    const nodes = [...received.nodes.values()];
    const { zones, evicted, toGo } = head();
    const known = (read, n) => (read ? n : '–');
    setText(byId('answer'), answerOf());
    setText(byId('clock'), clockTime(clock()));
    document.title = (pods.length > 0 ? number(pods.length) + ' to leave · ' : '') + 'Board: ' + byId('cluster').textContent;
    figures([
      ['pods must leave', known(both(), pods.length), toGo.held > 0 && number(toGo.held) + ' held by policies'],
      ['are due and still there', known(both(), toGo.due ?? 0), toGo.overdue > 0 && number(toGo.overdue) + ' overdue', both()],
      ['nodes have a NoExecute taint', known(source('nodes').read, nodes.filter(tainted).length), source('nodes').read && 'of ' + number(nodes.length)],
      ['zones are disrupted', known(source('nodes').read, zones.filter((zone) => zone.state !== 'Normal').length), source('nodes').read && 'of ' + number(zones.length)],
      ['evictions seen', known(source('pods').read, evicted)],
    ]);
  };
  const tainted = (node) => (node.taints ?? []).some((taint) => taint.since);
  const rank = (node) => (tainted(node) ? 0 : node.ready !== 'True' ? 1 : 2);
  const none = (id, kinds, text) => {
    const unread = kinds.map(source).find((row) => row.state && (!row.read || row.problem));
    setText(tables[id].nothing, printable(!unread ? text : unread.problem || 'Reading ' + unread.id + '.'));
  };
  const draw = () => {
    order ??= [...received.nodes.keys()].sort(natural); // names are compared only when a node is new
    const nodes = order.map((name) => received.nodes.get(name)).filter(Boolean).sort((a, b) => rank(a) - rank(b));
    pods = nodes.flatMap((node) => node.pods ?? []);
    for (const pod of pods) pod.at ??= instant(pod.due);
    pods.sort((a, b) => a.at - b.at || a.priority - b.priority || (fullName(a) < fullName(b) ? -1 : 1));
    const stuck = nodes.flatMap((node) => node.stuck ?? []).sort((a, b) => instant(a.since) - instant(b.since) || natural(fullName(a), fullName(b)));
    inZones(nodes, [...pods, ...stuck]);
    const byZone = groups(nodes, (node) => node.zone);
    const newest = (rows) => rows.sort((a, b) => b.at - a.at || (keyOf(a) < keyOf(b) ? -1 : 1));
    const byWorkload = groups(pods, (pod) => pod.namespace + ' ' + (pod.owner ? ownerOf(pod) : 'Pod/' + pod.name));
    const zones = head().zones.map((zone) => {
      const here = byZone.get(zone.name) ?? [];
      return { ...zone, tainted: here.filter(tainted).length, pods: sum(here, (node) => node.pods?.length ?? 0), held: here.filter((node) => node.held).length };
    });
    fill({
      zones: zones.sort((a, b) => b.pods - a.pods || b.notReady - a.notReady || natural(a.name, b.name)),
      workloads: [...byWorkload.values()].map((of) => ({ kind: 'Pod', name: of[0].name, ...of[0].owner, namespace: of[0].namespace, pods: of.length, first: of[0].at, last: of.at(-1).at, held: of.filter(holds).length })).sort((a, b) => b.pods - a.pods || a.first - b.first),
      pods, nodes, stuck, rules: [...received.rules.values()].sort((a, b) => natural(a.name, b.name)), evictions: newest([...head().evictions]), differences: newest([...head().differences]),
    });
    const start = clock();
    const marks = pods.filter((pod) => pod.at < never).map((pod) => ({ kind: holds(pod) ? 'held' : pod.owner ? 'leaves' : 'lost', at: Math.max(start, pod.at), pod }));
    timeline.set({ start, end: start, lanes: lanesOf(nodes, marks, (of, here) => many(here.length, 'pod') + ' to leave') });
    none('zones', ['nodes'], 'There are no nodes.');
    none('nodes', ['nodes'], 'There are no nodes.');
    none('pods', ['nodes', 'pods'], 'No pod needs to leave.');
    none('rules', ['nodetaintrules'], 'There are no NodeTaintRules.');
    none('evictions', ['pods'], 'The board has not seen an eviction.');
    none('differences', ['configmaps'], head().noDifference);
    const problems = [...new Set([...received.sources.values()].filter((row) => row.state === 'denied').map((row) => row.problem))].sort();
    const { idle } = head();
    byId('losses').hidden = problems.length === 0 && !idle;
    byId('losses').replaceChildren(...[idle, ...problems].filter(Boolean).map((text) => h('li', {}, text)));
    showStale();
    showNumbers();
  };
  let drawing = 0;
  let rested = 0;
  const apply = (update) => {
    ahead = update.now - performance.now();
    if (update.reset) for (const rows of Object.values(received)) rows.clear();
    for (const [key, row] of Object.entries(update.rows ?? {})) {
      const slash = key.indexOf('/');
      const [rows, id] = [received[key.slice(0, slash)], key.slice(slash + 1)];
      if (key.startsWith('nodes/') && !rows.has(id)) order = null;
      rows.set(id, { id, ...row });
    }
    // Drawing takes at most a tenth of the time, so that a page of a large cluster can be scrolled while it changes.
    if (update.rows && !drawing) {
      drawing = setTimeout(() => {
        const began = performance.now();
        draw();
        drawing = 0;
        rested = performance.now() + 9 * (performance.now() - began - 20);
      }, Math.max(0, rested - performance.now()));
    }
    showStale();
  };

  // Events, while the page is visible: a browser has few connections for many tabs, and a page that reconnects gets everything.
  let events = null;
  let again = 0;
  const disconnect = () => {
    clearTimeout(again);
    events?.close();
    events = null;
  };
  const connect = () => {
    disconnect();
    events = new EventSource('events');
    events.onmessage = (event) => {
      connected = true;
      heard = performance.now();
      apply(JSON.parse(event.data));
    };
    events.onerror = () => {
      connected = false;
      showStale();
      if (events?.readyState === EventSource.CLOSED) again = setTimeout(connect, 2000);
    };
  };
  document.addEventListener('visibilitychange', () => { if (document.hidden) disconnect(); else connect(); });
  const second = () => {
    if (!document.hidden) {
      document.querySelectorAll('[data-runs]').forEach(tick);
      if (connected && performance.now() - heard > 15_000) {
        connected = false;
        connect();
      }
      showStale();
      showNumbers();
    }
    setTimeout(second, 1000 - clock() % 1000);
  };
  // For screen readers: the numbers, at most once every five seconds.
  setInterval(() => { if (both()) say((pods.length === 0 ? 'No pod needs to leave' : many(pods.length, 'pod') + ' to leave') + ', ' + many([...received.nodes.values()].filter(tainted).length, 'node') + ' tainted NoExecute.'); }, 5000);
  connect();
  second();
};

const read = () => JSON.parse(byId('data').textContent);
({ plan: () => drawPlan(read()), simulate: () => drawSimulation(read()), board: drawBoard })[kind]();
