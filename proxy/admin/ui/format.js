// How states, times and sizes are said: one place, so that they look the same everywhere.

import { h, icon } from "/ui/dom.js";

const STATES = {
  success: { word: "Success", icon: "check" },
  failed: { word: "Failed", icon: "cross" },
  pending: { word: "Pending", icon: "clock" },
  unknown: { word: "Unknown", icon: "unknown" },
  compensated: { word: "Compensated", icon: "undo" },
  human: { word: "Parked", icon: "hand" },
  open: { word: "Open", icon: "flow" },
};

export function stateOf(event) {
  if (event.phase === "UNCERTAIN") return "unknown";
  return { SUCCESS: "success", FAILED: "failed", COMPENSATED: "compensated" }[event.status] ??
    "pending";
}

const FLOW_STATES = {
  OPEN: ["open", "Open"],
  COMMITTED: ["success", "Committed"],
  BREAKING: ["pending", "Breaking"],
  UNDOING: ["pending", "Undoing"],
  UNDONE: ["compensated", "Undone"],
  NEEDS_HUMAN: ["human", "Parked"],
};

export function badge(state, word, title) {
  const known = STATES[state] ?? STATES.pending;
  return h("span", { class: `badge ${state}`, title }, icon(known.icon), word ?? known.word);
}

export function eventBadge(event) {
  const state = stateOf(event);
  return badge(state, STATES[state].word, event.phase);
}

export function flowBadge(phase) {
  const [state, word] = FLOW_STATES[phase] ?? ["pending", phase];
  return badge(state, word, phase);
}

const two = (number) => String(number).padStart(2, "0");
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

function clockText(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.getDate()} ${MONTHS[at.getMonth()]} ${time}`;
}

const zoneOf = (at) => new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at)
  .find((part) => part.type === "timeZoneName")?.value ?? "";

// What a list says once of all its times.
export const zoneText = () => `times in ${zoneOf(new Date())}`;

// With its date and its zone, wherever it is read.
export function dateText(iso, isExact = false) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  const part = isExact ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : "";
  return `${at.getDate()} ${MONTHS[at.getMonth()]} ${at.getFullYear()} ${two(at.getHours())}:` +
    `${two(at.getMinutes())}:${two(at.getSeconds())}${part} ${zoneOf(at)}`;
}

// For lists, where one time stands below the other and the list tells the zone; the title has the
// rest.
export function time(iso) {
  return h("time", { datetime: iso, title: dateText(iso, true) }, clockText(iso));
}

export function date(iso, isExact = false) {
  return h("time", { datetime: iso, title: iso }, dateText(iso, isExact));
}

// From its first event to its last; nothing where there is one alone.
export function lastedText(began, changed) {
  const ms = Date.parse(changed) - Date.parse(began);
  return ms > 0 ? spanText(ms) : "";
}

// "340 ms", "2.1 s", "3 min", "2 h", "5 d"
export function spanText(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 2 * 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 2 * 86_400_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}

// "4:09" until then, for what is about to end.
export function countdownText(ms) {
  if (ms <= 0) return "expired";
  const seconds = Math.ceil(ms / 1000);
  if (seconds >= 3600) return spanText(ms);
  return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
}

export function short(text, most = 12) {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// Facts as a list of names and values; what is empty is left out.
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs
    .filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
