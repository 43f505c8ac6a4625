// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// The lists of gangs beside the map.

import { make, plural, setText } from "./dom.js";
import { markOf, swatch } from "./marks.js";

const sections = [
  { title: "Waiting", states: ["waiting", "suspended"], none: "Nothing waits." },
  { title: "Not created", states: ["draft"], none: null },
  { title: "Running", states: ["running", "starting"], none: "Nothing has a GPU." },
];

export class Lists {
  // open is told the key of the gang that was chosen.
  constructor(root, filter, open) {
    this.open = open;
    this.items = new Map(); // by the gang's key
    this.filter = filter;
    this.sections = sections.map((section) => {
      const count = make("span");
      const list = make("ul");
      const none = section.none && make("p", { className: "none" }, section.none);
      const element = make("section", { ariaLabel: section.title }, make("h2", {}, section.title, count), none, list);
      root.append(element);
      return { ...section, count, list, noneElement: none, element };
    });
    root.addEventListener("keydown", (e) => this.key(e));
    filter.addEventListener("input", () => this.apply());
  }

  // show updates what has changed and leaves the rest, and the focus, alone.
  show(gangs) {
    this.gangs = gangs;
    const alive = new Set();
    for (const section of this.sections) {
      const own = gangs.filter((g) => section.states.includes(g.state));
      section.own = own;
      let before = null;
      for (const gang of own) {
        alive.add(gang.key);
        const item = this.item(gang);
        const next = before ? before.nextSibling : section.list.firstChild;
        if (item.element !== next) section.list.insertBefore(item.element, next);
        before = item.element;
      }
    }
    for (const [key, item] of this.items) {
      if (alive.has(key)) continue;
      item.element.remove();
      this.items.delete(key);
    }
    this.apply();
  }

  item(gang) {
    let item = this.items.get(gang.key);
    const letter = markOf(gang.key).letter;
    if (!item) {
      const name = make("span", { className: "name" }), size = make("span", { className: "size" }), verdict = make("span", { className: "verdict" });
      const button = make("button", { type: "button", onclick: () => this.open(gang.key) }, swatch(markOf(gang.key)), name, size, verdict);
      button.dataset.key = gang.key;
      item = { name, size, verdict, button, element: make("li", {}, button) };
      this.items.set(gang.key, item);
    }
    item.button.className = "gang " + gang.state;
    setText(item.name, gang.name);
    setText(item.size, gang.gpus > 0 ? plural(gang.gpus, "GPU") : plural(gang.pods, "pod"));
    setText(item.verdict, summaryOf(gang));
    item.button.setAttribute("aria-label", `${letter}: ${gang.kind} ${gang.namespace}/${gang.name}, ${item.size.textContent}, ${gang.state}. ${item.verdict.textContent}`);
    return item;
  }

  apply() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const section of this.sections) {
      let shown = 0;
      for (const gang of section.own ?? []) {
        const text = `${gang.namespace}/${gang.name} ${gang.kind}`.toLowerCase();
        const fits = words.every((word) => text.includes(word));
        this.items.get(gang.key).element.hidden = !fits;
        shown += fits;
      }
      const all = section.own?.length ?? 0;
      setText(section.count, shown === all ? String(all) : `${shown} of ${all}`);
      if (section.noneElement) section.noneElement.hidden = all > 0;
      section.element.hidden = all === 0 && !section.none;
    }
  }

  // key moves between the items with the arrow keys.
  key(e) {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (!steps[e.key]) return;
    const buttons = [...this.items.values()].map((i) => i.button).filter((b) => !b.parentElement.hidden);
    buttons.sort((a, b) => (a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
    const next = buttons[buttons.indexOf(document.activeElement) + steps[e.key]];
    if (next) next.focus();
    e.preventDefault();
  }

  focus(key) {
    (this.items.get(key)?.button ?? this.filter).focus();
  }
}

function summaryOf(gang) {
  if (gang.state === "waiting" || gang.state === "suspended") return gang.message || gang.reason || `${gang.bound} of ${gang.pods} pods have a node`;
  if (gang.state === "draft") return `${gang.namespace} · ${plural(gang.pods, "pod")}`;
  const pods = gang.bound < gang.pods ? `${gang.bound} of ${plural(gang.pods, "pod")}` : plural(gang.pods, "pod");
  return `${gang.namespace} · ${pods} on ${plural(gang.on?.length ?? 0, "host")}${gang.state === "starting" ? " · starting" : ""}`;
}
