// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// The map: a canvas that can be moved and zoomed, by pointer and by keys. What is
// drawn on it is paint.js's, where things lie layout.js's.

import { arrange, deviceRect, fit, hostAt, hostRect, place } from "./layout.js";
import { countFree, paint, themeOf } from "./paint.js";

const margin = 14;
const legendRoom = 58;
const maxScale = 2;

export class FabricMap {
  // on has host(index), gang(key), hover(index, x, y) and moved(index), which tells where the keys have gone.
  constructor(canvas, on) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.on = on;
    this.state = null;
    this.cursor = -1;
    this.selected = null; // a gang's key
    this.plan = null; // devices by host
    this.x = this.y = 0;
    this.fitted = true;
    this.theme = themeOf(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.theme = themeOf(canvas);
      this.redraw();
    });
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
  }

  // show draws a state. The layout stays if the fabric is the same.
  show(state) {
    const fabric = JSON.stringify([state.domains, state.hosts.map((h) => h.gpus.length)]);
    this.state = state;
    if (fabric !== this.fabric) {
      this.fabric = fabric;
      this.cursor = Math.min(this.cursor, state.hosts.length - 1);
      this.resize(true);
    } else if (this.layout) countFree(this.layout, state);
    this.redraw();
  }

  select(key, plan) {
    this.selected = key;
    this.plan = plan;
    this.redraw();
  }

  resize(anew) {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (!this.state || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.width = width;
    this.height = height;
    if (anew || !this.layout) {
      this.rearrange();
    } else if (this.fitted) {
      this.fitAll();
      clearTimeout(this.later); // a window's edge that is being dragged sends many sizes
      this.later = setTimeout(() => this.fitted && this.rearrange(), 150);
    }
    this.redraw();
  }

  rearrange() {
    this.layout = arrange(this.state, this.width - 2 * margin, this.height - margin - legendRoom);
    countFree(this.layout, this.state);
    this.fitAll();
  }

  fitAll() {
    this.fitScale = fit(this.layout, this.width - 2 * margin, this.height - margin - legendRoom);
    this.fitted = true;
    this.clamp();
    this.redraw();
  }

  // zoom changes the scale and keeps what is at (x, y) there.
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    if (!this.layout) return;
    const scale = Math.min(Math.max(this.layout.scale * factor, this.fitScale), Math.max(maxScale, this.fitScale));
    const host = hostAt(this.layout, x - this.x, y - this.y);
    const before = host >= 0 ? hostRect(this.layout, host) : { x: 0, y: 0, width: this.layout.root.width, height: this.layout.root.height };
    const partX = (x - this.x - before.x) / before.width, partY = (y - this.y - before.y) / before.height;
    place(this.layout, scale);
    const after = host >= 0 ? hostRect(this.layout, host) : { x: 0, y: 0, width: this.layout.root.width, height: this.layout.root.height };
    this.x = x - after.x - partX * after.width;
    this.y = y - after.y - partY * after.height;
    this.fitted = scale <= this.fitScale * 1.001;
    this.clamp();
    this.redraw();
  }

  // zoomTo shows a range of hosts as large as they go.
  zoomTo(hosts) {
    if (!this.layout || hosts.length === 0) return;
    const bounds = () => {
      const rects = hosts.map((h) => hostRect(this.layout, h));
      const x = Math.min(...rects.map((r) => r.x)), y = Math.min(...rects.map((r) => r.y));
      return { x, y, width: Math.max(...rects.map((r) => r.x + r.width)) - x, height: Math.max(...rects.map((r) => r.y + r.height)) - y };
    };
    const room = { width: this.width - 2 * margin, height: this.height - margin - legendRoom };
    let b = bounds();
    for (let i = 0; i < 4; i++) {
      const factor = Math.min(room.width / b.width, room.height / b.height);
      place(this.layout, Math.min(Math.max(this.layout.scale * factor, this.fitScale), 1.5));
      b = bounds();
    }
    this.fitted = this.layout.scale <= this.fitScale * 1.001;
    this.x = this.width / 2 - b.x - b.width / 2;
    this.y = (this.height - legendRoom + margin) / 2 - b.y - b.height / 2;
    this.clamp();
    this.redraw();
  }

  // sees tells whether all of the hosts are in sight.
  sees(hosts) {
    return hosts.every((h) => {
      const r = hostRect(this.layout, h), x = this.x + r.x, y = this.y + r.y;
      return x >= 0 && y >= 0 && x + r.width <= this.width && y + r.height <= this.height - legendRoom / 2;
    });
  }

  clamp() {
    const { width, height } = this.layout.root;
    const within = (offset, size, low, high) => (size <= high - low ? low + (high - low - size) / 2 : Math.min(low, Math.max(high - size, offset)));
    this.x = within(this.x, width, margin, this.width - margin);
    this.y = height <= this.height - margin - legendRoom ? margin : Math.min(margin, Math.max(this.height - legendRoom - height, this.y));
  }

  redraw() {
    if (this.frame || !this.layout) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const start = performance.now();
      paint(this);
      if (this.painted === undefined) performance.mark("map");
      this.painted = performance.now() - start; // for whoever measures
    });
  }

  listen() {
    const c = this.canvas;
    const at = (e) => {
      const box = c.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    let held = null, moved = false;
    c.addEventListener("pointerdown", (e) => {
      held = [e.clientX, e.clientY];
      moved = false;
      c.setPointerCapture(e.pointerId);
    });
    c.addEventListener("pointermove", (e) => {
      if (!held) {
        const [x, y] = at(e);
        this.on.hover(this.hostAt(x, y), x, y);
        return;
      }
      const [dx, dy] = [e.clientX - held[0], e.clientY - held[1]];
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true;
      held = [e.clientX, e.clientY];
      this.x += dx;
      this.y += dy;
      this.on.hover(-1);
      if (this.layout) this.clamp();
      this.redraw();
    });
    c.addEventListener("pointerup", (e) => {
      if (held && !moved) this.click(...at(e));
      held = null;
    });
    c.addEventListener("pointercancel", () => (held = null));
    c.addEventListener("pointerleave", () => this.on.hover(-1));
    c.addEventListener("dblclick", (e) => this.zoom(2, ...at(e)));
    c.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.on.hover(-1);
      this.zoom(Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : e.deltaMode ? 0.06 : 0.002)), ...at(e));
    }, { passive: false });
    c.addEventListener("keydown", (e) => this.key(e));
    c.addEventListener("focus", () => this.redraw());
    c.addEventListener("blur", () => this.redraw());
  }

  hostAt(x, y) {
    return this.layout ? hostAt(this.layout, x - this.x, y - this.y) : -1;
  }

  // click takes the gang that has the device there, or else the host.
  click(x, y) {
    const host = this.hostAt(x, y);
    if (host < 0) return;
    this.cursor = host;
    this.redraw();
    const gang = this.state.hosts[host].gpus[this.deviceAt(host, x, y)];
    if (gang >= 0) this.on.gang(this.state.gangs[gang].key);
    else this.on.host(host);
  }

  deviceAt(host, x, y) {
    const rect = hostRect(this.layout, host), { scale } = this.layout;
    const count = this.state.hosts[host].gpus.length;
    const px = x - this.x - rect.x, py = y - this.y - rect.y;
    if (rect.height < paint.detail) return Math.floor((px / rect.width) * count);
    return this.state.hosts[host].gpus.findIndex((_, i) => {
      const d = deviceRect(i);
      return px >= d.x * scale && px < (d.x + d.size) * scale && py >= d.y * scale && py < (d.y + d.size) * scale;
    });
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.layout) return;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (steps[e.key]) this.step(...steps[e.key]);
    else if (e.key === "Enter" || e.key === " ") this.cursor >= 0 && this.on.host(this.cursor);
    else if (e.key === "+" || e.key === "=") this.zoomAtCursor(1.5);
    else if (e.key === "-") this.zoomAtCursor(1 / 1.5);
    else if (e.key === "0" || e.key === "Home") this.fitAll();
    else return;
    e.preventDefault();
  }

  zoomAtCursor(factor) {
    if (this.cursor < 0) return this.zoom(factor);
    const r = hostRect(this.layout, this.cursor);
    this.zoom(factor, this.x + r.x + r.width / 2, this.y + r.y + r.height / 2);
    this.reveal(this.cursor);
  }

  // step moves the cursor to the nearest host on that side.
  step(dx, dy) {
    if (this.state.hosts.length === 0) return;
    if (this.cursor < 0) this.cursor = 0;
    else {
      const from = hostRect(this.layout, this.cursor);
      let best = -1, least = Infinity;
      for (let h = 0; h < this.state.hosts.length; h++) {
        const to = hostRect(this.layout, h);
        const ahead = dx * (to.x - from.x) + dy * (to.y - from.y), aside = Math.abs(dx ? to.y - from.y : to.x - from.x);
        const cost = ahead + 3 * aside;
        if (ahead > 1 && cost < least) [best, least] = [h, cost];
      }
      if (best >= 0) this.cursor = best;
    }
    this.reveal(this.cursor);
    this.on.moved(this.cursor);
  }

  reveal(host) {
    const r = hostRect(this.layout, host);
    const low = { x: this.x + r.x, y: this.y + r.y };
    this.x += Math.max(0, margin - low.x) - Math.max(0, low.x + r.width - this.width + margin);
    this.y += Math.max(0, margin + 20 - low.y) - Math.max(0, low.y + r.height - this.height + legendRoom);
    this.clamp();
    this.redraw();
  }
}
