// Ids of rows, and so of events, operations and flows: a number, or, in a ledger of many streams, a
// text of stream and number, "42.17", at a console with its ledger before it, "eu:42.17". One is
// never computed with; ids of two streams have no order of their own, so their times go first.

// From an address or a field; null: it is none.
export function idFrom(text) {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  return /^([a-z][a-z0-9-]*:)?[1-9]\d*(\.[1-9]\d*)?$/.test(text) ? text : null;
}

// "": the page is of one ledger.
export function ledgerOf(id) {
  return /^([a-z][a-z0-9-]*):/.exec(id)?.[1] ?? "";
}

// [stream, number, ledger]
function partsOf(id) {
  const ledger = ledgerOf(id);
  const [first, second] = String(id).slice(ledger && ledger.length + 1).split(".");
  return second === undefined ? [0, Number(first), ledger]
    : [Number(first), Number(second), ledger];
}

export function compareIds(a, b) {
  const [streamA, numberA, ledgerA] = partsOf(a);
  const [streamB, numberB, ledgerB] = partsOf(b);
  return ledgerA.localeCompare(ledgerB) || streamA - streamB || numberA - numberB;
}

// Of rows that have an `event_id` and a `time`.
export function compareRows(a, b) {
  const [streamA, , ledgerA] = partsOf(a.event_id);
  const [streamB, , ledgerB] = partsOf(b.event_id);
  const isSame = streamA === streamB && ledgerA === ledgerB;
  const apart = isSame ? 0 : Date.parse(a.time) - Date.parse(b.time);
  return apart || compareIds(a.event_id, b.event_id);
}

// The place `by` rows away in the same stream, not before its beginning.
export function placeFrom(id, by) {
  const [stream, number, ledger] = partsOf(id);
  const moved = Math.max(0, number + by);
  const place = stream === 0 ? moved : `${stream}.${moved}`;
  return ledger ? `${ledger}:${place}` : place;
}
