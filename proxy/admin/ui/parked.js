// Flows that wait for a human, and what he may do.

import { get, query } from "/ui/api.js";
import { h, icon } from "/ui/dom.js";
import { counted, spanText, time } from "/ui/format.js";
import { emptyBox, loadedPage, pageHead, saidBox } from "/ui/parts.js";
import { flowActions, stepActions } from "/ui/repair.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";

const SHOWN_MOST = 20;  // with their steps

async function load() {
  const { flows, next } = await get(`/flows${query({ phase: "NEEDS_HUMAN", stopped: "false",
    limit: 200 })}`);
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

export function parkedPage() {
  let shownFlows = new Set();
  const page = loadedPage({
    head: pageHead("Parked", h("p", { class: "muted" },
      "Flows that broke and cannot be undone without you, the oldest first.")),
    load,
    draw: ({ shown, rest, isMore }) => {
      shownFlows = new Set(shown.map((flow) => flow.flow));
      if (shown.length === 0) {
        return emptyBox("check", "Nothing is parked",
          "Broken flows were undone, or are being undone. Nothing waits for a human.");
      }
      return [
        shown.map((flow) => drawCard(flow, page.reload)),
        rest.length > 0 && h("section", { class: "card" },
          h("h2", {}, `${counted(rest.length, "more flow")}${isMore ? " and further ones" : ""}`),
          h("ul", {}, rest.map((flow) => h("li", {},
            h("a", { href: `#/flow/${flow.number}` }, `Flow ${flow.number}`), " ",
            foreign(flow.reason))))),
      ];
    },
  });
  const end = listen((told) => {
    const isOurs = told.kind === "event" && shownFlows.has(told.event.flow);
    if (told.kind === "flow" || told.kind === "gap" || isOurs) page.reloadSoon();
  });
  return { title: "Parked", element: page.element, close: () => { end(); page.close(); } };
}

function drawCard(flow, reload) {
  // In the order in which an undo comes to them: what stopped it stands first.
  const left = flow.steps.filter((step) => step.undo !== "nothing" && !step.not_needed).reverse();
  return h("section", { class: "card", "aria-label": `Flow ${flow.number}` },
    h("div", { class: "title-line" },
      h("h2", {}, h("a", { href: `#/flow/${flow.number}` }, foreign(flow.name || "Undeclared flow"),
        ` ${flow.number}`)),
      h("span", { class: "muted" }, "parked ", time(flow.changed), " · ",
        spanText(Date.now() - Date.parse(flow.changed)), " ago")),
    h("p", { class: "reason bad" }, icon("hand"), foreign(flow.reason)),
    h("p", { class: "muted small" }, `${counted(flow.step_count, "step")}, ` +
      `${flow.undone_count} undone · caller `, foreign(flow.caller), " · flow ",
    h("span", { class: "mono" }, foreign(flow.flow))),
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
