// Operations of which nobody knows whether they took effect: first those that no probe settles.

import { get, query } from "/ui/api.js";
import { h } from "/ui/dom.js";
import { counted, date, spanText } from "/ui/format.js";
import { emptyBox, loadedPage, pageHead } from "/ui/parts.js";
import { originOf, podFilter } from "/ui/pods.js";
import { settleActions } from "/ui/repair.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";

const SHOWN_MOST = 200;

// The newest of them; a rare one may take several looks, each of which costs a bounded part.
async function load(pod) {
  const [{ tools }, { ledger, streams }] =
    await Promise.all([get("/policy/tools"), get("/status")]);
  const probed = tools.filter((tool) => tool.rules.some(([name]) => name === "settle"))
    .map((tool) => `${tool.ledger ?? ""} ${tool.name}`);
  const found = [];
  let before = null;
  const most = streams ? SHOWN_MOST : Math.min(SHOWN_MOST, ledger.uncertain);
  while (found.length < most) {
    const page = await get(`/operations${query({ phase: "UNCERTAIN", observed: false, before, pod,
      limit: SHOWN_MOST })}`);
    found.push(...page.operations);
    before = page.older;
    if (before === null) break;
  }
  return { found, probed, isMore: before !== null && (streams || found.length < ledger.uncertain) };
}

export function unknownPage({ values }) {
  const page = loadedPage({
    head: pageHead("Unknown", h("p", { class: "muted" },
      "Calls that were sent, and nobody knows whether they took effect."),
    podFilter("unknown", values.pod)),
    load: () => load(values.pod),
    draw: ({ found, probed, isMore }) => {
      if (found.length === 0) {
        return emptyBox("check", "Every outcome is known", "A call whose answer was lost is here " +
          "until a probe, its backend or you say what became of it.");
      }
      const reload = () => page.reload();
      const isProbed = (one) => probed.includes(`${one.ledger ?? ""} ${one.tool}`);
      return [
        group("Nothing but you will settle these", "Their tools have no `settle`: look in the " +
          "backend, then say what you found.", found.filter((one) => !isProbed(one)),
        reload),
        group("A probe asks about these", "It goes on by itself; you may know sooner.",
          found.filter(isProbed), reload),
        isMore && h("p", { class: "muted" }, "There are more; settle some of these first."),
      ];
    },
  });
  const end = listen((told) => {
    if (told.kind === "event" || told.kind === "gap") page.reloadSoon();
  });
  return { title: "Unknown", element: page.element, close: () => { end(); page.close(); } };
}

function group(title, says, operations, reload) {
  if (operations.length === 0) return null;
  return h("section", { class: "card" },
    h("h2", {}, `${title}: ${counted(operations.length, "call")}`),
    h("p", { class: "muted" }, says),
    h("ul", { class: "left-steps" }, operations.map((one) => h("li", {},
      h("div", {},
        h("p", {}, h("b", {}, h("a", { href: `#/operation/${one.operation}` }, foreign(one.tool))),
          one.undoes ? h("span", { class: "muted" }, ` undo of ${one.undoes}`) : "",
          " ", h("span", { class: "mono muted" }, foreign(`${one.method} ${one.path}`))),
        h("p", { class: "muted small" }, date(one.time), " · ",
          spanText(Date.now() - Date.parse(one.time)), " ago · ", one.cause.replaceAll("_", " "),
          one.detail ? [" · ", foreign(one.detail)] : "",
          originOf(one) && [" · pod ", foreign(originOf(one))])),
      settleActions(one.operation, reload)))));
}
