// The pods that share a ledger, where it is shared: which there are, and the choice of one.

import { get } from "/ui/api.js";
import { add, h } from "/ui/dom.js";
import { counted, spanText } from "/ui/format.js";
import { foreign } from "/ui/text.js";

// A choice of one of them, or of any; hidden where there are none to tell apart.
export function podChoice(chosen, onchange) {
  const select = h("select", { "aria-label": "Pod", hidden: !chosen, onchange },
    h("option", { value: "" }, "Any pod"),
    chosen && h("option", { value: chosen, selected: true }, chosen));
  get("/status").then(({ streams }) => {
    const pods = new Set((streams ?? []).map((one) => one.pod));
    pods.delete(chosen);
    add(select, [...pods].sort().map((pod) => h("option", { value: pod }, pod)));
    if (streams) select.hidden = false;
  }).catch(() => {});
  return select;
}

// Where a row is from, in a list of several pods or ledgers.
export function originOf(row) {
  return [row.ledger, row.pod].filter(Boolean).join(" · ");
}

// For the head of a page whose address is `#/NAME?pod=POD`.
export function podFilter(name, chosen) {
  const select = podChoice(chosen, () => {
    location.hash = `#/${name}${select.value ? `?pod=${encodeURIComponent(select.value)}` : ""}`;
  });
  return h("div", { class: "filter" }, select);
}

// What each start of each of them is at.
export function podsCard(streams) {
  if (!streams) return null;
  const heads = ["Stream", "Pod", "State", "Mode", "Policy", "Rows", "Open", "Silent for"];
  return h("section", { class: "card" },
    h("h2", {}, counted(new Set(streams.map((one) => one.pod)).size, "pod")),
    h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Pods" },
      h("table", {},
        h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
        h("tbody", {}, streams.map((one) => h("tr", {},
          h("td", { class: "number" }, one.stream),
          h("td", {}, foreign(originOf(one))),
          h("td", {}, one.state),
          h("td", {}, one.mode ?? ""),
          h("td", { class: "mono" }, one.policy ?? ""),
          h("td", { class: "number" }, one.rows),
          h("td", { class: "number" }, one.running),
          h("td", { class: "number" }, spanText(one.silent_s * 1000))))))));
}
