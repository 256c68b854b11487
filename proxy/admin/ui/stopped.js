// Flows that their deadline stopped unfinished: nothing of them broke, and somebody has to say that
// they are over.

import { can, get, post, query } from "/ui/api.js";
import { ask } from "/ui/dialog.js";
import { h, toast } from "/ui/dom.js";
import { counted, date, spanText } from "/ui/format.js";
import { emptyBox, loadedPage, pageHead } from "/ui/parts.js";
import { podChoice } from "/ui/pods.js";
import { REASON } from "/ui/repair.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";

const SHOWN_MOST = 200;

export function stoppedPage({ values }) {
  const which = { name: values.name ?? "", reason: values.reason ?? "", pod: values.pod ?? "" };
  const field = (name, label) => h("input", { type: "search", name, value: which[name],
    "aria-label": label, placeholder: label });
  const pod = podChoice(which.pod);
  const filter = h("form", { class: "filter", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/stopped${query({ ...Object.fromEntries(new FormData(filter)),
      pod: pod.value })}`;
  } }, field("name", "Flow of the policy"), field("reason", "Text of the reason"), pod,
  h("button", { type: "submit" }, "Filter"));
  const page = loadedPage({
    head: pageHead("Stopped", h("p", { class: "muted" },
      "Flows that their deadline stopped unfinished, the oldest first. Nothing broke: what was " +
      "done stands until you close, retry or undo them."), filter),
    load: () => get(`/flows${query({ stopped: "true", limit: SHOWN_MOST, ...which })}`),
    draw: ({ flows, next }) => drawList(flows, next !== null, which, () => page.reload()),
  });
  const end = listen((told) => {
    if (told.kind === "flow" || told.kind === "gap") page.reloadSoon();
  });
  return { title: "Stopped", element: page.element, close: () => { end(); page.close(); } };
}

function drawList(flows, isMore, which, reload) {
  if (flows.length === 0) {
    return emptyBox("check", "Nothing has stopped", "No flow waits for a word after its deadline.");
  }
  const hasPods = flows[0].pod !== undefined;
  const heads = ["Flow", "Name", "Stopped", "Steps", "Caller", ...(hasPods ? ["Pod"] : []),
    "Reason"];
  return h("section", { class: "card" },
    h("h2", {}, `${counted(flows.length, "flow")}${isMore ? " and further ones" : ""}`),
    can("repair") && h("div", { class: "actions" }, closeAll(flows.length, isMore, which, reload)),
    h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Stopped flows" },
      h("table", {},
        h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
        h("tbody", {}, flows.map((flow) => h("tr", {},
          h("td", { class: "number" }, h("a", { href: `#/flow/${flow.number}` },
            String(flow.number))),
          h("td", {}, foreign(flow.name)),
          h("td", {}, date(flow.changed), " · ",
            spanText(Date.now() - Date.parse(flow.changed)), " ago"),
          h("td", { class: "number" }, flow.step_count),
          h("td", {}, foreign(flow.caller)),
          hasPods && h("td", {}, foreign(flow.pod)),
          h("td", { class: "detail" }, foreign(flow.reason))))))));
}

function closeAll(count, isMore, which, reload) {
  const all = isMore ? "all of them" : counted(count, "flow");
  return h("button", { type: "button", class: "main", "data-keep": "button-close-all",
    onclick: () => ask({
      title: `Close ${all}`,
      body: h("p", {}, "They end here. What was done stays, and nothing is undone."),
      fields: [REASON],
      confirm: `Close ${all}`,
      submit: async ({ reason }) => {
        let closed = 0;
        for (let left = 1; left > 0;) {
          const told = await post(`/flows/close${query(which)}`, { reason });
          closed += told.flows.length;
          left = told.flows.length > 0 ? told.left : 0;
        }
        toast(`${counted(closed, "flow")} closed.`);
        await reload();
      },
    }) }, `Close ${all}…`);
}
