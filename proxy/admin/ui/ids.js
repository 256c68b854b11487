// Ids of rows, and so of events, operations and flows: a number, or, in a ledger of many streams, a
// text of stream and number, "42.17". One is never computed with; ids of two streams have no order
// of their own, so their times go first.

// From an address or a field; null: it is none.
export function idFrom(text) {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  return /^[1-9]\d*\.[1-9]\d*$/.test(text) ? text : null;
}

// [stream, number]
function partsOf(id) {
  const [first, second] = String(id).split(".");
  return second === undefined ? [0, Number(first)] : [Number(first), Number(second)];
}

export function compareIds(a, b) {
  const [streamA, numberA] = partsOf(a);
  const [streamB, numberB] = partsOf(b);
  return streamA - streamB || numberA - numberB;
}

// Of rows that have an `event_id` and a `time`.
export function compareRows(a, b) {
  const [streamA] = partsOf(a.event_id);
  const [streamB] = partsOf(b.event_id);
  const apart = streamA === streamB ? 0 : Date.parse(a.time) - Date.parse(b.time);
  return apart || compareIds(a.event_id, b.event_id);
}

// The place `by` rows away in the same stream, not before its beginning.
export function placeFrom(id, by) {
  const [stream, number] = partsOf(id);
  const moved = Math.max(0, number + by);
  return stream === 0 ? moved : `${stream}.${moved}`;
}
