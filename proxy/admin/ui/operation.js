// One operation: its call, its events, what was kept of it.

import { eventsFrom } from "/ui/api.js";
import { h, icon } from "/ui/dom.js";
import { eventBadge } from "/ui/format.js";
import { idFrom } from "/ui/ids.js";
import { answeredOf, callFacts, emptyBox, eventTable, keptBox, loadedPage,
  pageHead } from "/ui/parts.js";
import { settleActions, waits } from "/ui/repair.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";

const FINAL = new Set(["SUCCEEDED", "REJECTED", "ANSWER_LOST", "COMPENSATED", "DENIED", "EXPIRED",
  "NOT_SENT", "PROVEN_ABSENT", "TOMBSTONE"]);

export function operationPage({ id }) {
  const number = idFrom(id) ?? 0;
  const page = loadedPage({
    head: pageHead(`Operation ${number}`,
      h("a", { class: "button", href: "#/activity" }, icon("back"), "Activity")),
    load: () => eventsFrom(number, { operation: number },
      (events) => events.length > 0 && FINAL.has(events.at(-1).phase)),
    draw: (events) => (events.length === 0
      ? emptyBox("activity", "Not kept", `No event of operation ${number} is kept any more.`)
      : drawOperation(events, () => page.reload())),
  });
  const end = listen((told) => {
    if (told.kind === "event" && told.event.operation === number) page.reloadSoon();
  });
  return {
    title: `Operation ${number}`,
    element: page.element,
    close: () => { end(); page.close(); },
  };
}

function drawOperation(events, reload) {
  const latest = events.at(-1);
  const answered = answeredOf(events);
  return [
    h("section", { class: "card" },
      h("h2", {}, eventBadge(latest), " ", foreign(latest.tool)),
      latest.undoes ? h("p", {}, "It undoes ",
        h("a", { href: `#/operation/${latest.undoes}` }, `operation ${latest.undoes}`), ".") : "",
      callFacts(latest),
      latest.phase === "UNCERTAIN" && waits(latest) && settleActions(latest.operation, reload),
      keptBox(answered.event_id)),
    h("section", { class: "card" }, h("h2", {}, "Events"), eventTable(events)),
  ];
}
