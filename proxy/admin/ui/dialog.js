// Dialogs: the browser's own modal ones, which keep the focus inside and give it back.

import { h, icon, newId } from "/ui/dom.js";
import { markWhileEditing } from "/ui/text.js";

export function isDialogOpen() {
  return document.querySelector("dialog[open]") !== null;
}

// `actions` stand at the end of it. Gives {close, element}. `onclose` is called once.
export function openDialog({ title, body, actions = [], wide = false, onclose }) {
  const id = newId("dialog");
  const element = h("dialog", { class: wide ? "wide" : "", "aria-labelledby": id },
    h("header", {},
      h("h2", { id }, title),
      h("button", { type: "button", class: "plain", "aria-label": "Close",
        onclick: () => element.close() }, icon("cross"))),
    h("div", { class: "dialog-body" }, body),
    actions.length > 0 && h("footer", {}, actions));
  element.addEventListener("close", () => {
    element.remove();
    onclose?.();
  });
  document.body.append(element);
  element.showModal();
  return { element, close: () => element.close() };
}

// A form in a dialog. `submit(values)` does the work; what it throws is shown and the dialog stays.
// Resolves with true once it is done, false when it was closed.
export function ask({ title, body, fields = [], confirm, tone = "main", wide = false, submit }) {
  return new Promise((resolve) => {
    const error = h("p", { class: "error", role: "alert", hidden: true });
    const form = h("form", { class: "stack", novalidate: true }, body, fields.map(field), error);
    const button = h("button", { type: "submit", class: tone }, confirm);
    const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    const id = newId("form");
    form.id = id;
    button.setAttribute("form", id);
    let isDone = false;
    const dialog = openDialog({ title, body: form, wide, actions: [cancel, button],
      onclose: () => resolve(isDone) });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (button.disabled) return;
      error.hidden = true;
      const missing = [...form.elements].find((one) => one.required && !one.value.trim());
      if (missing) {
        error.textContent = "Say why: it is kept in the log.";
        error.hidden = false;
        missing.focus();
        return;
      }
      button.disabled = true;
      button.setAttribute("aria-busy", "true");
      try {
        await submit(Object.fromEntries(new FormData(form)));
        isDone = true;
        dialog.close();
      } catch (problem) {
        error.textContent = `${problem.title ? `${problem.title}: ` : ""}${problem.message}`;
        error.hidden = false;
      } finally {
        button.disabled = false;
        button.removeAttribute("aria-busy");
      }
    });
    form.querySelector("textarea, input")?.focus();
  });
}

// `marks`: the text is in the form of toEdit().
function field({ name, label, required = true, hint, value = "", lines = 2, most = 400, mono,
  marks }) {
  const id = newId("field");
  const box = h("textarea", { id, name, required, rows: lines, value, maxlength: most, dir: "ltr",
    class: mono ? "mono" : "", spellcheck: mono ? "false" : "true" });
  if (marks) markWhileEditing(box);
  return h("div", { class: "field" },
    h("label", { for: id }, label, !required && h("span", { class: "muted" }, " (optional)")),
    box,
    hint && h("p", { class: "muted small" }, hint));
}
