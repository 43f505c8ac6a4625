// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// The details of one gang or one host, in place of the lists.

import { make, plural } from "./dom.js";
import { markOf, swatch } from "./marks.js";

const plannable = ["TFJob", "PodGroup", "Pod"]; // what Tutti's scheduler can be asked about

// gangDetails shows a gang. page has state, plans (answers by gang's key), ask(key,
// preempt), openHost(index), openGang(key), showHosts(indexes).
export function gangDetails(page, gang) {
  const { state } = page;
  const hosts = (gang.on ?? []).map(([host]) => host);
  const facts = [
    ["State", stateText(gang)],
    ["Pods", `${gang.pods}${gang.pods && gang.state !== "draft" ? `, ${gang.bound} with a node, ${gang.running} running` : ""}`],
    ["GPUs", String(gang.gpus)],
    gang.minimum && ["Starts with", plural(gang.minimum, "pod")],
    gang.priority && ["Priority", String(gang.priority)],
    gang.since && ["Created", new Date(gang.since).toLocaleString()],
    hosts.length > 0 && ["Where", whereOf(state, hosts)],
    ...Object.entries(gang.wishes ?? {}).map(([key, value]) => ["Asks for", `${key.replace(/^tutti\.dev\//, "")}: ${value}`]),
  ].filter(Boolean);
  const waits = gang.state === "waiting" || gang.state === "suspended";
  return [
    make("h2", { tabIndex: -1 }, swatch(markOf(gang.key)), gang.name),
    make("p", { className: "kind" }, `${gang.kind} in namespace ${gang.namespace}`),
    gang.message && make("p", { className: "message" + (waits ? " waiting" : "") }, gang.message),
    make("dl", {}, ...facts.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)])),
    asking(page, gang),
    hosts.length > 0 && hostTable(page, gang),
  ];
}

function stateText(gang) {
  return { waiting: "waits", suspended: "suspended", starting: "has its nodes, starts", running: "runs", draft: "not created" }[gang.state];
}

// whereOf is the narrowest domain that holds all the hosts.
function whereOf(state, hosts) {
  const first = Math.min(...hosts), last = Math.max(...hosts);
  if (first === last) return pathOf(state, first) + state.hosts[first].name;
  const around = state.domains.filter((d) => d.first <= first && last < d.last);
  return around.length === 0 ? "the cluster" : around.map((d) => `${state.levels[d.level]} ${d.name}`).join(", ");
}

function pathOf(state, host) {
  return state.domains.filter((d) => d.first <= host && host < d.last).map((d) => `${state.levels[d.level]} ${d.name}, `).join("");
}

// asking is the button that asks the scheduler, and its answer.
function asking(page, gang) {
  if (!page.state.plans || !plannable.includes(gang.kind)) return null;
  if (gang.kind !== "TFJob" && gang.state !== "waiting") return null; // it has what it asks for
  const asked = page.plans.get(gang.key);
  const preempt = make("input", { type: "checkbox", id: "preempt", checked: Boolean(asked?.preempt) });
  const label = gang.state === "waiting" ? "Ask the scheduler now" : gang.state === "draft" ? "What would it get?" : gang.state === "suspended" ? "What would it get if resumed?" : "What would it get if created anew?";
  const button = make("button", { type: "button", className: "primary", id: "ask", disabled: Boolean(asked?.pending), onclick: () => page.ask(gang.key, preempt.checked) }, asked?.pending ? "Asking …" : label);
  return make("div", {},
    make("div", { className: "ask" }, button, make("label", { htmlFor: "preempt" }, preempt, "it may evict others")),
    make("div", { role: "status", id: "plan" }, ...(asked?.answer ? answer(page, asked.answer) : [])));
}

function answer(page, plan) {
  if (plan.error) return [make("h3", {}, "No answer"), make("p", { className: "message waiting" }, plan.error)];
  const rows = new Map(); // by node
  for (const pod of plan.pods ?? []) {
    if (!pod.node || !plan.placed) continue;
    if (!rows.has(pod.node)) rows.set(pod.node, []);
    rows.get(pod.node).push(pod);
  }
  const index = page.hostIndex;
  const nodes = [...rows.keys()].sort((a, b) => (index.get(a) ?? 0) - (index.get(b) ?? 0));
  return [
    make("h3", {}, plan.placed ? "It would start" : plan.failed ? "It would fail" : "It would wait"),
    make("p", { className: "message " + (plan.placed ? "good" : "waiting") }, plan.message),
    ...(plan.help ?? []).map((text) => make("p", { className: "message good" }, text)),
    plan.evicted?.length > 0 && make("p", { className: "message waiting" }, `${plural(plan.evicted.length, "pod")} would be evicted for it: ${plan.evicted.map((p) => `${p.namespace}/${p.name}`).join(", ")}`),
    nodes.length > 0 && make("table", {},
      make("thead", {}, make("tr", {}, ...["Host", "Where", "Pods"].map((t) => make("th", { scope: "col" }, t)))),
      make("tbody", {}, ...nodes.map((node) => make("tr", {},
        make("td", {}, hostButton(page, node)),
        make("td", {}, index.has(node) ? pathOf(page.state, index.get(node)).replace(/, $/, "") : ""),
        make("td", {}, rows.get(node).map((p) => p.name + (p.running ? " (runs)" : "")).join(", ")))))),
  ].filter(Boolean);
}

function hostButton(page, node) {
  const host = page.hostIndex.get(node);
  return host === undefined ? node : make("button", { type: "button", onclick: () => page.openHost(host) }, node);
}

function hostTable(page, gang) {
  const { state } = page, index = state.gangs.indexOf(gang), most = 200;
  const rows = gang.on.slice(0, most).map(([host, pods]) => make("tr", {},
    make("td", {}, make("button", { type: "button", onclick: () => page.openHost(host) }, state.hosts[host].name)),
    make("td", {}, pathOf(state, host).replace(/, $/, "")),
    make("td", {}, String(pods)),
    make("td", {}, String(state.hosts[host].gpus.filter((g) => g === index).length))));
  return make("section", { ariaLabel: "Hosts" },
    make("h3", {}, plural(gang.on.length, "host"), " ", make("button", { type: "button", onclick: () => page.showHosts(gang.on.map(([h]) => h)) }, "Show on the map")),
    make("table", {}, make("thead", {}, make("tr", {}, ...["Host", "Where", "Pods", "GPUs"].map((t) => make("th", { scope: "col" }, t)))), make("tbody", {}, ...rows)),
    gang.on.length > most && make("p", { className: "kind" }, `and ${gang.on.length - most} more`));
}

// hostDetails shows a host: who has its devices, and how they are linked.
export function hostDetails(page, index) {
  const { state } = page, host = state.hosts[index], board = state.boards[host.board];
  const free = host.gpus.filter((g) => g === -1).length;
  const residents = state.gangs.filter((g) => g.on?.some(([h]) => h === index));
  const facts = [
    ["Where", pathOf(state, index).replace(/, $/, "") || "no level's label"],
    [state.resource || "Devices", `${host.gpus.length}, ${free} free`],
    host.closed && ["Pods", `takes none: ${host.closed}`],
    board?.model && ["Model", board.model],
    ["Links", board ? (board.uniform ? "every choice of GPUs is connected alike" : "not all GPUs reach each other alike") : "unknown: no NodeTopology tells them"],
    board && ["NVLink sets", board.sets.length > 0 ? board.sets.map((s) => s.join(" ")).join(" | ") : "none"],
  ].filter(Boolean);
  return [
    make("h2", { tabIndex: -1 }, host.name),
    make("p", { className: "kind" }, "Host"),
    make("dl", {}, ...facts.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)])),
    make("h3", {}, "Who is there"),
    residents.length === 0 ? make("p", { className: "kind" }, "Nobody.") : make("ul", {}, ...residents.map((gang) => resident(page, gang, index))),
    board && make("h3", {}, "GPUs and links"),
    board && matrix(page, host, board),
    host.gpus.length > 0 && !host.exact && residents.length > 0 && make("p", { className: "kind" }, "Which GPU a pod has is not reported here; only how many are taken is known."),
  ];
}

function resident(page, gang, index) {
  const pods = gang.on.find(([h]) => h === index)[1], own = page.state.gangs.indexOf(gang);
  const gpus = page.state.hosts[index].gpus.filter((g) => g === own).length;
  return make("li", {}, make("button", { type: "button", className: "gang", onclick: () => page.openGang(gang.key) },
    swatch(markOf(gang.key)), make("span", { className: "name" }, gang.name), make("span", { className: "size" }, plural(gpus, "GPU")),
    make("span", { className: "verdict" }, `${gang.namespace} · ${plural(pods, "pod")} here`)));
}

function matrix(page, host, board) {
  const who = (g) => (g >= 0 ? markOf(page.state.gangs[g].key).letter : g === -1 ? "free" : "unhealthy");
  const all = board.links.map((_, i) => i);
  return make("div", { className: "matrix-scroll", tabIndex: 0, role: "region", ariaLabel: "Links between GPUs" }, make("table", { className: "matrix" },
    make("thead", {}, make("tr", {}, make("td", {}), ...all.map((i) => make("th", { scope: "col" }, String(i))), make("th", { scope: "col" }, "NUMA"), make("th", { scope: "col" }, "has it"))),
    make("tbody", {}, ...all.map((i) => make("tr", {}, make("th", { scope: "row" }, String(i)),
      ...board.links[i].map((link) => make("td", { className: link.startsWith("NV") ? "nvlink" : "" }, link || "·")),
      make("td", {}, board.numa[i] < 0 ? "?" : String(board.numa[i])),
      make("td", {}, who(host.gpus[i])))))));
}
