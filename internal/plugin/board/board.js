
'use strict';

// The page shows the rows that it receives, and counts down with the API server's clock. Elements are changed and moved in place,
// so that the focus stays where it was.
(() => {
  const byId = (id) => document.getElementById(id);
  const setText = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const number = new Intl.NumberFormat('en');
  const natural = new Intl.Collator('en', { numeric: true });

  // The API server's clock: the time in the last update, plus the time since then on a monotonic clock.
  let clockOffset = Date.now() - performance.now();
  const now = () => performance.now() + clockOffset;

  // Durations as kubectl writes them: two units.
  const span = (ms) => {
    const s = Math.floor(ms / 1000);
    const units = [[Math.floor(s / 86400), 'd'], [Math.floor(s / 3600) % 24, 'h'], [Math.floor(s / 60) % 60, 'm'], [s % 60, 's']];
    const first = units.findIndex(([n]) => n > 0);
    if (first < 0) return '0s';
    return units.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => n + unit).join('');
  };
  const never = Date.UTC(9999, 0);
  const countdown = (due) => {
    const left = due - now();
    if (due >= never) return 'practically never';
    if (left > 0) return 'in ' + span(left + 999);
    return left > -1000 ? 'now' : span(-left) + ' late';
  };
  const clockTime = (ms) => {
    const iso = new Date(ms).toISOString();
    return (iso.slice(0, 10) === new Date(now()).toISOString().slice(0, 10) ? '' : iso.slice(0, 10) + ' ') + iso.slice(11, 19) + 'Z';
  };
  const many = (n, what) => number.format(n) + ' ' + what + (n === 1 ? '' : 's');

  // Parts of cells: a text, or an element as {tag, text, ...}. Running times have the instant in data-due, -since, -ago or -wait.
  const el = (tag, text, more) => ({ tag, text, ...more });
  const due = (ms) => el('b', '', { due: ms });
  const at = (ms) => el('time', clockTime(ms), { class: 'sub' });
  const code = (text) => el('code', text);
  const nodeLink = (name) => el('a', name, { href: '#node.' + name });
  const podName = (row) => [el('span', row.namespace + '/', { class: 'ns' }), row.name];

  const moves = { due: countdown, since: (ms) => 'for ' + span(Math.max(0, now() - ms)), ago: (ms) => span(Math.max(0, now() - ms)) + ' ago', wait: (ms) => (now() - ms >= 1000 ? 'due ' + span(now() - ms) + ' ago' : countdown(ms)) };
  const tick = (element) => {
    const kind = element.moves;
    const ms = Number(element.dataset[kind]);
    setText(element, moves[kind](ms));
    if (kind === 'due' && element.classList.contains('late') !== ms < now()) element.classList.toggle('late');
  };
  const make = (part) => {
    const element = document.createElement(part.tag);
    if (part.tag === 'button') element.type = 'button';
    return element;
  };
  const kinds = ['due', 'since', 'ago', 'wait'];
  const dress = (element, part) => {
    if (part.href !== undefined && element.getAttribute('href') !== part.href) element.setAttribute('href', part.href);
    if (part.filter !== undefined) element.dataset.filter = part.filter;
    const kind = kinds.find((kind) => part[kind] !== undefined);
    if (element.moves && element.moves !== kind) delete element.dataset[element.moves];
    element.moves = kind;
    if (kind !== 'due' && element.className !== (part.class ?? '')) element.className = part.class ?? '';
    if (kind === undefined) {
      setText(element, part.text);
      return;
    }
    element.dataset[kind] = part[kind];
    tick(element);
  };
  const fill = (cell, parts) => {
    parts.forEach((part, i) => {
      let node = cell.childNodes[i];
      if (typeof part === 'string') {
        if (node?.nodeType === Node.TEXT_NODE) { if (node.data !== part) node.data = part; return; }
        const text = document.createTextNode(part);
        if (node) node.replaceWith(text); else cell.append(text);
        return;
      }
      if (node?.localName !== part.tag) {
        const element = make(part);
        if (node) node.replaceWith(element); else cell.append(element);
        node = element;
      }
      dress(node, part);
    });
    while (cell.childNodes.length > parts.length) cell.lastChild.remove();
  };

  // The cells of each kind of row.
  const states = { Normal: 'well', PartialDisruption: 'warn', FullDisruption: 'late' };
  const lateness = (row) => {
    if (row.late === undefined) return [el('span', 'not known: ' + row.unknown, { class: 'ns' })];
    if (Math.abs(row.late) <= 1) return [el('span', 'on time', { class: 'well' })];
    return row.late > 0 ? [el('b', span(row.late * 1000) + ' late', { class: 'late' })] : [el('b', span(-row.late * 1000) + ' early', { class: 'late' })];
  };
  const cells = {
    pending: (row) => [
      row.pods ? [el('b', many(row.pods, 'pod')), ' of ', el('span', row.namespace + '/', { class: 'ns' }), row.owner, el('span', row.some, { class: 'sub' })] : podName(row),
      [row.heldBy ? el('b', '', { wait: row.due }) : due(row.due), ' ', at(row.due)], [nodeLink(row.node)],
      [code(row.taint), ' ', el('span', row.tolerated, { class: 'sub' }), row.heldBy ? el('b', 'held by policy ' + row.heldBy + (row.until ? ', until ' + clockTime(row.until) : ''), { class: 'sub' }) : ''], [row.owner ?? ''], [String(row.priority)],
    ],
    zones: (row) => [
      [row.id], [el('b', row.state, { class: states[row.state] })], [number.format(row.nodes)], [number.format(row.notReady)],
      [number.format(row.tainted)], [row.unread ? '–' : number.format(row.pending)],
      [row.why ?? '', row.held ? el('span', many(row.held, 'node') + (row.held === 1 ? ' waits' : ' wait') + ' for the taint, says Taintkeeper', { class: 'sub' }) : ''],
    ],
    nodes: (row) => [
      [row.id],
      [row.ready === 'True' ? 'ready' : el('b', row.ready === 'False' ? 'not ready' : 'unknown', { class: 'late' }), row.cordoned ? el('span', 'cordoned', { class: 'sub' }) : ''],
      [
        ...(row.taints ?? []).flatMap((taint) => [code(taint.text), ' ', taint.since ? el('span', '', { class: 'ns', since: taint.since }) : '', ' ']),
        row.held ? el('span', row.held, { class: 'sub' }) : '',
      ],
      row.pending ? [row.next ? due(row.next) : '', ' ', el('button', many(row.pending, 'pod'), { filter: row.id }), row.last > row.next ? el('span', 'the last at ' + clockTime(row.last), { class: 'sub' }) : '', row.kept ? el('span', number.format(row.kept) + ' held by policies', { class: 'sub' }) : ''] : [''],
    ],
    rules: (row) => [
      [row.id, row.dryRun ? el('span', 'dry run', { class: 'sub' }) : ''], [row.condition], [code(row.taint)], [number.format(row.selected)], [number.format(row.matching)],
      [number.format(row.tainted), row.most ? el('span', 'of ' + row.most, { class: 'sub' }) : ''], [row.held ? el('b', number.format(row.held), { class: 'warn' }) : '0'], [row.problem ?? ''],
    ],
    evictions: (row) => [
      podName(row), [el('span', '', { ago: row.at }), ' ', at(row.at)], lateness(row), [row.by], [nodeLink(row.node)], row.taint ? [code(row.taint)] : [''],
    ],
    differences: (row) => [[nodeLink(row.node)], [el('span', '', { ago: row.at }), ' ', at(row.at)], [el('b', row.kind, { class: 'late' })], [row.sentence]],
  };
  const words = (row) => Object.values(row).flatMap((value) => (typeof value === 'string' ? [value] : Array.isArray(value) ? value.map((taint) => taint.text) : [])).join(' ').toLowerCase();

  // A list is a table in blocks of rows. The browser lays out only visible blocks, and only their countdowns run.
  const perBlock = 50;
  const moving = '[data-due], [data-since], [data-ago], [data-wait]';
  const inSight = new Set();
  const visibility = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) inSight.delete(target);
      else if (!inSight.has(target)) {
        inSight.add(target);
        target.querySelectorAll(moving).forEach(tick);
      }
    }
  }, { rootMargin: '50%' });
  let filter = [];
  const matches = (row) => filter.every((word) => row.words.includes(word));
  class List {
    constructor(table, compare) {
      this.table = table;
      this.sheet = table.dataset.sheet;
      this.compare = compare;
      this.rows = new Map();
      this.sorted = [];
      this.shown = 0;
      this.unsorted = this.unfiltered = false;
      this.blank = document.createElement('tr');
      this.blank.setAttribute('role', 'row');
      [...table.tHead.rows[0].cells].forEach((head, i) => {
        const cell = document.createElement(i === 0 ? 'th' : 'td');
        cell.setAttribute('role', i === 0 ? 'rowheader' : 'cell');
        cell.dataset.label = head.textContent;
        cell.className = head.className;
        this.blank.append(cell);
      });
    }
    set(data) {
      let row = this.rows.get(data.id);
      if (!row) {
        row = { tr: this.blank.cloneNode(true) };
        if (this.sheet === 'nodes') {
          row.tr.id = 'node.' + data.id;
          row.tr.tabIndex = -1;
        }
        this.rows.set(data.id, row);
        this.sorted.push(row);
        this.unsorted = true;
      } else if (this.compare(row.data, data) !== 0) {
        this.unsorted = true;
      }
      row.data = data;
      row.words = words(data);
      cells[this.sheet](data).forEach((parts, i) => fill(row.tr.children[i], parts));
      if (row.tr.hidden === matches(row)) this.unfiltered = true;
    }
    remove(id) {
      const row = this.rows.get(id);
      if (!row) return;
      if (row.tr.contains(document.activeElement)) (row.tr.nextElementSibling ?? this.table.closest('section')).focus({ preventScroll: true });
      row.tr.remove();
      this.rows.delete(id);
      this.sorted.splice(this.sorted.indexOf(row), 1);
      this.unsorted = true;
    }
    ids() { return [...this.rows.keys()]; }
    render() {
      if (this.unsorted) this.order();
      if (this.unfiltered || this.unsorted && filter.length > 0) this.applyFilter();
      if (filter.length === 0) this.shown = this.rows.size;
      this.unsorted = this.unfiltered = false;
    }
    order() {
      const focused = this.table.contains(document.activeElement) ? document.activeElement : null;
      this.sorted.sort((a, b) => this.compare(a.data, b.data));
      let block = null;
      let next = null;
      this.sorted.forEach((row, i) => {
        if (i % perBlock === 0) {
          block = this.table.tBodies[i / perBlock] ?? this.block();
          next = block.firstElementChild;
        }
        if (next === row.tr) next = next.nextElementSibling; else block.insertBefore(row.tr, next);
      });
      const blocks = Math.ceil(this.sorted.length / perBlock);
      while (this.table.tBodies.length > blocks) {
        this.forget(this.table.tBodies[blocks]);
        this.table.tBodies[blocks].remove();
      }
      for (const block of this.table.tBodies) this.estimate(block, block.rows.length);
      if (focused && focused !== document.activeElement) focused.focus({ preventScroll: true });
    }
    block() {
      const block = document.createElement('tbody');
      block.setAttribute('role', 'rowgroup');
      this.table.append(block);
      visibility.observe(block);
      return block;
    }
    forget(block) {
      visibility.unobserve(block);
      inSight.delete(block);
    }
    // applyFilter shows the rows that match the filter.
    applyFilter() {
      this.shown = 0;
      for (const row of this.sorted) {
        const hidden = !matches(row);
        if (row.tr.hidden !== hidden) row.tr.hidden = hidden;
        if (!hidden) this.shown++;
      }
      for (const block of this.table.tBodies) {
        let count = 0;
        for (const tr of block.rows) if (!tr.hidden) count++;
        if (block.hidden !== (count === 0)) block.hidden = count === 0;
        this.estimate(block, count);
      }
    }
    // estimate returns the height of a block that has not been visible yet.
    estimate(block, rows) {
      const size = 'auto ' + rows * 2.2 + 'rem';
      if (block.style.containIntrinsicBlockSize !== size) block.style.containIntrinsicBlockSize = size;
    }
  }

  const byText = (a, b) => natural.compare(a.namespace + '/' + a.name, b.namespace + '/' + b.name);
  const listOf = (sheet, compare) => new List(document.querySelector(`table[data-sheet="${sheet}"]`), compare);
  const newest = (a, b) => b.at - a.at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
  const lists = {
    pending: listOf('pending', (a, b) => a.due - b.due || a.priority - b.priority || byText(a, b)),
    zones: listOf('zones', (a, b) => natural.compare(a.id, b.id)),
    rules: listOf('rules', (a, b) => natural.compare(a.id, b.id)),
    evictions: listOf('evictions', newest),
    differences: listOf('differences', newest),
  };

  // Nodes: a list for each zone. Names are compared only when a node is added, not each time one moves up.
  const rank = (node) => ((node.taints ?? []).some((taint) => taint.since) ? 0 : node.ready !== 'True' ? 1 : 2);
  const nodes = {
    zones: new Map(), zoneOf: new Map(), ordinals: new Map(), unordered: false,
    set(row) {
      row.rank = rank(row);
      const before = this.zoneOf.get(row.id);
      if (before !== row.zone) {
        if (before !== undefined) this.zones.get(before).remove(row.id);
        this.zoneOf.set(row.id, row.zone);
        this.unordered = true;
      }
      this.list(row.zone).set(row);
    },
    list(zone) {
      let list = this.zones.get(zone);
      if (list) return list;
      const made = byId('zone-template').content.cloneNode(true).firstElementChild;
      made.dataset.zone = zone;
      list = new List(made.querySelector('table'), (a, b) => a.rank - b.rank || this.ordinals.get(a.id) - this.ordinals.get(b.id) || 0);
      list.table.setAttribute('aria-label', 'Nodes of zone ' + zone);
      list.title = made.querySelector('h3');
      this.zones.set(zone, list);
      const after = [...byId('zone-list').children].find((other) => natural.compare(other.dataset.zone, zone) > 0);
      byId('zone-list').insertBefore(made, after ?? null);
      return list;
    },
    remove(id) {
      this.zones.get(this.zoneOf.get(id))?.remove(id);
      this.zoneOf.delete(id);
    },
    ids() { return [...this.zoneOf.keys()]; },
    render() {
      if (this.unordered) {
        [...this.zoneOf.keys()].sort(natural.compare).forEach((id, i) => this.ordinals.set(id, i));
        for (const list of this.zones.values()) list.unsorted = true;
        this.unordered = false;
      }
      for (const [zone, list] of this.zones) {
        list.render();
        setText(list.title, 'Zone ' + zone + ': ' + (filter.length > 0 ? number.format(list.shown) + ' of ' : '') + many(list.rows.size, 'node'));
        list.table.closest('details').hidden = list.rows.size === 0 || filter.length > 0 && list.shown === 0;
      }
    },
    get size() { return this.zoneOf.size; },
  };
  lists.nodes = nodes;

  // Sheets with a single row.
  const sources = new Map();
  let head = null;
  const single = {
    head: { set(row) { head = row; }, remove() { head = null; }, ids: () => (head ? [head.id] : []) },
    sources: { set(row) { sources.set(row.id, row); }, remove(id) { sources.delete(id); }, ids: () => [...sources.keys()] },
  };
  const sheets = { ...single, ...lists };
  const sizeOf = (list) => list.size ?? list.rows.size;

  const sourceOf = { pending: 'pods', zones: 'nodes', nodes: 'nodes', rules: 'nodetaintrules', evictions: 'pods', differences: 'events' };
  const none = {
    pending: 'No pod needs to leave.', zones: 'There are no nodes.', nodes: 'There are no nodes.', rules: 'There are no NodeTaintRules.',
    evictions: 'The board has not seen any evictions yet.', differences: 'Shadow mode wrote no such event within the last hour, or is not running.',
  };
  const renderEmpty = () => {
    for (const element of document.querySelectorAll('[data-none]')) {
      const sheet = element.dataset.none;
      const source = sources.get(sourceOf[sheet]);
      const empty = sizeOf(lists[sheet]) === 0;
      element.hidden = !empty;
      if (lists[sheet].table) lists[sheet].table.hidden = empty;
      if (!empty) continue;
      setText(element, !source || source.state === 'reading' ? 'Reading.' : source.state === 'current' ? none[sheet] : source.problem);
    }
  };

  // Whether the page is current.
  let heard = performance.now();
  let connected = false;
  const renderStale = () => {
    let text = '';
    const broken = [...sources.values()].filter((source) => source.state === 'broken');
    if (!connected && head) {
      text = 'Not current since ' + clockTime(heard + clockOffset) + ': the board does not answer. If it has stopped, start it again: kubectl taintkeeper board.';
    } else if (broken.length > 0) {
      const since = Math.min(...broken.map((source) => source.since ?? Infinity));
      text = 'Not current' + (since < Infinity ? ' since ' + clockTime(since) : '') + '. ' + (sources.get('server')?.state === 'broken' ? sources.get('server').problem : broken[0].problem);
    }
    const stale = byId('stale');
    stale.hidden = text === '';
    setText(stale, text);
    const denied = [...sources.values()].filter((source) => source.state === 'denied').map((source) => source.problem);
    const all = [...new Set(denied)].sort();
    if (head?.idle) all.unshift(head.idle);
    const problems = byId('problems');
    problems.hidden = all.length === 0;
    fill(problems, all.map((text) => el('li', text)));
  };

  const figure = (name, text) => setText(document.querySelector(`[data-figure="${name}"]`), text);
  // What was not read is unknown, which is different from none.
  const bothRead = () => head.nodesRead && head.podsRead;
  const counted = (read, text) => (read ? text : '–');
  const answer = () => {
    if (!head) return 'Reading the cluster.';
    if (!bothRead() && head.pending === 0) return sources.get('pods')?.state === 'denied' || sources.get('nodes')?.state === 'denied' ? 'Some of the cluster cannot be read.' : 'Reading nodes and pods.';
    if (head.pending === 0) return 'No pod needs to leave.';
    const next = lists.pending.sorted.find((row) => row.data.due > now() && !row.data.heldBy);
    const late = lateCount();
    const first = many(head.pending, 'pod') + ' must leave';
    const overdue = late === 0 ? '' : late + (late === 1 ? ' is' : ' are') + ' due and still there';
    const soon = next ? (head.pending === 1 ? 'due ' : 'the next ') + countdown(next.data.due) : '';
    const held = head.held ? (head.held === 1 ? '1 is' : (head.held === head.pending ? 'all' : number.format(head.held)) + ' are') + ' held by policies' : '';
    return first + [overdue, held, soon].filter(Boolean).map((text, i) => (i === 0 ? ': ' : ', ') + text).join('') + '.';
  };
  const podsIn = (rows) => rows.reduce((sum, row) => sum + (row.data.pods ?? 1), 0);
  const lateCount = () => {
    const i = lists.pending.sorted.findIndex((row) => row.data.due > now());
    const due = i < 0 ? lists.pending.sorted : lists.pending.sorted.slice(0, i);
    return podsIn(due.filter((row) => !row.data.heldBy));
  };
  const renderFigures = () => {
    setText(byId('answer'), answer());
    setText(byId('clock'), clockTime(now()));
    if (!head) return;
    document.title = (head.pending > 0 ? number.format(head.pending) + ' to leave · ' : '') + 'Board: ' + head.cluster;
    const late = lateCount();
    const listed = podsIn(lists.pending.sorted);
    const zones = [...lists.zones.rows.values()];
    figure('pending', counted(bothRead(), number.format(head.pending)));
    figure('late', counted(bothRead(), number.format(late) + (late > 0 && late === listed && late < head.pending ? ' or more' : '')));
    figure('held', head.held ? number.format(head.held) + ' held by policies' : '');
    figure('tainted', counted(head.nodesRead, number.format(head.tainted)));
    figure('nodes', head.nodesRead ? 'of ' + number.format(head.nodes) : '');
    figure('disrupted', counted(head.nodesRead, number.format(zones.filter((row) => row.data.state !== 'Normal').length)));
    figure('zones', head.nodesRead ? 'of ' + number.format(zones.length) : '');
    figure('evictions', counted(head.podsRead, number.format(head.evictions)));
    byId('pending-more').hidden = listed >= head.pending;
    setText(byId('pending-more'), 'The soonest ' + number.format(listed) + ' of ' + number.format(head.pending) + ' are listed.');
    byId('namespace').hidden = !head.namespace;
    setText(byId('namespace').lastElementChild, head.namespace ?? '');
  };

  // The same for screen readers: the numbers, at most once every five seconds.
  let announced = '';
  const announce = () => {
    if (!head || !bothRead()) return;
    const text = (head.pending === 0 ? 'No pod needs to leave' : many(head.pending, 'pod') + ' to leave') + ', ' + many(head.tainted, 'node') + ' tainted NoExecute.';
    if (text === announced) return;
    announced = text;
    byId('status').textContent = text;
  };
  setInterval(announce, 5000);

  // After a reset, the update is complete. Rows that it contains stay in place, and keep the focus.
  const keepOnly = (changes) => {
    for (const [name, sheet] of Object.entries(sheets)) {
      const kept = new Set((changes[name]?.set ?? []).map((row) => row.id));
      for (const id of sheet.ids()) if (!kept.has(id)) sheet.remove(id);
    }
  };
  const apply = (update) => {
    clockOffset = update.now - performance.now();
    if (update.reset) keepOnly(update.sheets ?? {});
    for (const [name, changes] of Object.entries(update.sheets ?? {})) {
      for (const id of changes.gone ?? []) sheets[name].remove(id);
      for (const row of changes.set ?? []) sheets[name].set(row);
    }
    if (update.sheets) for (const list of Object.values(lists)) list.render();
    count();
    renderEmpty();
    renderStale();
    renderFigures();
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
      renderStale();
      if (events?.readyState === EventSource.CLOSED) again = setTimeout(connect, 2000);
    };
  };
  document.addEventListener('visibilitychange', () => { if (document.hidden) disconnect(); else connect(); });

  // The countdowns run with the API server's clock.
  const tickAll = () => {
    if (!document.hidden) {
      for (const block of inSight) block.querySelectorAll(moving).forEach(tick);
      if (connected && performance.now() - heard > 15_000) {
        connected = false;
        connect();
      }
      renderStale();
      renderFigures();
    }
    setTimeout(tickAll, 1000 - now() % 1000);
  };

  // The filter.
  const input = byId('filter-text');
  const count = () => {
    const { sorted } = lists.pending;
    const shown = [...nodes.zones.values()].reduce((n, list) => n + (list.shown ?? 0), 0);
    setText(byId('filter-count'), filter.length === 0 ? '' : number.format(shown) + ' of ' + many(nodes.size, 'node') + ', ' + number.format(podsIn(sorted.filter((row) => !row.tr.hidden))) + ' of ' + many(podsIn(sorted), 'pod'));
  };
  const applyFilter = () => {
    filter = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const list of [lists.pending, lists.evictions, lists.differences, ...nodes.zones.values()]) list.unfiltered = true;
    for (const list of Object.values(lists)) list.render();
    count();
  };
  const search = (text) => { input.value = text; applyFilter(); };
  input.addEventListener('input', applyFilter);
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/' && event.target !== input) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === 'Escape' && input.value !== '') {
      event.preventDefault();
      search('');
      byId('status').textContent = 'Everything is shown again.';
    }
  });
  document.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-filter]');
    if (button) {
      search(button.dataset.filter);
      byId('pending').scrollIntoView();
      byId('pending').focus({ preventScroll: true });
      return;
    }
    const link = event.target.closest('a[href^="#node."]');
    const row = link && byId(link.getAttribute('href').slice(1));
    if (!row) return;
    event.preventDefault();
    if (row.hidden) search('');
    row.closest('details').open = true;
    row.scrollIntoView({ block: 'center' });
    row.focus({ preventScroll: true });
  });

  connect();
  tickAll();
})();
