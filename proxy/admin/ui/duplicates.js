// What would have been done twice, or was: the report over the ledger.

import { get, query } from "/ui/api.js";
import { h } from "/ui/dom.js";
import { counted, date, spanText } from "/ui/format.js";
import { emptyBox, loadedPage, pageHead } from "/ui/parts.js";
import { foreign } from "/ui/text.js";

const PERIODS = [["1h", "Last hour"], ["24h", "Last day"], ["168h", "Last 7 days"],
  ["", "All that is kept"]];

export function duplicatesPage({ values }) {
  const since = values.since ?? "24h";
  const period = h("select", { "aria-label": "Period",
    onchange: () => { location.hash = `#/duplicates?since=${period.value}`; } },
  PERIODS.map(([value, text]) => h("option", { value, selected: value === since }, text)));
  const page = loadedPage({
    head: pageHead("Duplicates", h("div", { class: "filter" }, period,
      h("button", { type: "button", onclick: () => page.reload() }, "Refresh"))),
    load: () => get(`/report${query({ since })}`),
    draw: drawReport,
  });
  return { title: "Duplicates", element: page.element, close: page.close };
}

function number(value, text, tone = "") {
  return h("div", { class: `figure ${tone}` }, h("b", {}, value.toLocaleString("en")),
    h("span", {}, text));
}

function table(caption, heads, rows) {
  if (rows.length === 0) return null;
  return h("section", { class: "card" }, h("h2", {}, caption),
    h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption },
      h("table", {},
        h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
        h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td",
          { class: typeof cell === "number" ? "number" : "" },
          typeof cell === "number" ? cell.toLocaleString("en") : cell))))))));
}

const operation = (id) => h("a", { href: `#/operation/${id}` }, String(id));
const words = (counts) => Object.entries(counts).map(([name, count]) =>
  `${name.replaceAll("_", " ")} ${count}`).join(", ");

function drawReport(report) {
  const head = h("p", { class: "muted" }, h("b", {}, report.mode === "observe"
    ? "Observe mode: nothing was held back. " : "Enforce mode. "),
  `${counted(report.calls, "write")} sent, `, date(report.since), " to ", date(report.until),
  report.cut ? ". There is more than one report holds; narrow the period." : "");
  const figures = h("div", { class: "figures" },
    number(report.repeats, "repeats reached a backend"),
    number(report.double_effects, "took effect twice", report.double_effects ? "bad" : ""),
    number(report.possible_double_effects, "perhaps", report.possible_double_effects ? "warn" : ""),
    number(report.unknown.reduce((sum, line) => sum + line.open, 0), "outcomes unknown"));
  const { writes, without_trace: alone } = report.flow_counts;
  const lone = alone > 0 && h("p", { class: "reason bad" },
    `${alone.toLocaleString("en")} of ${counted(writes, "write")} since the start came without a `,
    "trace: they are flows of one step, and nothing undoes them with others.");
  const tables = [
    table("The same call again", ["Tool", "Repeats", "Twice", "Perhaps",
      "Between (min / median / max)", "Enforce would have", "Example"],
    report.duplicates.map((line) => [foreign(line.tool), line.repeats, line.double_effects,
      line.possible_double_effects,
      [line.seconds.min, line.seconds.median, line.seconds.max].map((one) =>
        spanText(one * 1000)).join(" / "), words(line.verdicts),
      line.examples.slice(0, 1).map((one) => [operation(one.repeat), " after ",
        operation(one.first)])])),
    table("Sent, and nobody knows whether it acted", ["Tool", "Cause", "Calls", "Open", "Example"],
      report.unknown.map((line) => [foreign(line.tool), line.cause.replaceAll("_", " "), line.calls,
        line.open, operation(line.example)])),
    table("Would have waited for a human", ["Tool", "Calls", "Enforce would have", "Example"],
      report.held.map((line) => [foreign(line.tool), line.calls, line.verdict.replaceAll("_", " "),
        operation(line.example)])),
    table("Writes without undo", ["Tool", "Calls", "Why"], report.without_undo.map((line) =>
      [foreign(line.tool), line.calls, foreign(line.why)])),
    table("Calls that no tool matches", ["Backend", "Effect", "Method", "Path", "Calls"],
      report.unlisted.map((line) => [foreign(line.backend), line.effect, foreign(line.method),
        h("span", { class: "mono" }, foreign(line.path)), line.calls])),
    table("Would have been refused", ["Backend", "Effect", "Method", "Path", "Calls", "Why"],
      report.refused.map((line) => [foreign(line.backend), line.effect, foreign(line.method),
        h("span", { class: "mono" }, foreign(line.path)), line.calls, foreign(line.reason)])),
    table("Trouble with keys", ["Tool", "Trouble", "Calls", "Example", "Means"],
      report.keys.map((line) => [foreign(line.tool), line.trouble.replaceAll("-", " "), line.calls,
        operation(line.example), line.means])),
    table("Fields that differ between calls which count as one", ["Tool", "Field", "Calls"],
      report.differences.map((line) => [foreign(line.tool),
        h("span", { class: "mono" }, foreign(line.field)), line.calls])),
  ].filter(Boolean);
  return [head, lone, figures, tables.length > 0 ? tables
    : emptyBox("check", "Nothing to report", "No write was sent twice in this period.")];
}
