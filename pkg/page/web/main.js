// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// The page: asks for the state, and shows it as a map and as lists.

import { make, plural, setText } from "./dom.js";
import { gangDetails, hostDetails } from "./details.js";
import { Lists } from "./lists.js";
import { FabricMap } from "./map.js";
import { keep, picture } from "./marks.js";
import { samples } from "./paint.js";

const period = 1500; // between two questions for the state, in milliseconds

const byId = (id) => document.getElementById(id);
let state = null;
let open = null; // {gang: key} or {host: index}
const plans = new Map(); // {preempt, pending, answer} by gang's key

const map = new FabricMap(byId("map"), {
  host: openHost,
  gang: openGang,
  hover: showTip,
  moved: (host) => setText(byId("announce"), describeHost(host)),
});
const lists = new Lists(byId("groups"), byId("filter"), openGang);

// What the tests and the curious read.
window.tutti = { map, get state() { return state; } };

byId("zoom-in").addEventListener("click", () => map.zoom(1.5));
byId("zoom-out").addEventListener("click", () => map.zoom(1 / 1.5));
byId("zoom-fit").addEventListener("click", () => map.fitAll());
document.addEventListener("keydown", (e) => {
  const writes = e.target instanceof HTMLInputElement && e.target.type !== "checkbox";
  if (e.key === "Escape") close();
  else if (e.key === "/" && !writes) {
    close();
    byId("filter").focus();
    e.preventDefault();
  }
});
drawLegend();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawLegend);
follow();

// follow asks for the state again and again while the page is seen. The answer is
// empty as long as nothing has changed.
async function follow() {
  let tag = "";
  for (;;) {
    if (!document.hidden) {
      try {
        const answer = await fetch("api/state", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
        if (answer.status === 200) {
          const next = await answer.json();
          tag = answer.headers.get("ETag");
          show(next);
        } else if (answer.status !== 304) throw new Error(await answer.text());
        showStatus("");
        if (!state.live) return;
      } catch (error) {
        showStatus(`no answer from kubectl tutti ui: ${error.message}`);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, period));
  }
}

function showStatus(failure) {
  const status = byId("status"), trouble = failure || state?.trouble || "";
  status.className = trouble ? "trouble" : state?.live ? "" : "still";
  status.title = trouble;
  setText(status, trouble || (state?.live ? "live" : `snapshot ${state?.taken ?? ""}`.trim()));
}

function show(next) {
  state = next;
  for (const gang of [...state.gangs, ...state.drafts]) gang.key = `${gang.state === "draft" ? "draft/" : ""}${gang.kind}/${gang.namespace}/${gang.name}`;
  const all = [...state.gangs, ...state.drafts];
  // The most distinct marks go to those that fill the map.
  keep(all.slice().sort((a, b) => (b.bound > 0) - (a.bound > 0) || b.gpus - a.gpus).map((g) => g.key));
  page.state = state;
  page.hostIndex = new Map(state.hosts.map((h, i) => [h.name, i]));
  setText(byId("source"), state.source);
  byId("source").title = state.source;
  document.title = `Tutti – ${state.source}`;
  showTotals();
  map.show(state);
  lists.show(all);
  refresh();
}

function showTotals() {
  const gpus = state.hosts.flatMap((h) => h.gpus), closed = state.hosts.filter((h) => h.closed);
  const free = state.hosts.reduce((n, h) => n + (h.closed ? 0 : h.gpus.filter((g) => g === -1).length), 0);
  const used = gpus.filter((g) => g >= 0).length;
  const waiting = state.gangs.filter((g) => g.state === "waiting").length;
  const parts = [
    gpus.length > 0 && make("div", {}, make("meter", { min: 0, max: gpus.length, value: used, ariaLabel: "GPUs in use" }), make("b", {}, `${used}`), ` of ${gpus.length} GPUs in use`),
    make("div", {}, make("b", {}, String(free)), " free"),
    make("div", {}, make("b", {}, String(state.hosts.length)), state.hosts.length === 1 ? " host" : " hosts"),
    closed.length > 0 && make("div", {}, make("b", {}, String(closed.length)), " closed"),
    make("div", {}, make("b", {}, String(waiting)), waiting === 1 ? " gang waits" : " gangs wait"),
  ];
  byId("totals").replaceChildren(...parts.filter(Boolean));
}

const page = { state: null, plans, hostIndex: new Map(), ask, openHost, openGang, showHosts: (hosts) => map.zoomTo(hosts) };

function openGang(key) {
  open = { gang: key };
  const hosts = find(key)?.on?.map(([host]) => host) ?? [];
  if (hosts.length > 0 && !map.sees(hosts)) map.zoomTo(hosts);
  refresh(true);
}

function openHost(host) {
  open = { host };
  map.cursor = host;
  if (!map.sees([host])) map.reveal(host);
  refresh(true);
}

function close() {
  const was = open;
  open = null;
  refresh();
  if (was?.gang) lists.focus(was.gang);
  else if (was) byId("map").focus();
}

// refresh shows what is open. Its focus is kept by the id or the text of what has
// it, since the details are made anew.
function refresh(focus) {
  const details = byId("details"), gang = open?.gang && find(open.gang);
  if (gang && plans.get(gang.key)?.state !== gang.state) plans.delete(gang.key); // it was about another state
  if (open?.gang && !gang) open = null;
  byId("lists").hidden = Boolean(open);
  details.hidden = !open;
  map.select(open?.gang ?? null, gang ? overlay(gang) : null);
  if (!open) return details.replaceChildren();
  const content = gang ? gangDetails(page, gang) : hostDetails(page, open.host);
  const held = details.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = details.scrollTop;
  const back = make("button", { type: "button", className: "back", id: "back", onclick: close }, "← All gangs (Esc)");
  details.replaceChildren(back, ...content.filter(Boolean));
  if (focus) {
    details.scrollTop = 0;
    details.querySelector("h2").focus({ preventScroll: true });
    return;
  }
  details.scrollTop = scrolled;
  if (!held) return;
  const again = held.id ? byId(held.id) : [...details.querySelectorAll("button")].find((b) => b.textContent === held.textContent);
  (again ?? details).focus({ preventScroll: true });
}

function find(key) {
  return state.gangs.find((g) => g.key === key) ?? state.drafts.find((g) => g.key === key);
}

// ask asks the scheduler what a gang would get.
async function ask(key, preempt) {
  const gang = find(key);
  if (!gang) return;
  const asked = { preempt, pending: true, answer: null, state: gang.state };
  plans.set(key, asked);
  refresh();
  try {
    const query = new URLSearchParams({ kind: gang.kind, namespace: gang.namespace, name: gang.name, preempt });
    const answer = await fetch(`api/plan?${query}`, { cache: "no-store" });
    asked.answer = answer.ok ? await answer.json() : { error: await answer.text() };
  } catch (error) {
    asked.answer = { error: error.message };
  }
  asked.pending = false;
  refresh();
}

// overlay is where a plan would put the gang: on each host as many devices, free
// ones first and then those of others.
function overlay(gang) {
  const plan = plans.get(gang.key)?.answer;
  if (!plan?.placed) return null;
  const wanted = new Map();
  for (const pod of plan.pods ?? []) {
    const host = page.hostIndex.get(pod.node);
    if (host !== undefined && !pod.running) wanted.set(host, (wanted.get(host) ?? 0) + pod.gpus);
  }
  const own = state.gangs.indexOf(gang), devices = new Map();
  for (const [host, count] of wanted) {
    const { gpus } = state.hosts[host];
    const order = gpus.map((_, i) => i).filter((i) => gpus[i] !== -2).sort((a, b) => (gpus[a] !== -1) - (gpus[b] !== -1) || (gpus[a] !== own) - (gpus[b] !== own) || a - b);
    devices.set(host, new Set(order.slice(0, count)));
  }
  return { key: gang.key, devices };
}

function describeHost(index) {
  const host = state.hosts[index], free = host.gpus.filter((g) => g === -1).length;
  const path = state.domains.filter((d) => d.first <= index && index < d.last).map((d) => `${state.levels[d.level]} ${d.name}`).join(", ");
  const who = state.gangs.filter((g) => g.on?.some(([h]) => h === index)).map((g) => g.name);
  return `${host.name}${path && ", " + path}: ${free} of ${plural(host.gpus.length, "GPU")} free${host.closed ? ", " + host.closed : ""}${who.length > 0 ? "; " + who.slice(0, 4).join(", ") : ""}`;
}

function showTip(index, x, y) {
  const tip = byId("tip");
  tip.hidden = index < 0 || !state;
  if (tip.hidden) return;
  const [name, ...rest] = describeHost(index).split(/(?<=^[^:]*): /);
  tip.replaceChildren(make("b", {}, name), make("span", {}, rest.join(": ")));
  const { clientWidth, clientHeight } = byId("fabric");
  tip.style.left = `${Math.min(x + 14, clientWidth - tip.offsetWidth - 6)}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > clientHeight ? y - tip.offsetHeight - 10 : y + 18}px`;
}

function drawLegend() {
  byId("legend").replaceChildren(...samples.map(([text, draw]) => make("li", {}, picture(20, 16, (c) => draw(c, map.theme)), text)));
}
