// A flow drawn as a picture: one lane for each step, time from left to right.

import { h, newId, replace, s } from "/ui/dom.js";
import { dateText, spanText } from "/ui/format.js";
import { layOut } from "/ui/layout.js";

const BAR = 14;
const SHAPES = {
  success: "M-3.5 0.3 L-1 2.8 L3.7 -2.7",
  failed: "M-2.8 -2.8 L2.8 2.8 M2.8 -2.8 L-2.8 2.8",
  compensated: "M-3.6 -0.6 H1 A2.3 2.3 0 0 1 1 4 H-0.5 M-1.3 -3 L-3.7 -0.6 L-1.3 1.8",
  held: "M-3.2 0 H3.2",
  kept: "M0 -3.5 V0.8 M0 3.3 V3.4",
  parked: "M-1.8 -3 V3 M1.8 -3 V3",
};

function cut(text, room) {
  const most = Math.max(4, Math.floor(room / 7.2));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// SVG has no bdi: what could turn the line around or hide in it is left to the list below.
function plain(text) {
  return text.replace(/[^\x20-\x7e\u00a1-\u024f\u0370-\u03ff\u0400-\u04ff]/g, "\ufffd");
}

function title(text) {
  return s("title", {}, text);
}

function spanTitle(lane, span) {
  const until = span.isRunning ? "goes on" : spanText(span.to - span.from);
  const words = {
    attempt: `attempt ${span.attempt}, ${until}`,
    undo: `undo request, attempt ${span.attempt}, ${until}`,
    held: `undo held back, attempt ${span.attempt}, ${until}`,
    unknown: `outcome unknown, ${until}`,
    waiting: `waits for a human, ${until}`,
    effect: `its effect stood, ${span.isRunning ? "and stands" : until}`,
  };
  return `${plain(lane.tool)}: ${words[span.kind]}, from ${dateText(span.event.time, true)}`;
}

function drawSpan(lane, span, hatch) {
  if (span.kind === "effect") {
    return s("line", { class: "t-effect", x1: span.x, x2: span.x + span.width, y1: lane.y,
      y2: lane.y }, title(spanTitle(lane, span)));
  }
  const box = { x: span.x, y: lane.y - BAR / 2, width: span.width, height: BAR, rx: 4 };
  const parts = [s("rect", { ...box, class: `t-bar t-${span.kind}` })];
  if (span.kind === "unknown") parts.push(s("rect", { ...box, fill: `url(#${hatch})` }));
  if (span.attempt > 1 && span.width > 34 && span.kind !== "unknown") {
    parts.push(s("text", { class: "t-try", x: span.x + 5, y: lane.y + 4 }, `try ${span.attempt}`));
  }
  return s("g", {}, title(spanTitle(lane, span)), parts);
}

function drawMark(mark, y) {
  const words = { kept: "its effect stays, by a human's word", parked: "parked" };
  const phase = mark.kind === "held" ? "undo not sent: changed since" : mark.event?.phase;
  const text = mark.event ? `${phase}, ${dateText(mark.event.time, true)}`
    : words[mark.kind];
  return s("g", { class: `t-mark t-mark-${mark.kind}`, transform: `translate(${mark.x} ${y})` },
    title(text), s("circle", { r: 8 }), s("path", { d: SHAPES[mark.kind] ?? "M0 0" }));
}

function drawArrow(arrow, head) {
  const middle = (arrow.from.y + arrow.to.y) / 2;
  const bend = 10;
  return s("path", { class: "t-arrow", "marker-end": `url(#${head})`,
    d: `M${arrow.from.x} ${arrow.from.y + Math.sign(arrow.to.y - arrow.from.y) * 9} ` +
      `C${arrow.from.x + bend} ${middle} ${arrow.to.x - bend} ${middle} ` +
      `${arrow.to.x} ${arrow.to.y - Math.sign(arrow.to.y - arrow.from.y) * 10}` });
}

const PHASES = { OPEN: ["open", "open"], COMMITTED: ["committed", "committed"],
  BREAKING: ["breaking", "breaking"], UNDOING: ["undoing", "undoing"], UNDONE: ["undone", "undone"],
  NEEDS_HUMAN: ["parked", "parked"] };

function drawPhase(phase, layout) {
  const [kind, word] = PHASES[phase.phase] ?? ["open", phase.phase];
  const y = 24;
  const isWide = phase.width > word.length * 6.4 + 8;
  return s("g", { class: `t-phase t-phase-${kind}` },
    title(`${word} from ${dateText(phase.time, true)}` +
      `${phase.reason ? `: ${plain(phase.reason)}` : ""}`),
    (kind === "undoing" || kind === "parked") && s("rect", { class: "t-shade", x: phase.x,
      y: y + 16, width: phase.width, height: layout.height - y - 18 }),
    s("rect", { class: "t-strip", x: phase.x, y, width: phase.width - 1, height: 15, rx: 3 }),
    isWide && s("text", { x: phase.x + 6, y: y + 11.2 }, word));
}

function drawLane(lane, layout, hatch, open) {
  const said = lane.spans.filter((span) => span.kind !== "effect")
    .map((span) => spanTitle(lane, span)).join("; ");
  const last = lane.marks.at(-1);
  return s("g", { class: `t-lane${lane.isStuck && layout.parkedAt !== null ? " t-stuck" : ""}`,
    role: "button", tabindex: "0", "data-keep": `lane-${lane.step}`,
    "aria-label": `Step ${lane.number}, ${plain(lane.tool)}: ${said}` +
      `${last ? `; ${last.kind === "held" ? "held back" : last.kind}` : ""}. Show its events`,
    onclick: () => open(lane.step),
    onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      open(lane.step);
    } },
  s("rect", { class: "t-row", x: 0, y: lane.top + 1, width: layout.width,
    height: layout.laneHeight - 2, rx: 6 }),
  s("text", { class: "t-label", x: lane.label.x, y: lane.label.y },
    s("tspan", { class: "t-number" }, `${lane.number} `),
    cut(plain(lane.tool), lane.label.room - 24)),
  lane.spans.map((span) => drawSpan(lane, span, hatch)),
  lane.marks.map((mark) => drawMark(mark, lane.y)),
  lane.isStuck && layout.parkedAt !== null &&
    drawMark({ kind: "parked", x: layout.parkedAt }, lane.y));
}

function draw(layout, flow, open) {
  const hatch = newId("hatch");
  const head = newId("head");
  return s("svg", { class: "timeline", width: layout.width, height: layout.height,
    viewBox: `0 0 ${layout.width} ${layout.height}`, role: "group",
    "aria-label": `Timeline of the flow, ${layout.lanes.length} steps` },
  s("defs", {},
    s("pattern", { id: hatch, width: 6, height: 6, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)" },
    s("line", { class: "t-hatch", x1: 0, y1: 0, x2: 0, y2: 6 })),
    s("marker", { id: head, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7,
      orient: "auto-start-reverse" }, s("path", { class: "t-head", d: "M0 0.5 7 4 0 7.5z" }))),
  layout.ticks.map((tick) => s("g", { class: "t-tick" },
    s("line", { x1: tick.x, x2: tick.x, y1: 20, y2: layout.height - 6 }),
    s("text", { x: tick.x, y: 14, "text-anchor": "middle" }, tick.text))),
  layout.phases.map((phase) => drawPhase(phase, layout)),
  layout.lanes.map((lane) => drawLane(lane, layout, hatch, open)),
  layout.arrows.map((arrow) => drawArrow(arrow, head)));
}

// Drawn for the room that there is, again when that changes. `open(step)` shows a step.
export function timeline(flow, steps, events, moves, open) {
  const box = h("div", { class: "timeline-box" });
  let width = 0;
  new ResizeObserver(() => {
    const room = Math.floor(box.clientWidth);
    if (room === width || room < 100) return;
    width = room;
    const focused = box.contains(document.activeElement)
      ? document.activeElement.dataset.keep : null;
    replace(box, draw(layOut({ flow, steps, events, moves, width, spanText }), flow, open));
    if (focused) box.querySelector(`[data-keep="${focused}"]`)?.focus();
  }).observe(box);
  return box;
}

// What the shapes mean.
export function legend() {
  const hatch = newId("hatch");
  const sample = (text, ...shapes) => h("li", {},
    s("svg", { class: "timeline", width: 26, height: 18, viewBox: "0 0 26 18",
      "aria-hidden": "true" }, shapes), text);
  const bar = (kind, fill) => s("rect", { class: fill ? "" : `t-bar t-${kind}`, x: 2, y: 3,
    width: 22, height: 12, rx: 4, fill });
  const mark = (kind) => s("g", { class: `t-mark t-mark-${kind}`, transform: "translate(13 9)" },
    s("circle", { r: 8 }), s("path", { d: SHAPES[kind] }));
  return h("ul", { class: "legend", "aria-label": "Legend" },
    sample("attempt", bar("attempt")),
    sample("outcome unknown", s("defs", {}, s("pattern", { id: hatch, width: 6, height: 6,
      patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("line", { class: "t-hatch", x1: 0, y1: 0, x2: 0, y2: 6 }))), bar("unknown"),
    bar("unknown", `url(#${hatch})`)),
    sample("undo", bar("undo")),
    sample("effect stands", s("line", { class: "t-effect", x1: 2, x2: 24, y1: 9, y2: 9 })),
    sample("success", mark("success")),
    sample("failed", mark("failed")),
    sample("compensated", mark("compensated")),
    sample("parked", mark("parked")),
    h("li", { class: "muted" }, "Long pauses are shortened."));
}
