// What changes from one text to another, line by line.

import { h } from "/ui/dom.js";
import { pieces } from "/ui/text.js";

const LINES_MOST = 1500;  // of what differs, on either side; above it all of it counts as changed

// [{ kind: "same" | "out" | "in", text }]
export function lineChanges(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (text) => ({ kind: "same", text });
  return [
    ...a.slice(0, start).map(same),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...a.slice(a.length - end).map(same),
  ];
}

function middle(a, b) {
  const out = (text) => ({ kind: "out", text });
  const come = (text) => ({ kind: "in", text });
  if (a.length > LINES_MOST || b.length > LINES_MOST) return [...a.map(out), ...b.map(come)];
  // longest[i][j]: of the lines from a[i] and b[j] on, how many are common at most.
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1
        : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const changes = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      changes.push({ kind: "same", text: a[i] });
      i += 1;
      j += 1;
    } else if (longest[i + 1][j] >= longest[i][j + 1]) {
      changes.push(out(a[i]));
      i += 1;
    } else {
      changes.push(come(b[j]));
      j += 1;
    }
  }
  return [...changes, ...a.slice(i).map(out), ...b.slice(j).map(come)];
}

const SIGNS = { same: " ", out: "−", in: "+" };
const SAID = { out: "removed: ", in: "added: " };

export function diffBox(before, after) {
  return h("div", { class: "diff", tabindex: "0", role: "region", "aria-label": "Changes" },
    lineChanges(before, after).map(({ kind, text }) => h("div", { class: `diff-${kind}` },
      h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[kind]),
      kind !== "same" && h("span", { class: "unseen" }, SAID[kind]),
      h("span", {}, pieces(text)))));
}
