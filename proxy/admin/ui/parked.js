// Flows that wait for a human, and what he may do.

import { get, query } from "/ui/api.js";
import { h, icon } from "/ui/dom.js";
import { counted, date, spanText } from "/ui/format.js";
import { emptyBox, loadedPage, pageHead, saidBox } from "/ui/parts.js";
import { originOf, podFilter } from "/ui/pods.js";
import { bulkActions, flowActions, stepActions } from "/ui/repair.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";

const SHOWN_MOST = 20;  // with their steps

async function load(pod) {
  const { flows, next } = await get(`/flows${query({ phase: "NEEDS_HUMAN", stopped: "false",
    limit: 200, pod })}`);
  const shown = await Promise.all(flows.slice(0, SHOWN_MOST).map(async (flow) => {
    try {
      return await get(`/flows/${flow.number}`);
    } catch (problem) {
      if (problem.status === 404) return null;  // it went on meanwhile
      throw problem;
    }
  }));
  return { shown: shown.filter((flow) => flow?.phase === "NEEDS_HUMAN" && !flow.stopped),
    rest: flows.slice(SHOWN_MOST), isMore: next !== null };
}

// Flows that stopped for the same, whatever the numbers in it: one outage parks many.
function groupsOf(flows) {
  const groups = new Map();
  for (const flow of flows) {
    const key = `${flow.name}\n${flow.reason.replace(/\d+/g, "0")}`;
    groups.set(key, [...groups.get(key) ?? [], flow]);
  }
  return [...groups.values()];
}

export function parkedPage({ values }) {
  let shownFlows = new Set();
  const page = loadedPage({
    head: pageHead("Parked", h("p", { class: "muted" },
      "Flows that broke and cannot be undone without you, the oldest first."),
    podFilter("parked", values.pod)),
    load: () => load(values.pod),
    draw: ({ shown, rest, isMore }) => {
      shownFlows = new Set(shown.map((flow) => flow.flow));
      if (shown.length === 0) {
        return emptyBox("check", "Nothing is parked",
          "Broken flows were undone, or are being undone. Nothing waits for a human.");
      }
      const isShown = new Set(shown.map((flow) => flow.number));
      return [
        groupsOf([...shown, ...rest]).map((flows) => [
          flows.length > 1 && drawGroup(flows, page.reload),
          flows.filter((flow) => isShown.has(flow.number))
            .map((flow) => drawCard(flow, page.reload)),
          restBox(flows.filter((flow) => !isShown.has(flow.number))),
        ]),
        isMore && h("p", { class: "muted" }, "There are more; see to some of these first."),
      ];
    },
  });
  const end = listen((told) => {
    const isOurs = told.kind === "event" && shownFlows.has(told.event.flow);
    if (told.kind === "flow" || told.kind === "gap" || isOurs) page.reloadSoon();
  });
  return { title: "Parked", element: page.element, close: () => { end(); page.close(); } };
}

function drawGroup(flows, reload) {
  const [{ name, reason }] = flows;
  return h("section", { class: "card group", "aria-label": `Group of ${flows.length}` },
    h("h2", {}, `${counted(flows.length, "flow")} of `, foreign(name || "no declared kind"),
      " stopped for the same"),
    h("p", { class: "reason bad" }, icon("hand"), foreign(reason)),
    bulkActions(flows, reload));
}

function restBox(flows) {
  if (flows.length === 0) return null;
  return h("section", { class: "card" }, h("h2", {}, counted(flows.length, "more flow")),
    h("ul", {}, flows.map((flow) => h("li", {},
      h("a", { href: `#/flow/${flow.number}` }, `Flow ${flow.number}`), " ",
      foreign(flow.reason)))));
}

function drawCard(flow, reload) {
  // In the order in which an undo comes to them: what stopped it stands first.
  const left = flow.steps.filter((step) => step.undo !== "nothing" && !step.not_needed).reverse();
  return h("section", { class: "card", "aria-label": `Flow ${flow.number}` },
    h("div", { class: "title-line" },
      h("h2", {}, h("a", { href: `#/flow/${flow.number}` }, foreign(flow.name || "Undeclared flow"),
        ` ${flow.number}`)),
      h("span", { class: "muted" }, "parked ", date(flow.changed), " · ",
        spanText(Date.now() - Date.parse(flow.changed)), " ago")),
    h("p", { class: "reason bad" }, icon("hand"), foreign(flow.reason)),
    h("p", { class: "muted small" }, `${counted(flow.step_count, "step")}, ` +
      `${flow.undone_count} undone · caller `, foreign(flow.caller), " · flow ",
    h("span", { class: "mono" }, foreign(flow.flow)),
    originOf(flow) && [" · pod ", foreign(originOf(flow))]),
    left.length > 0 && h("ul", { class: "left-steps" }, left.map((step) => h("li", {},
      h("div", {}, h("b", {}, foreign(step.tool)), " ",
        h("span", { class: "mono muted" }, foreign(`${step.method} ${step.path}`)),
        h("p", { class: "small" }, sayStep(step)),
        saidBox("Its undo was answered", step.undo_said)),
      stepActions(flow, step, reload)))),
    flowActions(flow, reload));
}

function sayStep(step) {
  if (step.undo === "settle") return "Nobody knows yet whether it took effect.";
  const request = step.undo_request
    ? ["Its undo: ", h("span", { class: "mono" },
      foreign(`${step.undo_request.method} ${step.undo_request.url}`))] : [];
  const tries = step.undo_attempts > 0 ? ` Tried ${counted(step.undo_attempts, "time")}.` : "";
  return [foreign(step.why), step.why ? " " : "", request, tries];
}
