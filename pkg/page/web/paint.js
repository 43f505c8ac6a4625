// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// What the map looks like. The smaller a host is on the screen, the less is drawn
// of it: first its name and links go, then the gaps between devices, then its
// letters, and at last a rack is one bar of what its gangs have.

import { deviceRect, hostRect } from "./layout.js";
import { fillOf, letter, markOf } from "./marks.js";

const middle = 11; // a host's height in pixels from which letters fit
const coarse = 3; // below it racks are bars
paint.detail = 32; // from which names, devices and links are drawn

const free = -1, unhealthy = -2;

// themeOf reads the colours of the style sheet.
export function themeOf(element) {
  const style = getComputedStyle(element);
  const names = ["ground", "line", "text", "faint", "accent", "free", "free-line", "box", "box-outer", "link", "closed", "planned", "warn"];
  return Object.fromEntries(names.map((name) => [name.replace(/-(.)/, (_, c) => c.toUpperCase()), style.getPropertyValue("--" + name).trim()]));
}

// paint draws the whole map. It is O(what is seen).
export function paint(map) {
  const { context: c, layout, state, theme } = map;
  const ratio = window.devicePixelRatio || 1;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.fillStyle = theme.ground;
  c.fillRect(0, 0, map.width, map.height);
  const view = { ...map, c, marks: state.gangs.map((g) => markOf(g.key)), selectedIndex: state.gangs.findIndex((g) => g.key === map.selected), plannedMark: map.plan && markOf(map.plan.key) };
  view.dims = view.selectedIndex >= 0 || Boolean(map.plan);
  for (const box of layout.boxes) {
    const x = map.x + box.x, y = map.y + box.y;
    if (x > map.width || y > map.height || x + box.width < 0 || y + box.height < 0) continue;
    paintBox(view, box, x, y);
    if (box.hosts) paintHosts(view, box);
  }
  for (const box of layout.boxes) paintHead(view, box);
  paintCursor(map);
}

function paintBox({ c, theme }, box, x, y) {
  if (box.level < 0) return;
  c.fillStyle = box.hosts ? theme.box : theme.boxOuter;
  c.strokeStyle = theme.line;
  c.lineWidth = 1;
  c.beginPath();
  c.roundRect(Math.round(x) + 0.5, Math.round(y) + 0.5, box.width, box.height, box.width > 60 ? 5 : 2);
  c.fill();
  c.stroke();
}

// paintHead writes a box's name. Where its top is out of sight the name stays at
// the edge, below those of the boxes around it.
function paintHead(view, box) {
  const { c, state, theme } = view;
  if (box.level < 0) return;
  const above = box.parent?.stuck ?? 0;
  const top = view.y + box.y, x = view.x + box.x;
  const y = Math.max(top, Math.min(above, top + box.height - box.head));
  box.stuck = Math.max(above, y + box.head);
  if (y > view.height || y + box.head < 0 || x > view.width || x + box.width < 0) return;
  if (y > top) {
    c.fillStyle = box.hosts ? theme.box : theme.boxOuter;
    c.fillRect(x + 1, y, box.width - 1, box.head);
  }
  const size = box.head < 12 ? 9 : box.hosts ? 11 : 12;
  c.font = `600 ${size}px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif`;
  c.textAlign = "left";
  c.textBaseline = "middle";
  const left = Math.max(x, 0) + box.pad + 1, right = Math.min(x + box.width, view.width) - box.pad - 1;
  const room = right - left, middleY = y + box.head / 2 + 1;
  const name = box.domain?.name ?? "no " + state.levels[box.level];
  const long = box.domain ? state.levels[box.level] + " " + name : name;
  c.fillStyle = theme.text;
  const text = [long, name].find((t) => c.measureText(t).width <= room) ?? shortened(c, name, room);
  if (!text) return;
  c.fillText(text, left, middleY);
  const note = box.free + " free";
  const width = c.measureText(text).width;
  c.font = `400 ${size}px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif`;
  if (state.resource && width + 8 + c.measureText(note).width <= room) {
    c.textAlign = "right";
    c.fillStyle = theme.faint;
    c.fillText(note, right, middleY);
  }
}

// shortened keeps the end of a name, which tells siblings apart.
function shortened(c, name, room) {
  for (let n = Math.min(name.length - 1, 12); n >= 2; n--) {
    const text = "…" + name.slice(-n);
    if (c.measureText(text).width <= room) return text;
  }
  return "";
}

// countFree notes in each box the free devices in it. It is done once for a state and a layout.
export function countFree(layout, state) {
  const upTo = [0];
  for (const h of state.hosts) upTo.push(upTo.at(-1) + (h.closed ? 0 : h.gpus.filter((g) => g === free).length));
  for (const box of layout.boxes) box.free = box.hosts ? box.hosts.reduce((sum, h) => sum + upTo[h + 1] - upTo[h], 0) : upTo[box.last] - upTo[box.first];
}

function paintHosts(view, box) {
  const height = view.layout.host.height * view.layout.scale;
  if (height < coarse) return paintBar(view, box);
  for (const index of box.hosts) {
    const rect = hostRect(view.layout, index);
    rect.x += view.x;
    rect.y += view.y;
    if (rect.x > view.width || rect.y > view.height || rect.x + rect.width < 0 || rect.y + rect.height < 0) continue;
    if (height >= paint.detail) paintWhole(view, index, rect);
    else paintStrip(view, index, rect);
  }
  if (height < middle) paintBlockLetters(view, box);
}

// paintBar shows what the gangs have of a rack, widest first, and what is free.
function paintBar(view, box) {
  const counts = new Map();
  let total = 0;
  for (const index of box.hosts) {
    for (const gang of view.state.hosts[index].gpus) {
      counts.set(gang, (counts.get(gang) ?? 0) + 1);
      total++;
    }
  }
  const height = box.height - box.head - box.pad;
  let y = view.y + box.y + box.head;
  for (const [gang, count] of [...counts].sort(([a, m], [b, n]) => (b >= 0) - (a >= 0) || n - m || a - b)) {
    const part = (height * count) / total;
    fillDevices(view, gang, false, view.x + box.x + box.pad, y, box.width - 2 * box.pad, part, true);
    y += part;
  }
}

// runs are the devices of a host that are alike and side by side.
function* runs(view, index) {
  const { gpus } = view.state.hosts[index];
  const planned = view.plan?.devices.get(index);
  let start = 0;
  for (let i = 1; i <= gpus.length; i++) {
    if (i < gpus.length && gpus[i] === gpus[start] && planned?.has(i) === planned?.has(start)) continue;
    yield { first: start, count: i - start, gang: gpus[start], planned: Boolean(planned?.has(start)) };
    start = i;
  }
}

function paintStrip(view, index, rect) {
  const { c, theme } = view, host = view.state.hosts[index], gap = rect.height >= 6 ? 1 : 0.5;
  const x = rect.x + gap, y = rect.y + gap, width = rect.width - 2 * gap, height = rect.height - 2 * gap;
  const one = width / Math.max(1, host.gpus.length), small = rect.height < middle;
  for (const run of runs(view, index)) {
    fillDevices(view, run.gang, run.planned, x + run.first * one, y, run.count * one, height, small);
    if (!small && (run.gang >= 0 || run.planned)) letterOn(view, run, x + (run.first + run.count / 2) * one, y + height / 2, run.count * one, height);
  }
  if (host.closed) hatch(c, theme.closed, x, y, width, height);
  if (view.selectedIndex >= 0 && host.gpus.includes(view.selectedIndex)) outline(c, theme.text, x - 0.5, y - 0.5, width + 1, height + 1, 1.5);
}

function paintWhole(view, index, rect) {
  const { c, theme, layout: { scale } } = view, host = view.state.hosts[index];
  c.font = `500 ${Math.min(13, 10.5 * scale)}px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif`;
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.fillStyle = host.closed ? theme.warn : theme.text;
  const label = host.closed ? `${host.name} – ${host.closed}` : host.name;
  const text = c.measureText(label).width <= rect.width - 8 ? label : shortened(c, label, rect.width - 8);
  c.fillText(text, rect.x + 5 * scale, rect.y + 7.5 * scale);
  if (host.gpus.length === 0) return;
  const at = (i) => {
    const d = deviceRect(i);
    return { x: rect.x + d.x * scale + 1, y: rect.y + d.y * scale + 1, size: d.size * scale - 2 };
  };
  for (const run of runs(view, index)) {
    for (let i = run.first; i < run.first + run.count; i++) {
      const d = at(i);
      fillDevices(view, run.gang, run.planned, d.x, d.y, d.size, d.size, false);
      if (host.closed) hatch(c, theme.closed, d.x, d.y, d.size, d.size);
      if (run.gang >= 0 || run.planned) letterOn(view, run, d.x + d.size / 2, d.y + d.size / 2, d.size, d.size);
    }
  }
  if (host.board >= 0) paintLinks(view, view.state.boards[host.board], at);
}

// paintLinks draws under the devices a bar for each set that NVLink connects, with
// a foot at each member; dashed where not all of a set reach each other alike.
function paintLinks({ c, theme, layout: { scale } }, board, at) {
  c.strokeStyle = theme.link;
  c.lineWidth = Math.max(1.5, 2 * scale);
  let before = -1, level = 0; // sets that interleave lie one below the other
  for (const set of board.sets) {
    level = set[0] > before ? 0 : level + 2.2 * scale;
    before = Math.max(before, set.at(-1));
    const ends = set.map(at);
    const y = ends.at(-1).y + ends.at(-1).size + 2.5 * scale + level;
    const centre = (d) => d.x + d.size / 2;
    c.setLineDash(board.uniform ? [] : [3 * scale, 2 * scale]);
    c.beginPath();
    c.moveTo(centre(ends[0]), y);
    c.lineTo(centre(ends.at(-1)), y);
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    for (const d of ends) {
      c.moveTo(centre(d), d.y + d.size);
      c.lineTo(centre(d), y + c.lineWidth / 2);
    }
    c.stroke();
  }
}

function fillDevices(view, gang, planned, x, y, width, height, small) {
  const { c, theme, marks } = view;
  if (planned) {
    c.globalAlpha = 1;
    c.fillStyle = small ? theme.planned : fillOf(c, view.plannedMark, false);
    c.fillRect(x, y, width, height);
    if (!small) outline(c, theme.planned, x, y, width, height, Math.min(3, height / 5));
    return;
  }
  if (gang >= 0) {
    c.globalAlpha = view.dims && gang !== view.selectedIndex ? 0.22 : 1;
    c.fillStyle = fillOf(c, marks[gang], small);
    c.fillRect(x, y, width, height);
    c.globalAlpha = 1;
    return;
  }
  c.fillStyle = theme.free;
  c.fillRect(x, y, width, height);
  if (!small) outline(c, theme.freeLine, x, y, width, height, 1);
  if (gang === unhealthy) cross(c, theme.warn, x, y, width, height);
}

function letterOn(view, run, x, y, width, height) {
  const mark = run.planned ? view.plannedMark : view.marks[run.gang];
  const size = Math.min(12, height - 3, (width - 4) / (0.68 * mark.letter.length));
  if (size < 7) return;
  view.c.globalAlpha = !run.planned && view.dims && run.gang !== view.selectedIndex ? 0.35 : 1;
  letter(view.c, mark, x, y, size);
  view.c.globalAlpha = 1;
}

// paintBlockLetters writes a letter on hosts one above the other that one gang has
// whole, where each alone is too small for it.
function paintBlockLetters(view, box) {
  const wholeOf = (index) => {
    const { gpus } = view.state.hosts[index];
    return gpus.length > 0 && !view.plan?.devices.has(index) && gpus.every((g) => g === gpus[0]) ? gpus[0] : free;
  };
  for (let i = 0; i < box.hosts.length; ) {
    const gang = wholeOf(box.hosts[i]);
    let end = i + 1;
    while (end < box.hosts.length && end % box.rows !== 0 && wholeOf(box.hosts[end]) === gang) end++;
    if (gang >= 0) {
      const first = hostRect(view.layout, box.hosts[i]), height = (end - i) * first.height;
      const middle = { x: view.x + first.x + first.width / 2, y: view.y + first.y + height / 2 };
      if (height >= 11 && middle.y > -20 && middle.y < view.height + 20) letterOn(view, { gang }, middle.x, middle.y, first.width, Math.min(height, 15));
    }
    i = end;
  }
}

function paintCursor(map) {
  if (map.cursor < 0 || map.cursor >= map.state.hosts.length) return;
  const r = hostRect(map.layout, map.cursor);
  outline(map.context, map.theme.ground, map.x + r.x - 3, map.y + r.y - 3, r.width + 6, r.height + 6, 1.5);
  outline(map.context, map.theme.accent, map.x + r.x - 1.5, map.y + r.y - 1.5, r.width + 3, r.height + 3, 3);
}

function outline(c, colour, x, y, width, height, line) {
  c.strokeStyle = colour;
  c.lineWidth = line;
  c.strokeRect(x + line / 2, y + line / 2, width - line, height - line);
}

function hatch(c, colour, x, y, width, height) {
  c.save();
  c.beginPath();
  c.rect(x, y, width, height);
  c.clip();
  c.strokeStyle = colour;
  c.lineWidth = 2;
  c.beginPath();
  for (let i = -height; i < width; i += 6) {
    c.moveTo(x + i, y + height);
    c.lineTo(x + i + height, y);
  }
  c.stroke();
  c.restore();
}

function cross(c, colour, x, y, width, height) {
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  const inset = Math.min(4, height / 4);
  c.beginPath();
  c.moveTo(x + inset, y + inset);
  c.lineTo(x + width - inset, y + height - inset);
  c.moveTo(x + width - inset, y + inset);
  c.lineTo(x + inset, y + height - inset);
  c.stroke();
}

// samples are the legend's pictures.
export const samples = [
  ["free", (c, t) => { c.fillStyle = t.free; c.fillRect(0, 0, 20, 16); outline(c, t.freeLine, 0, 0, 20, 16, 1); }],
  ["taken by gang A", (c) => { const m = { letter: "A", colour: "#0072b2", ink: "#ffffff", pattern: 1 }; c.fillStyle = fillOf(c, m, false); c.fillRect(0, 0, 20, 16); letter(c, m, 10, 8, 11); }],
  ["closed to pods", (c, t) => { c.fillStyle = t.free; c.fillRect(0, 0, 20, 16); outline(c, t.freeLine, 0, 0, 20, 16, 1); hatch(c, t.closed, 0, 0, 20, 16); }],
  ["unhealthy", (c, t) => { c.fillStyle = t.free; c.fillRect(0, 0, 20, 16); outline(c, t.freeLine, 0, 0, 20, 16, 1); cross(c, t.warn, 0, 0, 20, 16); }],
  ["NVLink", (c, t) => { c.strokeStyle = t.link; c.lineWidth = 2; c.beginPath(); c.moveTo(3, 4); c.lineTo(3, 11); c.lineTo(17, 11); c.lineTo(17, 4); c.moveTo(10, 4); c.lineTo(10, 11); c.stroke(); }],
  ["planned", (c, t) => { c.fillStyle = t.free; c.fillRect(0, 0, 20, 16); outline(c, t.planned, 0, 0, 20, 16, 3); }],
];
