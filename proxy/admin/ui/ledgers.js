// What is wrong with a ledger, or with those of a console, of which one can be chosen.

import { ledgers } from "/ui/api.js";
import { h, icon, replace } from "/ui/dom.js";
import { dateText } from "/ui/format.js";
import { listen } from "/ui/stream.js";
import { foreign } from "/ui/text.js";

export function ledgerChoice(chosen, onchange) {
  const select = h("select", { "aria-label": "Ledger", onchange: () => onchange(select.value) },
    h("option", { value: "" }, "All ledgers"),
    ledgers().map(({ name }) => h("option", { value: name, selected: name === chosen }, name)));
  return select;
}

const REFUSING = {
  refused: "the ledger's database refuses to write",
  away: "the ledger's database does not answer",
  latched: "a commit to the ledger failed: it needs a restart",
  restored: "the ledger is a backup, and nobody has accepted what it lacks",
  full: "the ledger has no room",
};

// What is drawn, and a function that takes what the status says of the ledger.
export function refusalBox() {
  const element = h("div", { class: "away", role: "status" });
  let told = "";
  return [element, (ledger) => {
    const why = Object.keys(REFUSING).find((one) => ledger[one]);
    const counts = ledger.counted ? `as of ${dateText(ledger.counted)}` : "not known";
    const text = why ? `No write begins: ${REFUSING[why]}.` : "";
    const now = why === "away" ? `${text} Counts are ${counts}.` : text;
    if (now === told) return;  // it is read aloud once
    told = now;
    replace(element, now && h("p", { class: "reason warned" }, icon("hand"), now));
  }];
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
