// One flow: its picture, its steps with their events and undo requests, and what may be done.

import { eventsFrom, get } from "/ui/api.js";
import { h, icon } from "/ui/dom.js";
import { counted, date, eventBadge, facts, flowBadge } from "/ui/format.js";
import { compareRows } from "/ui/ids.js";
import { answeredOf, callFacts, eventTable, keptBox, loadedPage, pageHead, requestBox,
  saidBox } from "/ui/parts.js";
import { flowActions, stepActions } from "/ui/repair.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";
import { legend, timeline } from "/ui/timeline.js";

const STEPS_MOST = 200;  // drawn and listed at once

// Every step's last known phase stands in the events, so nothing more is to be read.
function isWhole(flow, events) {
  const last = new Map();
  for (const event of events) last.set(event.operation, event.phase);
  return flow.steps.every((step) => last.get(step.step) === step.phase &&
    (!step.undo_operation || last.get(step.undo_operation) === step.undo_phase));
}

async function load(id) {
  const flow = await get(`/flows/${encodeURIComponent(id)}`);
  const rows = await eventsFrom(flow.number, { flow: flow.flow, flows: true },
    (seen) => isWhole(flow, seen));
  const own = new Set();
  for (const step of flow.steps) own.add(step.step).add(step.undo_operation);
  return {
    flow,
    events: rows.filter((row) => row.kind !== "flow" && own.has(row.operation)),
    moves: rows.filter((row) => row.kind === "flow" && row.flow_number === flow.number),
  };
}

export function flowPage({ id }) {
  let number = 0;
  let operations = new Set();
  let name = "";
  const page = loadedPage({
    head: pageHead("Flow", h("a", { class: "button", href: "#/activity?show=flows" },
      icon("back"), "Flows")),
    load: () => load(number || id),
    draw: ({ flow, events, moves }) => {
      number = flow.number;
      name = flow.flow;
      operations = new Set(events.map((event) => event.operation));
      return drawFlow(flow, events, moves, page.reload);
    },
  });
  const end = listen((told) => {
    const isOwn = told.event && (told.event.flow === name ||
      told.event.flow_number === number || operations.has(told.event.operation));
    if (told.kind === "gap" || isOwn) page.reloadSoon();
  });
  return {
    title: "Flow",
    element: page.element,
    close: () => { end(); page.close(); },
  };
}

function drawFlow(flow, events, moves, reload) {
  const steps = flow.steps.slice(0, STEPS_MOST);
  const rest = flow.steps.length - steps.length;
  const focusStep = (step) => {
    const details = document.getElementById(`step-${step}`);
    if (!details) return;
    details.open = true;
    details.scrollIntoView({ block: "nearest", behavior: "smooth" });
    details.querySelector("summary").focus({ preventScroll: true });
  };
  return [
    h("section", { class: "card" },
      h("div", { class: "title-line" },
        h("h2", {}, foreign(flow.name || "Undeclared flow")), flowBadge(flow.phase)),
      flow.reason && h("p", { class: flow.phase === "NEEDS_HUMAN" ? "reason bad" : "reason" },
        flow.phase === "NEEDS_HUMAN" && icon("hand"), foreign(flow.reason)),
      facts([
        ["Number", String(flow.number)],
        ["Flow id", h("span", { class: "mono" }, foreign(flow.flow))],
        ["Caller", foreign(flow.caller)],
        ["Pod", flow.pod && foreign(flow.pod)],
        ["Cause", flow.cause.replaceAll("_", " ")],
        ["Began", date(flow.began)],
        ["Changed", date(flow.changed)],
      ]),
      flowActions(flow, reload)),
    h("section", { class: "card" },
      h("h2", {}, "Timeline"),
      timeline(flow, steps, events, moves, focusStep),
      rest > 0 && h("p", { class: "muted" },
        `The first ${STEPS_MOST} of ${flow.steps.length} steps`),
      legend(),
      moves.length > 0 && movesBox(moves, events, steps)),
    h("section", { class: "card" },
      h("h2", {}, counted(flow.steps.length, "step")),
      steps.map((step, at) => drawStep(flow, step, at, events, reload))),
  ];
}

function movesBox(moves, events, steps) {
  return h("details", { class: "more", "data-keep": "moves" },
    h("summary", {}, "Why it moved"),
    h("ol", { class: "moves" }, moves.map((move) => h("li", {},
      date(move.time, true), flowBadge(move.phase),
      h("span", {}, foreign(move.reason || move.cause.replaceAll("_", " "))),
      causeOf(move, events, steps)))));
}

// The answer that had it moved: the last one before that row.
function causeOf(move, events, steps) {
  const answered = events.findLast((event) => compareRows(event, move) < 0);
  if (!answered?.http_status || !/^(BREAKING|NEEDS_HUMAN)$/.test(move.phase)) return null;
  const step = steps.find((one) => one.step === answered.operation ||
    one.undo_operation === answered.operation);
  const isUndo = step?.undo_operation === answered.operation;
  const said = isUndo ? step.undo_said : step?.said;
  return h("div", { class: "stack" }, h("p", {}, isUndo ? "Undo of " : "", foreign(answered.tool),
    `: status ${answered.http_status}`), saidBox("It was answered", said));
}

const DOES = {
  nothing: "Nothing to undo",
  settle: "Its outcome is unknown and is settled first",
  send: "An undo sends this request",
  skip: "Needs no undo",
  stop: "Cannot be undone without a human",
  too_old: "Too old to be undone",
};

function driftTable(places) {
  const value = (text) =>
    h("td", { class: "mono" }, text === undefined ? "not there" : foreign(text));
  return h("table", {},
    h("thead", {}, h("tr", {}, ["Somebody has changed", "before", "this call left", "now"]
      .map((name) => h("th", {}, name)))),
    h("tbody", {}, places.map((one) => h("tr", {},
      h("td", { class: "mono" }, foreign(one.place || "the whole")),
      value(one.before), value(one.ours), value(one.now)))));
}

function drawStep(flow, step, at, events, reload) {
  const own = events.filter((event) => event.operation === step.step);
  const undo = step.undo_operation
    ? events.filter((event) => event.operation === step.undo_operation) : [];
  const latest = own.at(-1);
  const answered = answeredOf(own);
  return h("details", { class: "step", id: `step-${step.step}`, "data-keep": `step-${step.step}` },
    h("summary", {},
      h("span", { class: "step-number" }, at + 1),
      h("span", { class: "step-name" }, foreign(step.tool || "no longer kept")),
      step.class ? h("span", { class: "muted small" }, step.class) : null,
      latest && eventBadge(latest),
      h("span", { class: "step-call mono muted" }, foreign(`${step.method} ${step.path}`))),
    h("div", { class: "stack step-body" },
      h("p", {}, h("b", {}, `${DOES[step.undo] ?? step.undo}`),
        step.why ? [": ", foreign(step.why)] : "",
        step.not_needed && ". A human decided that its effect stays."),
      saidBox("Its backend refused it", step.said),
      step.undo_sent && [h("p", {}, h("b", {}, "Its undo was sent")),
        requestBox(step.undo_sent, "Undo request")],
      saidBox("Its undo was answered", step.undo_said),
      step.changed_since && driftTable(step.changed_since),
      step.undo_request && requestBox(step.undo_request, "Undo request"),
      stepActions(flow, step, reload),
      latest && h("h3", {}, "Call"),
      latest && callFacts(latest),
      answered && keptBox(answered.event_id),
      h("h3", {}, "Events"),
      eventTable([...own, ...undo].sort(compareRows)),
      h("p", {}, h("a", { href: `#/operation/${step.step}` }, `Operation ${step.step}`),
        step.undo_operation ? [" · ",
          h("a", { href: `#/operation/${step.undo_operation}` },
            `its undo, operation ${step.undo_operation}`)] : "")));
}
