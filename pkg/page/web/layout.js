// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Where everything lies on the map: domains are boxes in boxes, the narrowest hold
// columns of hosts. Which box stands beside which is decided once, by arrange; how
// large they are depends on the scale, since headings and gaps keep their size.

export const maxPerRow = 16; // devices of a host in one row
const deviceSize = 18; // at scale 1
const hostMargin = 5;
const nameHeight = 14;
const linkHeight = 8;

// arrange makes the boxes of a state and chooses how they flow, so that the whole
// fills a window of this shape best.
export function arrange(state, width, height) {
  const most = Math.max(1, ...state.hosts.map((h) => h.gpus.length));
  const rows = Math.max(1, Math.ceil(most / maxPerRow));
  const host = { width: Math.max(6, Math.min(most, maxPerRow)) * deviceSize + 2 * hostMargin, height: nameHeight + rows * deviceSize + linkHeight + 6 };
  const root = { domain: null, level: -1, first: 0, last: state.hosts.length, children: [] };
  const stack = [root];
  for (const domain of state.domains) {
    while (domain.first >= stack.at(-1).last || domain.last > stack.at(-1).last) stack.pop();
    const box = { domain, level: domain.level, first: domain.first, last: domain.last, children: [] };
    stack.at(-1).children.push(box);
    stack.push(box);
  }
  gatherLoose(root, state);
  const layout = { root, host, boxes: [], leaves: [], leafOf: new Array(state.hosts.length) };
  collect(root, layout);
  choose(layout, width, height);
  return layout;
}

// gatherLoose puts hosts that are in no domain of their box's children into boxes
// without a name.
function gatherLoose(box, state) {
  if (box.children.length === 0) {
    box.hosts = span(box.first, box.last);
    return;
  }
  const loose = [];
  let next = box.first;
  for (const child of box.children) {
    loose.push(...span(next, child.first));
    next = child.last;
    gatherLoose(child, state);
  }
  loose.push(...span(next, box.last));
  if (loose.length > 0) {
    box.children.push({ domain: null, level: box.children[0].level, first: loose[0], last: loose.at(-1) + 1, children: [], hosts: loose });
  }
}

function span(first, last) {
  return Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
}

function collect(box, layout) {
  layout.boxes.push(box);
  if (box.hosts) {
    const n = box.hosts.length;
    layout.leaves.push(box);
    box.hosts.forEach((h, i) => (layout.leafOf[h] = { box, at: i }));
    // About three times as high as wide, as a rack is, and one column if that is not too high.
    box.least = n <= 24 ? 1 : Math.max(1, Math.round(Math.sqrt((n * layout.host.height) / layout.host.width / 3)));
    setColumns(box, box.least);
  }
  for (const child of box.children) {
    child.parent = box;
    collect(child, layout);
  }
}

function setColumns(box, columns) {
  box.rows = Math.ceil(box.hosts.length / columns);
  box.columns = Math.ceil(box.hosts.length / box.rows);
}

// choose tries widths at which rows of boxes break, and of how many parts of it the
// boxes that hold the narrowest have one, and keeps the best. High racks in few rows
// are preferred to what is hardly larger, above all where all can be read anyway.
function choose(layout, width, height) {
  if (layout.root.hosts) {
    const { root, host } = layout;
    setColumns(root, Math.max(1, Math.round(Math.sqrt((root.hosts.length * host.height * width) / (host.width * height)))));
    return;
  }
  let best = 0, kept = null;
  for (const times of [1, 2, 3]) {
    for (const box of layout.leaves) setColumns(box, Math.min(box.hosts.length, times * box.least));
    for (const parts of [1, 2, 3, 4]) {
      for (let limit = 300; limit < 400000; limit *= 1.25) {
        breakRows(layout, limit, parts);
        const scale = fit(layout, width, height, 12);
        const score = Math.min(scale, 0.75 + 0.3 * (scale - 0.75)) * 0.93 ** times * 0.97 ** parts;
        if (score > best * 1.001) [best, kept] = [score, layout.boxes.map(({ breaks, columns, rows }) => ({ breaks, columns, rows }))];
        if (layout.boxes.every((box) => box.breaks.size === 0)) break;
      }
    }
  }
  layout.boxes.forEach((box, i) => Object.assign(box, kept[i]));
}

// breakRows notes in each box which children begin a row, so that zooming does not
// move them about.
function breakRows(layout, limit, parts) {
  place(layout, 1, (box) => (box.children[0]?.hosts ? limit / parts : limit));
  for (const box of layout.boxes) {
    box.breaks = new Set(box.children.filter((child, i) => i > 0 && child.x <= box.children[i - 1].x));
  }
}

// Gaps and headings, in pixels. They shrink only where all is small, and steadily:
// fit searches for a scale.
function metrics(scale, box) {
  const part = Math.min(1, Math.max(0, (scale - 0.1) / 0.2));
  const gap = 2 + 4 * part;
  return { gap, pad: gap, head: box.level < 0 ? 0 : 10 + part * (box.hosts ? 7 : 10) };
}

// place computes the boxes' places at this scale. Without limits, a box's width by
// the box, rows break where breakRows has noted.
export function place(layout, scale, limits) {
  layout.scale = scale;
  measure(layout, layout.root, scale, limits);
  move(layout.root, 0, 0);
}

function measure(layout, box, scale, limits) {
  const { gap, pad, head } = metrics(scale, box);
  box.pad = pad;
  box.head = head;
  if (box.hosts) {
    box.width = box.columns * layout.host.width * scale + 2 * pad;
    box.height = box.rows * layout.host.height * scale + head + pad;
    return;
  }
  let x = pad, y = head + (head ? 0 : pad), rowHeight = 0, right = 0;
  for (const child of box.children) {
    measure(layout, child, scale, limits);
    const isBreak = limits ? x > pad && x + child.width > limits(box) : box.breaks.has(child);
    if (isBreak) {
      x = pad;
      y += rowHeight + gap;
      rowHeight = 0;
    }
    child.relX = x;
    child.relY = y;
    x += child.width + gap;
    right = Math.max(right, x - gap);
    rowHeight = Math.max(rowHeight, child.height);
  }
  box.width = right + pad;
  box.height = y + rowHeight + pad;
}

function move(box, x, y) {
  box.x = x;
  box.y = y;
  for (const child of box.children) move(child, x + child.relX, y + child.relY);
}

// fit is the largest scale at which all is seen; the layout is placed at it.
export function fit(layout, width, height, steps = 24) {
  let low = 0.005, high = 1.4;
  for (let i = 0; i < steps; i++) {
    const middle = (low + high) / 2;
    place(layout, middle);
    if (layout.root.width <= width && layout.root.height <= height) low = middle;
    else high = middle;
  }
  place(layout, low);
  return low;
}

// hostRect is where a host lies.
export function hostRect(layout, index) {
  const { box, at } = layout.leafOf[index];
  const width = layout.host.width * layout.scale, height = layout.host.height * layout.scale;
  return { x: box.x + box.pad + Math.floor(at / box.rows) * width, y: box.y + box.head + (at % box.rows) * height, width, height };
}

// hostAt is the host at a point, or -1.
export function hostAt(layout, x, y) {
  const width = layout.host.width * layout.scale, height = layout.host.height * layout.scale;
  for (const box of layout.leaves) {
    if (x < box.x || y < box.y || x >= box.x + box.width || y >= box.y + box.height) continue;
    const column = Math.floor((x - box.x - box.pad) / width), row = Math.floor((y - box.y - box.head) / height);
    if (column < 0 || column >= box.columns || row < 0 || row >= box.rows) return -1;
    return box.hosts[column * box.rows + row] ?? -1;
  }
  return -1;
}

// deviceRect is where a device of a host lies at scale 1, within the host.
export function deviceRect(index) {
  return { x: hostMargin + (index % maxPerRow) * deviceSize, y: nameHeight + Math.floor(index / maxPerRow) * deviceSize, size: deviceSize };
}
