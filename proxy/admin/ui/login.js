// Logging in: the token goes to the server once, and the page keeps nothing of it.

import { logIn } from "/ui/api.js";
import { h } from "/ui/dom.js";

export function loginPage() {
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const input = h("input", { id: "token", type: "password", autocomplete: "current-password",
    spellcheck: "false", required: true, "aria-describedby": "token-hint" });
  const button = h("button", { type: "submit", class: "main" }, "Log in");
  const form = h("form", { class: "stack", novalidate: true },
    h("div", { class: "field" },
      h("label", { for: "token" }, "Operator token"),
      input,
      h("p", { id: "token-hint", class: "muted small" },
        "Yours, as whoever runs Recourse gave it to you. It is not kept in this page.")),
    error, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    const token = input.value.trim();
    if (token === "") {
      error.textContent = "Enter your token.";
      error.hidden = false;
      input.focus();
      return;
    }
    button.disabled = true;
    error.hidden = true;
    try {
      await logIn(token);
      input.value = "";
    } catch (problem) {
      error.textContent = problem.status === 401
        ? "This token is not known here. Check that you copied all of it."
        : problem.message;
      error.hidden = false;
      input.select();
    } finally {
      button.disabled = false;
    }
  });
  return h("main", { class: "alone" },
    h("div", { class: "login" },
      h("h1", { class: "brand" },
        h("img", { src: "/ui/icon.svg", alt: "", width: "34", height: "34" }), "Recourse"),
      h("p", { class: "muted" }, "What your agents did, what waits for you, and how to undo it."),
      form));
}
