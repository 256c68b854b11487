// What happens now: operations and flows, newest first, as they change.

import { ApiError, get, query } from "/ui/api.js";
import { add, h, icon, newId, replace } from "/ui/dom.js";
import { counted, eventBadge, flowBadge, lastedText, short, time, zoneText } from "/ui/format.js";
import { compareRows, idFrom, placeFrom } from "/ui/ids.js";
import { shortcut } from "/ui/keys.js";
import { emptyBox, pageHead, pasteBox, problemBox } from "/ui/parts.js";
import { originOf, podChoice } from "/ui/pods.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";
import { VirtualList } from "/ui/virtual_list.js";

const KEPT_MOST = 10_000;  // rows that one tab remembers
const PAGE = 200;
const narrow = matchMedia("(max-width: 760px)");

const STATES = [
  ["", "Any state"],
  ["status=PENDING", "Pending"],
  ["phase=UNCERTAIN", "Unknown"],
  ["status=SUCCESS", "Success"],
  ["status=FAILED", "Failed"],
  ["status=COMPENSATED", "Compensated"],
];

// Of news nobody knows but the server which fields were kept.
function matches(event, filter) {
  return (!filter.value || event.external_ref === filter.value || event.isFound) &&
    (!filter.tool || event.tool === filter.tool) && (!filter.pod || event.pod === filter.pod) &&
    (!filter.trace || event.trace_id === filter.trace) &&
    (!filter.status || event.status === filter.status) &&
    (!filter.phase || event.phase === filter.phase);
}

// Operations by what they are now, newest first. `filter` is what the server was asked for too.
class Operations {
  constructor() {
    this.byNumber = new Map();
    this.older = null;
    this.isCut = false;
  }

  put(event, filter) {
    const known = this.byNumber.get(event.operation);
    if (known && compareRows(known, event) >= 0) return;
    this.byNumber.delete(event.operation);
    if (matches(event, filter)) this.byNumber.set(event.operation, event);
  }

  rows() {
    const rows = [...this.byNumber.values()].sort((a, b) => compareRows(b, a));
    if (rows.length > KEPT_MOST) {
      for (const row of rows.splice(KEPT_MOST)) this.byNumber.delete(row.operation);
      this.older = rows.at(-1).event_id;
      this.isCut = true;
    }
    return rows.map((event) => {
      event.id = event.operation;
      return event;
    });
  }
}

function operationCells(event) {
  const flow = event.flow
    ? h("a", { href: `#/flow/${encodeURIComponent(event.flow)}`, tabindex: "-1",
      title: `Flow ${event.flow}` }, icon("flow"), foreign(event.flow_name || short(event.flow, 8)))
    : "";
  return [
    h("span", { role: "gridcell", class: "c-time" }, time(event.time)),
    h("span", { role: "gridcell", class: "c-state" }, eventBadge(event)),
    h("span", { role: "gridcell", class: "c-tool" }, foreign(event.tool),
      event.undoes ? h("span", { class: "muted" }, ` undo of ${event.undoes}`) : ""),
    h("span", { role: "gridcell", class: "c-call mono" }, foreign(`${event.method} ${event.path}`)),
    h("span", { role: "gridcell", class: "c-ref mono" }, foreign(event.external_ref)),
    h("span", { role: "gridcell", class: "c-try" },
      event.attempt > 1 ? `try ${event.attempt}` : ""),
    h("span", { role: "gridcell", class: "c-flow" }, flow),
    podCell(event),
  ];
}

function podCell(row) {
  return originOf(row) === "" ? null : h("span", { role: "gridcell", class: "c-pod" },
    foreign(originOf(row)));
}

function flowCells(flow) {
  return [
    h("span", { role: "gridcell", class: "c-time" }, time(flow.changed)),
    h("span", { role: "gridcell", class: "c-state" }, flowBadge(flow.phase)),
    h("span", { role: "gridcell", class: "c-tool" }, foreign(flow.name || "undeclared")),
    h("span", { role: "gridcell", class: "c-call mono" }, foreign(flow.flow)),
    h("span", { role: "gridcell", class: "c-ref" }, counted(flow.step_count, "step")),
    h("span", { role: "gridcell", class: "c-try" },
      flow.undone_count ? `${flow.undone_count} undone` : ""),
    h("span", { role: "gridcell", class: "c-flow muted" }, lastedText(flow.began, flow.changed)),
    podCell(flow),
  ];
}

export function activityPage({ values }) {
  return values.show === "flows" ? flowsPage(values) : operationsPage(values);
}

function tabs(shown) {
  const tab = (name, href, text) => h("a", { href, class: "tab",
    "aria-current": shown === name && "true" }, text);
  return h("div", { class: "tabs", role: "group", "aria-label": "What is listed" },
    tab("operations", "#/activity", "Operations"),
    tab("flows", "#/activity?show=flows", "Flows"));
}

function operationsPage(values) {
  const filter = { tool: values.tool ?? "", trace: values.trace ?? "", value: values.value ?? "",
    status: values.status ?? "", phase: values.phase ?? "", pod: values.pod ?? "" };
  let operations = new Operations();
  let isLoading = false;
  let isClosed = false;
  let generation = 0;
  let frame = 0;
  const note = h("p", { class: "list-note muted small" });
  const news = h("button", { type: "button", class: "news", hidden: true,
    onclick: () => { list.element.scrollTop = 0; news.hidden = true; } },
  icon("up"), "Newer ones above");
  const empty = h("div", {}, emptyBox("activity", isFiltered(filter) ? "Nothing matches"
    : "Nothing happened yet", isFiltered(filter)
    ? "No operation has these values. Clear the filter to see all."
    : "As soon as an agent writes through Recourse, it is here. Reads leave no trace."));
  const list = new VirtualList({
    label: "Operations, newest first",
    height: () => (narrow.matches ? 64 : 40),
    render: operationCells,
    open: (event) => { location.hash = `#/operation/${event.operation}`; },
    onEnd: () => loadOlder(),
    empty,
  });
  list.empty.hidden = true;
  if (!isFiltered(filter)) sayFirstCall(empty);

  function show() {
    const before = list.rows.length;
    const wasTop = list.isAtTop();
    list.set(operations.rows());
    showPods(list);
    list.empty.hidden = list.rows.length > 0 || isLoading || operations.older !== null ||
      error.childElementCount > 0;
    const more = list.rows.length - before;
    if (!wasTop && more > 0 && before > 0 && !isLoading) news.hidden = false;
    if (list.isAtTop()) news.hidden = true;
    note.textContent = `${counted(list.rows.length, "operation")}${operations.isCut
      ? `; older ones are not held here. Filter to reach them` : operations.older !== null
        ? " so far; scroll for older ones" : ""}, ${zoneText()}`;
  }
  function showSoon() {
    frame ||= requestAnimationFrame(() => { frame = 0; if (!isClosed) show(); });
  }

  async function load(before) {
    isLoading = true;
    const mine = generation;
    try {
      // A rare match may take several looks, each of which costs a bounded part of the log.
      let page;
      do {
        page = await get(`/operations${query({ ...filter, before, limit: PAGE })}`);
        if (mine !== generation || isClosed) return;
        for (const event of page.operations) {
          operations.put({ ...event, isFound: true }, filter);
        }
        operations.older = before = page.older;
        note.textContent = before === null ? "" : `Looking further back, before event ${before}…`;
      } while (page.operations.length === 0 && before !== null);
      error.replaceChildren();
    } catch (problem) {
      if (mine !== generation) return;
      operations.older = null;
      replace(error, problemBox(problem, restart));
    }
    isLoading = false;
    show();
    list.element.dataset.loaded = "true";
  }
  function loadOlder() {
    if (isLoading || operations.older === null || operations.isCut) return;
    load(operations.older);
  }
  function restart() {
    generation += 1;
    operations = new Operations();
    load();
  }

  const error = h("div", {});
  const form = filterForm(filter);
  list.element.addEventListener("scroll", () => { if (list.isAtTop()) news.hidden = true; },
    { passive: true });
  const endNews = listen((told) => {
    if (told.kind === "gap") restart();
    if (told.kind !== "event") return;
    operations.put(told.event, filter);
    showSoon();
  });
  const ends = [
    shortcut("/", "Filter the list", () => form.querySelector("input").focus()),
    shortcut("j", "Next row", () => list.move(1)),
    shortcut("k", "Row before", () => list.move(-1)),
    shortcut("Enter", "Open the row", () => list.openSelected()),
  ];
  load();
  return {
    title: "Activity",
    element: h("div", { class: "page filling" },
      pageHead("Activity", tabs("operations"), form),
      h("div", {}, error, byNumber(filter.value)),
      h("div", { class: "list-frame" }, columnHeads(["Time", "State", "Tool", "Call",
        "External ref", "", "Flow", "Pod"]), list.frame, news), note),
    close: () => {
      isClosed = true;
      endNews();
      list.close();
      for (const end of ends) end();
    },
  };
}

// What is searched for may be the number of an event or an operation.
function byNumber(value) {
  const box = h("p", { class: "small" });
  const number = idFrom(value);
  if (number === null) return box;
  get(`/events${query({ after: placeFrom(number, -1), up_to: number })}`).then(({ events }) => {
    const event = events.find((one) => one.event_id === number);
    if (!event) return;
    const isFirst = event.operation === number;
    add(box, [isFirst ? "" : `Event ${number} is of `,
      h("a", { href: `#/operation/${event.operation}` }, `Operation ${event.operation}`), ": ",
      foreign(event.tool), " ", eventBadge(event)]);
  }).catch(() => {});
  return box;
}

// What to paste into a terminal so that something happens.
async function sayFirstCall(empty) {
  try {
    const [{ agents_port: port }, { tools, backends }] =
      await Promise.all([get("/status"), get("/policy/tools")]);
    const tool = tools.find((one) => one.effect === "write" && one.patterns.length > 0 &&
      one.mcp_names.length === 0);
    const backend = backends.find((one) => one.name === tool?.backend);
    if (!backend || !port) return;
    const method = tool.methods.find((one) => /^[A-Z]+$/.test(one)) ?? "POST";
    const path = tool.patterns[0].replace(/\{[^}]*\}|\*+/g, "1");
    const host = backend.hosts[0] ?? new URL(backend.url).host;
    add(empty, pasteBox("A first write, from where the agent runs: it reaches the backend",
      `curl -X ${method} 127.0.0.1:${port}${path} -H 'Host: ${host}' ` +
      "-H 'Content-Type: application/json' -d '{}'"));
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
  }
}

function columnHeads(names) {
  const classes = ["time", "state", "tool", "call", "ref", "try", "flow", "pod"];
  return h("div", { class: "row heads", "aria-hidden": "true" },
    names.map((name, at) => h("span", { class: `c-${classes[at]}` }, name)));
}

// Rows of a ledger of one process name none.
function showPods(list) {
  list.frame.parentElement?.classList.toggle("with-pods", list.rows.some((row) => originOf(row)));
}

const isFiltered = (filter) => Object.values(filter).some(Boolean);

function filterForm(filter) {
  const tools = newId("tools");
  const tool = h("input", { type: "search", "aria-label": "Tool", placeholder: "Tool",
    list: tools, value: filter.tool, spellcheck: "false" });
  const trace = h("input", { type: "search", "aria-label": "Trace", placeholder: "Trace",
    value: filter.trace, spellcheck: "false" });
  const value = h("input", { type: "search", "aria-label": "Reference, kept value or number",
    placeholder: "Reference or number", value: filter.value, spellcheck: "false" });
  const chosen = filter.phase ? `phase=${filter.phase}` : filter.status ? `status=${filter.status}`
    : "";
  const state = h("select", { "aria-label": "State" },
    STATES.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  const go = () => {
    const [name, wanted] = state.value.split("=");
    const next = `#/activity${query({ tool: tool.value.trim(), trace: trace.value.trim(),
      value: value.value.trim(), [name || "status"]: wanted, pod: pod.value })}`;
    if (next !== location.hash) location.hash = next;
  };
  const pod = podChoice(filter.pod);
  const list = h("datalist", { id: tools });
  get("/policy/tools").then((policy) => add(list, policy.tools.filter((one) =>
    one.effect === "write").map((one) => h("option", { value: one.name })))).catch(() => {});
  return h("form", { class: "filter", role: "search",
    onsubmit: (event) => { event.preventDefault(); go(); }, onchange: go },
  tool, value, state, trace, pod, list,
  isFiltered(filter) && h("a", { class: "button", href: "#/activity" }, "Clear"));
}

function flowsPage(values) {
  const isAll = values.all === "true";
  const pod = podChoice(values.pod ?? "", () => go());
  const error = h("div", {});
  const note = h("p", { class: "list-note muted small" });
  let isClosed = false;
  let timer = 0;
  const list = new VirtualList({
    label: "Flows, newest first",
    height: () => (narrow.matches ? 64 : 40),
    render: flowCells,
    open: (flow) => { location.hash = `#/flow/${flow.number}`; },
    empty: emptyBox("flow", isAll ? "No flows" : "No flow is open",
      "The writes of one trace are a flow. ",
      isAll ? "" : "Those that are over can be listed too."),
  });
  list.empty.hidden = true;
  async function load() {
    try {
      const page = await get(`/flows${query({ limit: 1000, all: isAll ? "true" : "",
        pod: values.pod })}`);
      if (isClosed) return;
      list.set(page.flows.map((flow) => ({ ...flow, id: flow.number })).reverse());
      showPods(list);
      list.empty.hidden = page.flows.length > 0;
      note.textContent =
        `${counted(page.flows.length, "flow")}${isAll ? "" : " not over"}, ${zoneText()}`;
      error.replaceChildren();
    } catch (problem) {
      replace(error, problemBox(problem, load));
      list.empty.hidden = true;
    }
    list.element.dataset.loaded = "true";
  }
  // All flows are read back from the whole log: not for every event.
  const endNews = listen((told) => {
    if (told.kind === "state" || isAll) return;
    const pause = told.kind === "flow" ? 300 : 2000;
    timer ||= setTimeout(() => { timer = 0; if (!isClosed) load(); }, pause);
  });
  const ends = [
    shortcut("j", "Next row", () => list.move(1)),
    shortcut("k", "Row before", () => list.move(-1)),
    shortcut("Enter", "Open the row", () => list.openSelected()),
  ];
  load();
  const over = h("input", { type: "checkbox", checked: isAll, onchange: () => go() });
  const all = h("label", { class: "check" }, over, "Also those that are over");
  function go() {
    location.hash = `#/activity${query({ show: "flows", all: over.checked ? "true" : "",
      pod: pod.value })}`;
  }
  return {
    title: "Flows",
    element: h("div", { class: "page filling" },
      pageHead("Activity", tabs("flows"), h("div", { class: "filter" }, pod, all)), error,
      h("div", { class: "list-frame" }, columnHeads(["Changed", "State", "Flow", "Flow id",
        "Steps", "", "Lasted", "Pod"]), list.frame), note),
    close: () => {
      isClosed = true;
      endNews();
      list.close();
      for (const end of ends) end();
    },
  };
}

