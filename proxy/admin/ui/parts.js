// Pieces that several pages are made of.

import { getLines, query } from "/ui/api.js";
import { h, icon, replace, toast } from "/ui/dom.js";
import { date, eventBadge, facts } from "/ui/format.js";
import { placeFrom } from "/ui/ids.js";
import { block, foreign } from "/ui/text.js";

export function problemBox(problem, again) {
  const title = problem.status === 403 ? "You may not see this" : problem.title ?? "Not shown";
  return h("div", { class: "state bad", role: "alert" },
    icon("cross"), h("h2", {}, title), h("p", {}, problem.message),
    again && h("button", { type: "button", onclick: again }, "Try again"));
}

export function emptyBox(iconName, title, ...text) {
  return h("div", { class: "state" }, icon(iconName), h("h2", {}, title), h("p", {}, text));
}

// A line to take along, with a button for it.
export function pasteBox(says, text) {
  return h("div", { class: "paste" },
    h("p", { class: "muted small" }, says),
    h("div", { class: "paste-line" },
      h("pre", { class: "mono", tabindex: "0", "aria-label": says }, text),
      h("button", { type: "button", onclick: async () => {
        await navigator.clipboard.writeText(text);
        toast("Copied");
      } }, "Copy")));
}

export function pageHead(title, ...rest) {
  return h("header", { class: "page-head" }, h("h1", {}, title), rest);
}

// A page whose content is asked for anew when `reload` is called. What is there stays until the
// answer has come, so nothing jumps. `draw(content)` gives elements.
export function loadedPage({ title, load, draw, head }) {
  const body = h("div", { class: "page-body" }, h("p", { class: "waiting" }, "Loading…"));
  const element = h("div", { class: "page" }, head ?? pageHead(title), body);
  let number = 0;
  let timer = 0;
  let shown = "";
  async function reload() {
    clearTimeout(timer);
    timer = 0;
    number += 1;
    const mine = number;
    try {
      const content = await load();
      if (mine !== number) return;
      const text = JSON.stringify(content);
      if (text === shown) return;
      shown = text;
      const kept = keptPlaces(body);
      replace(body, draw(content));
      restorePlaces(body, kept);
    } catch (problem) {
      if (mine !== number) return;
      shown = "";
      replace(body, problemBox(problem, reload));
    }
    body.dataset.loaded = "true";
  }
  reload();
  return {
    element,
    body,
    reload,
    reloadSoon: () => { timer ||= setTimeout(reload, 300); },
    close: () => { number += 1; clearTimeout(timer); },
  };
}

// Which details are open and where the focus is survives a redrawing.
function keptPlaces(body) {
  return {
    open: [...body.querySelectorAll("details[open][data-keep]")].map((one) => one.dataset.keep),
    focus: body.contains(document.activeElement) ? document.activeElement.dataset.keep : null,
  };
}

function restorePlaces(body, { open, focus }) {
  for (const one of body.querySelectorAll("details[data-keep]")) {
    if (open.includes(one.dataset.keep)) one.open = true;
  }
  if (!focus) return;
  [...body.querySelectorAll("[data-keep]")].find((one) => one.dataset.keep === focus)?.focus();
}

// A request as it goes out: its line, its fields and its body.
export function requestBox(request, label = "Request") {
  const body = request.body ?? request.body_base64 ?? "";
  return h("div", { class: "request" },
    h("p", { class: "request-line" }, h("b", {}, foreign(request.method)), " ",
      foreign(request.url ?? request.target)),
    request.headers?.length > 0 && h("ul", { class: "fields" }, request.headers.map(
      ([name, value]) => h("li", {}, h("b", {}, foreign(name)), ": ", foreign(value)))),
    body !== "" ? block(body, { label: request.body === undefined ? `${label} body (base64)`
      : `${label} body` })
      : h("p", { class: "muted small" }, "No body"));
}

// What a backend said, cut by the server.
export function saidBox(label, said) {
  if (!said) return null;
  const body = said.body ?? said.body_base64 ?? "";
  return h("div", { class: "request" },
    h("p", { class: "request-line" }, `${label}: `, h("b", {}, said.status)),
    body !== "" ? block(body, { label: "What it said" }) : h("p", { class: "muted small" },
      "No body"));
}

export function eventTable(events) {
  const hasPods = events[0]?.pod !== undefined;
  return h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Events" },
    h("table", {},
      h("thead", {}, h("tr", {}, ["Event", "Time", "State", "Phase", "Try", "Cause", "HTTP",
        ...(hasPods ? ["Pod"] : []), "Detail"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, events.map((event) => h("tr", {},
        h("td", { class: "number" }, event.event_id),
        h("td", { class: "number" }, date(event.time, true)),
        h("td", {}, eventBadge(event)),
        h("td", {}, event.undoes ? `${event.phase} (undo of ${event.undoes})` : event.phase),
        h("td", { class: "number" }, event.attempt),
        h("td", {}, event.cause.replaceAll("_", " ")),
        h("td", { class: "number" }, event.http_status || ""),
        hasPods && h("td", {}, foreign(event.pod)),
        h("td", { class: "detail" }, foreign(event.detail)))))));
}

export function callFacts(event) {
  const link = (href, text) => h("a", { href }, text);
  return facts([
    ["Call", h("span", { class: "mono" }, foreign(`${event.method} ${event.path}`))],
    ["Backend", foreign(event.backend)],
    ["Class", event.class && foreign(event.class)],
    ["Caller", foreign(event.caller)],
    ["Pod", event.pod && foreign(event.pod)],
    ["External ref", event.external_ref && h("span", { class: "mono" },
      foreign(event.external_ref))],
    ["Flow", event.flow && link(`#/flow/${encodeURIComponent(event.flow)}`,
      foreign(event.flow_name || event.flow))],
    ["Trace", event.trace_id && link(`#/activity?trace=${encodeURIComponent(event.trace_id)}`,
      h("span", { class: "mono" }, foreign(event.trace_id)))],
    ["Key", h("span", { class: "mono cut", title: event.idempotency_key },
      event.idempotency_key)],
    ["Fingerprint", h("span", { class: "mono cut", title: event.args_hash }, event.args_hash)],
    ["Policy", h("span", { class: "mono" }, foreign(event.policy_version))],
  ]);
}

// Of an operation's events the one with its own answer: that it was undone is told by another.
export function answeredOf(events) {
  return events.findLast((event) => event.http_status > 0 && event.phase !== "COMPENSATED") ??
    events.at(-1);
}

// What the ledger kept beside an event: its answer and requests. Asked for when it is opened.
export function keptBox(eventId) {
  const inside = h("div", { class: "stack" });
  const element = h("details", { class: "more", "data-keep": `kept-${eventId}` },
    h("summary", {}, "Stored answer and requests"), inside);
  element.addEventListener("toggle", async () => {
    if (!element.open || inside.childElementCount > 0) return;
    replace(inside, h("p", { class: "waiting" }, "Loading…"));
    try {
      const events = await getLines(`/events${query({ after: placeFrom(eventId, -1),
        up_to: eventId, answers: true, lines: true })}`);
      // Other streams may have rows between.
      replace(inside, keptParts(events.find((one) => one.event_id === eventId)));
    } catch (problem) {
      replace(inside, problemBox(problem));
    }
  });
  return element;
}

function keptParts(event) {
  const parts = [];
  if (event.answer) {
    parts.push(h("h3", {}, `Answer: ${event.answer.status}`));
    parts.push(requestBox({ method: String(event.answer.status), url: "", ...event.answer },
      "Answer"));
  }
  if (event.settle_request) {
    parts.push(h("h3", {}, "Asks whether it took effect"));
    parts.push(requestBox(event.settle_request));
  }
  if (event.task_request) {
    parts.push(h("h3", {}, "Asks how its task stands"));
    parts.push(requestBox(event.task_request));
  }
  if (event.undo_request) {
    parts.push(h("h3", {}, "Undo request"));
    parts.push(requestBox(event.undo_request));
  }
  return parts.length ? parts : h("p", { class: "muted" }, "Nothing was kept.");
}
