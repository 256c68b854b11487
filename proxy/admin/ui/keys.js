// Keyboard shortcuts, the dialog that lists them, and whether somebody is there.

import { h } from "/ui/dom.js";
import { openDialog, isDialogOpen } from "/ui/dialog.js";

const shortcuts = new Map();
let waitsForSecond = null;
let timer = 0;

// `keys`: "j", "?" or "g a". A shortcut of the same keys takes the place of the one before.
export function shortcut(keys, text, action) {
  shortcuts.set(keys, { text, action });
  return () => shortcuts.delete(keys);
}

const PRESENT = 60000;
let lastUsed = Date.now();
for (const kind of ["keydown", "pointermove", "pointerdown"]) {
  document.addEventListener(kind, () => { lastUsed = Date.now(); }, { passive: true });
}
// Within the last minute. What asks by itself asks then alone: a session that nobody uses ends.
export function isPresent(now = Date.now()) {
  return !document.hidden && now - lastUsed < PRESENT;
}

function isTyping(target) {
  return target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) || isDialogOpen()) return;
  const keys = waitsForSecond ? `${waitsForSecond} ${event.key}` : event.key;
  clearTimeout(timer);
  waitsForSecond = null;
  const found = shortcuts.get(keys);
  if (found) {
    event.preventDefault();
    found.action();
  } else if ([...shortcuts.keys()].some((name) => name.startsWith(`${event.key} `))) {
    waitsForSecond = event.key;
    timer = setTimeout(() => { waitsForSecond = null; }, 1500);
  }
});

export function showShortcuts() {
  openDialog({
    title: "Keyboard shortcuts",
    body: h("dl", { class: "shortcuts" }, [...shortcuts].map(([keys, { text }]) => h("div", {},
      h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, text))),
    h("div", {}, h("dt", {}, h("kbd", {}, "Esc")), h("dd", {}, "Close a dialog"))),
  });
}
