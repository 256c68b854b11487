// The ledgers of a console: the choice of one, and which cannot be seen now.

import { ledgers } from "/ui/api.js";
import { h, icon, replace } from "/ui/dom.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";

export function ledgerChoice(chosen, onchange) {
  const select = h("select", { "aria-label": "Ledger", onchange: () => onchange(select.value) },
    h("option", { value: "" }, "All ledgers"),
    ledgers().map(({ name }) => h("option", { value: name, selected: name === chosen }, name)));
  return select;
}

// What is drawn and a function that ends it.
export function awayBox() {
  const element = h("div", { class: "away", role: "status" });
  const draw = (all) => replace(element, all.filter((one) => one.state !== "up").map((one) =>
    h("p", { class: "reason warned" }, icon("hand"), `Ledger ${one.name} is ${one.state}`,
      one.why ? [": ", foreign(one.why)] : "", ". What it has is not shown.")));
  draw(ledgers());
  return [element, listen((told) => told.kind === "ledgers" && told.ledgers &&
    draw(told.ledgers))];
}
