
'use strict';

// The page is whole without this script. With it the marks of the timeline can be walked and opened, and the table of pods
// can be sorted and filtered.
(() => {
  const byId = (id) => document.getElementById(id);
  const plan = JSON.parse(byId('plan').textContent);
  const status = byId('status');
  const rows = [...document.querySelectorAll('#pods tbody tr')];
  document.documentElement.classList.add('moves');

  const say = (text) => { status.textContent = text; };

  // Timeline: left and right go to the mark before and after, up and down to the nearest one of another row.
  const chart = byId('chart');
  const lines = chart ? [...chart.querySelectorAll('.row')]
    .map((row) => [...row.querySelectorAll('.mark')].sort((a, b) => a.dataset.x - b.dataset.x))
    .filter((line) => line.length > 0) : [];
  const marks = lines.flat();
  const tip = byId('tip');

  let described = null; // the mark that the tip is about

  const placeTip = () => {
    if (!described) return;
    const at = described.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 8);
    const above = at.top - size.height - 8;
    tip.style.left = left + 'px';
    tip.style.top = (above > 8 ? above : at.bottom + 8) + 'px';
  };
  const showTip = (mark) => {
    described = mark;
    tip.textContent = mark.getAttribute('aria-label');
    tip.hidden = false;
    placeTip();
  };
  const hideTip = () => {
    described = null;
    tip.hidden = true;
  };

  const goTo = (mark) => {
    if (!mark) return;
    for (const other of marks) other.setAttribute('tabindex', other === mark ? '0' : '-1');
    mark.focus();
    mark.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    showTip(mark);
  };
  const nearest = (line, mark) => line && line.reduce((best, other) =>
    Math.abs(other.dataset.x - mark.dataset.x) < Math.abs(best.dataset.x - mark.dataset.x) ? other : best);

  const steps = {
    ArrowRight: (mark) => marks[marks.indexOf(mark) + 1],
    ArrowLeft: (mark) => marks[marks.indexOf(mark) - 1],
    ArrowDown: (mark) => nearest(lines[lines.findIndex((line) => line.includes(mark)) + 1], mark),
    ArrowUp: (mark) => nearest(lines[lines.findIndex((line) => line.includes(mark)) - 1], mark),
    Home: () => marks[0],
    End: () => marks[marks.length - 1],
  };

  for (const mark of marks) {
    mark.querySelector('title').remove();
    mark.setAttribute('role', 'button');
    mark.setAttribute('aria-haspopup', 'dialog');
    mark.setAttribute('tabindex', mark === marks[0] ? '0' : '-1');
    mark.addEventListener('pointerenter', () => showTip(mark));
    mark.addEventListener('pointerleave', hideTip);
    mark.addEventListener('focus', () => { if (mark.matches(':focus-visible')) showTip(mark); });
    mark.addEventListener('blur', hideTip);
    mark.addEventListener('click', () => open(mark));
  }
  addEventListener('scroll', placeTip, { passive: true, capture: true });

  if (chart) {
    chart.addEventListener('keydown', (event) => {
      const mark = event.target.closest('.mark');
      if (!mark || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        open(mark);
      } else if (event.key === 'Escape') {
        hideTip();
      } else if (steps[event.key]) {
        event.preventDefault();
        goTo(steps[event.key](mark));
      }
    });
  }

  // Details: what the table of pods says, for the pods of one mark.
  const details = byId('details');
  const headers = [...document.querySelectorAll('#pods thead th')].map((th) => th.textContent);

  const element = (name, text) => {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  };
  const describe = (place) => {
    const cells = [...rows[place].children];
    const list = document.createElement('dl');
    cells.slice(1).forEach((cell, i) => {
      if (cell.textContent === '') return;
      const value = document.createElement('dd');
      value.append(...[...cell.childNodes].map((node) => node.cloneNode(true)));
      list.append(element('dt', headers[i + 1]), value);
    });
    return [element('h3', cells[0].textContent), list];
  };
  const open = (mark) => {
    hideTip();
    const places = mark.dataset.pods === '' ? [] : mark.dataset.pods.split(' ');
    byId('details-title').textContent = mark.dataset.title;
    const body = byId('details-pods');
    body.replaceChildren(...places.flatMap(describe));
    const more = mark.dataset.all - places.length;
    if (more > 0) body.append(element('p', 'And ' + more + ' more; with -o json the plan has them all.'));
    details.showModal();
    byId('details-title').focus();
    details.scrollTop = 0;
  };
  byId('details-close').addEventListener('click', () => details.close());
  details.addEventListener('click', (event) => { if (event.target === details) details.close(); });
  details.addEventListener('close', () => say('Details closed.'));

  // Table: sorted by a column, filtered by words.
  if (rows.length === 0) return;
  const values = {
    name: (pod) => pod.namespace + '/' + pod.name,
    due: (pod) => (pod.due ? Date.parse(pod.due) || Infinity : Infinity),
    owner: (pod) => (pod.owner ? pod.owner.kind + '/' + pod.owner.name : ''),
    whereTo: (pod) => (pod.whereTo && pod.whereTo.node) || '',
  };
  const valueOf = (row, key) => {
    const pod = plan.pods[row.dataset.pod];
    return values[key] ? values[key](pod) : pod[key] ?? '';
  };
  const compare = (a, b) => (a === b ? 0 : typeof a === 'number' ? (a < b ? -1 : 1) : a.localeCompare(b, 'en', { numeric: true }));
  const heads = [...document.querySelectorAll('#pods thead th')];

  const sort = (head) => {
    const descending = head.getAttribute('aria-sort') === 'ascending';
    for (const other of heads) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
    const key = head.dataset.key;
    const sorted = rows.map((row) => ({ row, value: valueOf(row, key) }))
      .sort((a, b) => (descending ? -1 : 1) * compare(a.value, b.value));
    document.querySelector('#pods tbody').append(...sorted.map((each) => each.row));
    say('Sorted by ' + head.textContent + ', ' + head.getAttribute('aria-sort') + '.');
  };
  for (const head of heads) {
    const button = element('button', head.textContent);
    button.type = 'button';
    button.addEventListener('click', () => sort(head));
    head.replaceChildren(button);
  }

  const texts = rows.map((row) => [...row.children].map((cell) => cell.textContent).join(' ').toLowerCase());
  const input = byId('filter-text');
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    const count = shown + ' of ' + rows.length;
    byId('filter-count').textContent = 'Pods: ' + count;
    if (words.length > 0) say('Pods that match: ' + count + '.');
  };
  byId('filter').hidden = false;
  input.addEventListener('input', filter);
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    input.value = '';
    filter();
    say('Filter cleared.');
  });
  filter();
})();
