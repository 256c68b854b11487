// Where everything of a flow's picture stands. Pure: the same events give the same picture.

import { compareRows } from "/ui/ids.js";

const OPEN_PHASES = new Set(["DISPATCHING", "UNCERTAIN"]);
const WAITING = new Set(["CLAIMED", "APPROVED"]);

const ms = (event) => event.at;
const APART = 0.2;  // ms, of rows that were written in the same one

// The rows with the time at which they are drawn: one after the other, as they were written.
function placed(rows) {
  let last = -Infinity;
  return [...rows].sort(compareRows).map((row) => {
    last = Math.max(Date.parse(row.time), last + APART);
    return { ...row, at: last };
  });
}

// An undo that was not sent, as somebody has changed what it would put back: no backend spoke.
const isHeld = (event) => event?.phase === "REJECTED" && !event.http_status;

// What one operation did: spans from one event to the next, and how it ended.
function spansOf(events, isUndo, end) {
  const spans = [];
  let outcome = null;
  events.forEach((event, at) => {
    const next = events[at + 1];
    const until = next ? ms(next) : end;
    const kind = event.phase === "UNCERTAIN" ? "unknown"
      : event.phase === "DISPATCHING" ? (isUndo ? (isHeld(next) ? "held" : "undo") : "attempt")
        : WAITING.has(event.phase) ? "waiting" : null;
    if (kind) {
      spans.push({ kind, from: ms(event), to: until, attempt: event.attempt, event,
        isRunning: !next });
    } else {
      outcome = event;
    }
  });
  return { spans, outcome };
}

const MARKS = { SUCCESS: "success", FAILED: "failed", COMPENSATED: "compensated" };

function laneOf(step, at, events, end) {
  const own = events.filter((event) => event.operation === step.step);
  const undo = step.undo_operation
    ? events.filter((event) => event.operation === step.undo_operation) : [];
  const compensated = own.find((event) => event.phase === "COMPENSATED");
  const forward = spansOf(own.filter((event) => event !== compensated), false, end);
  const back = spansOf(undo, true, end);
  const lane = { step: step.step, tool: step.tool, number: at + 1, at, spans: [], marks: [] };
  lane.spans.push(...forward.spans, ...back.spans);
  const effect = own.find((event) => event.status === "SUCCESS");
  if (effect) {
    lane.spans.unshift({ kind: "effect", from: ms(effect),
      to: compensated ? ms(compensated) : end, event: effect, isRunning: !compensated });
    lane.marks.push({ kind: "success", at: ms(effect), event: effect });
  } else if (forward.outcome) {
    lane.marks.push({ kind: MARKS[forward.outcome.status] ?? "pending",
      at: ms(forward.outcome), event: forward.outcome });
  }
  for (const event of undo) {
    if (event.status !== "FAILED") continue;
    lane.marks.push({ kind: isHeld(event) ? "held" : "failed", at: ms(event), event });
  }
  if (compensated) {
    lane.marks.push({ kind: "compensated", at: ms(compensated), event: compensated });
  }
  if (step.not_needed) lane.marks.push({ kind: "kept", at: end, event: null });
  const first = undo[0];
  lane.undo = first && { from: ms(first), to: compensated ? ms(compensated) : ms(undo.at(-1)) };
  lane.isStuck = step.undo === "stop" || step.undo === "settle" ||
    (back.outcome?.status === "FAILED" && !compensated);
  return lane;
}

// Long pauses are shortened, so that a step of milliseconds can be seen beside one of minutes:
// each gap is as wide as the logarithm of its length.
function scale(times, left, right) {
  const sorted = [...new Set(times)].sort((a, b) => a - b);
  const weights = sorted.slice(1).map((time, at) => 1 + Math.log10(1 + (time - sorted[at])));
  const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  const places = new Map();
  let x = left;
  sorted.forEach((time, at) => {
    if (at > 0) x += ((right - left) * weights[at - 1]) / total;
    places.set(time, x);
  });
  return { of: (time) => places.get(time) ?? left, sorted };
}

function ticksOf({ of, sorted }, began, spanText) {
  const ticks = [];
  let free = -Infinity;
  for (const time of sorted) {
    const x = of(time);
    const text = time === began ? "start" : `+${spanText(time - began)}`;
    if (text === ticks.at(-1)?.text) continue;
    const room = text.length * 6.2 + 14;
    if (x - room / 2 < free) continue;
    ticks.push({ x, text });
    free = x + room / 2;
  }
  return ticks;
}

// The phases that the flow went through, one after the other.
function phasesOf(flow, moves, began, changed, end, place) {
  const known = [{ phase: "OPEN", time: began, reason: "" }];
  for (const move of moves) {
    if (move.phase === known.at(-1).phase) continue;
    known.push({ phase: move.phase, time: ms(move), reason: move.reason });
  }
  // A flow that was idle for long ends without a row.
  if (known.at(-1).phase !== flow.phase) {
    known.push({ phase: flow.phase, time: changed, reason: flow.reason });
  }
  return known.map((one, at) => {
    const x = place.of(one.time);
    const until = known[at + 1] ? place.of(known[at + 1].time) : place.of(end) + 8;
    return { ...one, x, width: Math.max(3, until - x) };
  });
}

// {width, height, lanes, phases, ticks, arrows}; places in pixels. What runs is drawn to the end.
export function layOut({ flow, steps, events: told, moves: toldMoves, width, spanText }) {
  const rows = placed([...told, ...toldMoves]);
  const events = rows.filter((row) => row.kind !== "flow");
  const moves = rows.filter((row) => row.kind === "flow");
  const isNarrow = width < 620;
  const label = isNarrow ? 0 : Math.min(210, width * 0.27);
  const laneHeight = isNarrow ? 56 : 44;
  const top = 52;
  const known = rows.map(ms);
  const isOver = ["COMMITTED", "UNDONE", "NEEDS_HUMAN"].includes(flow.phase);
  const isRunning = events.length > 0 && steps.some((step) => OPEN_PHASES.has(step.phase));
  const began = known.length > 0 ? known[0] : Date.parse(flow.began);
  const changed = moves.at(-1)?.at ?? Date.parse(flow.changed);
  const latest = Math.max(began, ...known, isOver ? changed : began);
  // Beyond the last event there is room for what still goes on.
  const end = latest + (isRunning || !isOver ? 1 : 0.5);
  const lanes = steps.map((step, at) => laneOf(step, at, events, end));
  const times = [began, end, ...known, ...(isOver ? [changed] : [])];
  const left = label + 16;
  const right = width - 22;
  const place = scale(times, left, right);
  for (const lane of lanes) {
    lane.top = top + lane.at * laneHeight;
    lane.y = lane.top + (isNarrow ? 38 : laneHeight / 2);
    lane.label = { x: isNarrow ? 6 : 10, y: isNarrow ? lane.top + 18 : lane.y + 4,
      room: isNarrow ? width - 12 : label - 4 };
    for (const span of lane.spans) {
      span.x = place.of(span.from);
      span.width = Math.max(span.kind === "effect" ? 0 : 5, place.of(span.to) - span.x);
    }
    for (const mark of lane.marks) mark.x = place.of(mark.at);
  }
  const undone = lanes.filter((lane) => lane.undo).sort((a, b) => a.undo.from - b.undo.from);
  const arrows = undone.slice(1).map((lane, at) => ({
    from: { x: place.of(undone[at].undo.to), y: undone[at].y },
    to: { x: place.of(lane.undo.from), y: lane.y },
  })).filter((arrow) => arrow.from.y !== arrow.to.y);
  return {
    width, height: top + lanes.length * laneHeight + 8, laneHeight, lanes, arrows,
    ticks: ticksOf({ of: place.of, sorted: place.sorted.filter((t) => t !== end) },
      began, spanText),
    phases: phasesOf(flow, moves, began, changed, end, place),
    parkedAt: flow.phase === "NEEDS_HUMAN" ? place.of(changed) : null,
  };
}
