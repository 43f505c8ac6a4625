// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// What a gang looks like: a letter, a colour and a pattern. The letter alone tells
// gangs apart, and where it has no room the pattern helps, so the page reads without
// colours too. The colours, but for the last, are those of Okabe and Ito, "Color Universal Design", 2008.

const colours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7a5195"];
const patterns = 7; // solid, and those of drawPattern; coprime to the colours, so that 56 gangs differ

const given = new Map(); // indexes by gang's key, kept while the gang lives
const taken = new Set();

// keep gives each of the gangs a mark, and takes those of gangs that have gone.
// The marks of the others stay as they are.
export function keep(keys) {
  const alive = new Set(keys);
  for (const [key, index] of given) {
    if (!alive.has(key)) {
      given.delete(key);
      taken.delete(index);
    }
  }
  let next = 0;
  for (const key of keys) {
    if (given.has(key)) continue;
    while (taken.has(next)) next++;
    given.set(key, next);
    taken.add(next);
  }
}

// markOf is the mark of a gang.
export function markOf(key) {
  const index = given.get(key) ?? 0;
  const colour = colours[index % colours.length];
  return { letter: letters(index), colour, ink: inkOn(colour), pattern: index % patterns };
}

// letters counts A … Z, AA, AB ….
function letters(n) {
  let text = "";
  for (n++; n > 0; n = Math.floor((n - 1) / 26)) text = String.fromCharCode(65 + ((n - 1) % 26)) + text;
  return text;
}

function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#000000" : "#ffffff";
}

const tiles = new Map();

// fillOf is what a gang's devices are filled with: the pattern from some size on,
// below it the plain colour.
export function fillOf(context, mark, coarse) {
  if (coarse || mark.pattern === 0) return mark.colour;
  const key = mark.colour + mark.pattern;
  let tile = tiles.get(key);
  if (!tile) {
    tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const t = tile.getContext("2d");
    t.fillStyle = mark.colour;
    t.fillRect(0, 0, 8, 8);
    t.globalAlpha = mark.ink === "#ffffff" ? 0.55 : 0.45;
    t.strokeStyle = t.fillStyle = mark.ink;
    drawPattern(t, mark.pattern);
    tiles.set(key, tile);
  }
  return context.createPattern(tile, "repeat");
}

function drawPattern(t, pattern) {
  const lines = {
    1: [[-2, 10, 10, -2], [-2, 2, 2, -2], [6, 10, 10, 6]], // rising
    3: [[0, 2, 8, 2], [0, 6, 8, 6]], // level
    4: [[-2, -2, 10, 10], [6, -2, 10, 2], [-2, 6, 2, 10]], // falling
    5: [[2, 0, 2, 8], [6, 0, 6, 8]], // upright
    6: [[0, 4, 8, 4], [4, 0, 4, 8]], // crossed
  }[pattern];
  t.lineWidth = 1.2;
  t.beginPath();
  if (!lines) {
    for (const [x, y] of [[2, 2], [6, 6]]) {
      t.moveTo(x + 1.3, y);
      t.arc(x, y, 1.3, 0, 7);
    }
    t.fill();
    return;
  }
  for (const [x1, y1, x2, y2] of lines) {
    t.moveTo(x1, y1);
    t.lineTo(x2, y2);
  }
  t.stroke();
}

// letter draws the gang's letter on ground of its colour, so that the pattern
// does not cross it.
export function letter(c, mark, x, y, size) {
  c.font = `700 ${size}px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  const width = c.measureText(mark.letter).width + 4;
  c.fillStyle = mark.colour;
  c.fillRect(x - width / 2, y - size / 2 - 1, width, size + 2);
  c.fillStyle = mark.ink;
  c.fillText(mark.letter, x, y + 0.5);
}

// swatch is a small picture of a mark, for lists.
export function swatch(mark, width = 30, height = 26) {
  return picture(width, height, (c) => {
    c.fillStyle = fillOf(c, mark, false);
    c.fillRect(0, 0, width, height);
    letter(c, mark, width / 2, height / 2, Math.min(13, height - 4));
  });
}

// picture is a canvas that is sharp on the screen at hand.
export function picture(width, height, draw) {
  const canvas = document.createElement("canvas");
  const ratio = window.devicePixelRatio || 1;
  canvas.className = "mark";
  canvas.setAttribute("aria-hidden", "true");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  draw(context);
  return canvas;
}
