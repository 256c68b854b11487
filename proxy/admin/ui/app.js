// The shell: who is logged in, which page is shown, the navigation around it.

import { ApiError, can, chooseLedger, chosenLedger, currentSession, get, ledgers, logOut,
  onSession, resume } from "/ui/api.js";
import { h, icon, replace, tell } from "/ui/dom.js";
import { dateText, short } from "/ui/format.js";
import { pieces } from "/ui/text.js";
import { isPresent, showShortcuts, shortcut } from "/ui/keys.js";
import { awayBox, ledgerChoice, refusalBox } from "/ui/ledgers.js";
import { loginPage } from "/ui/login.js";
import { problemBox } from "/ui/parts.js";
import { listen, start, stop, streamState } from "/ui/stream.js";
import { toggleTheme, useTheme } from "/ui/theme.js";
import { activityPage } from "/ui/activity.js";
import { approvalPage, approvalsPage } from "/ui/approvals.js";
import { duplicatesPage } from "/ui/duplicates.js";
import { flowPage } from "/ui/flow.js";
import { operationPage } from "/ui/operation.js";
import { parkedPage } from "/ui/parked.js";
import { policyPage } from "/ui/policy.js";
import { stoppedPage } from "/ui/stopped.js";
import { unknownPage } from "/ui/unknown.js";

// A page is a function of its place and gives {element, title, close}. `close` ends what it began.
const PAGES = {
  activity: activityPage,
  flow: flowPage,
  operation: operationPage,
  approvals: approvalsPage,
  approval: approvalPage,
  parked: parkedPage,
  stopped: stoppedPage,
  unknown: unknownPage,
  duplicates: duplicatesPage,
  policy: policyPage,
};
const NAVIGATION = [
  ["activity", "Activity", "a"],
  ["approvals", "Approvals", "p"],
  ["parked", "Parked", "r"],
  ["stopped", "Stopped", "s"],
  ["unknown", "Unknown", "u"],
  ["duplicates", "Duplicates", "d"],
  ["policy", "Policy", "y"],
];
const BELONGS_TO = { flow: "activity", operation: "activity", approval: "approvals" };

const app = document.getElementById("app");
let page = null;
let shell = null;

// "#/flow/7?x=1": {name: "flow", id: "7", values: {x: "1"}}
function place() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return {
    name: name in PAGES ? name : can("read") ? "activity" : "approvals",
    id: decodeURIComponent(rest.join("/")),
    values: Object.fromEntries(new URLSearchParams(search)),
  };
}

function navigation() {
  return h("nav", { "aria-label": "Pages" }, NAVIGATION.map(([name, text]) =>
    h("a", { href: `#/${name}`, "data-page": name }, icon(name), h("span", {}, text),
      h("span", { class: "count", "data-count": name, hidden: true }))));
}

// What is drawn and a function that ends it.
function liveMark() {
  const words = {
    live: ["Live", "News arrive as they happen"],
    connecting: ["Connecting", "Asking for news"],
    waiting: ["No connection", "It is tried again in some seconds"],
    paused: ["Paused", "Goes on when you come back to this tab"],
    off: ["Off", ""],
  };
  const element = h("span", { class: "live", role: "status" });
  const draw = () => {
    const [word, title] = words[streamState()];
    element.dataset.state = streamState();
    element.title = title;
    replace(element, h("i", { "aria-hidden": "true" }), word);
  };
  draw();
  return [element, listen((news) => news.kind === "state" && draw())];
}

// What is looked at: a page of another process, mode or policy looks the same.
const process = h("p", { class: "process small" });
function showProcess(status) {
  if (!status.policy) {
    replace(process, h("span", {}, `${location.host} · ${status.version}`));
    return;
  }
  const version = status.policy.version;
  replace(process,
    h("b", { class: `mode ${status.mode}`, title: status.mode === "observe"
      ? "Calls are relayed as they come; it is written down what enforce would have done" : "" },
    status.mode),
    h("span", { title: `Policy ${version} of ${status.policy.path}` },
      `policy ${short(version, 8)}`),
    h("span", { title: `Started ${dateText(status.started)}, ${status.state}` },
      `${location.host} · ${status.version}`));
}

function buildShell(session) {
  const main = h("main", { id: "main", tabindex: "-1" });
  const [live, close] = liveMark();
  const [away, endAway] = ledgers() ? awayBox() : [null, () => {}];
  const [refusal, showLedger] = ledgers() ? [null, () => {}] : refusalBox();
  const groups = session.groups?.length ? ` · ${session.groups.join(", ")}` : "";
  const element = h("div", { class: "shell" },
    h("a", { class: "skip", href: "#main",
      onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the page"),
    h("header", { class: "side" },
      h("a", { class: "brand", href: "#/activity" },
        h("img", { src: "/ui/icon.svg", alt: "", width: "26", height: "26" }), "Recourse"),
      navigation(),
      h("div", { class: "side-end" },
        ledgers() && ledgerChoice(chosenLedger(), (name) => {
          chooseLedger(name);
          stop();
          start();
          showPage();
        }),
        process,
        live,
        h("div", { class: "who" },
          h("b", {}, pieces(session.name)),
          h("span", { class: "muted small" }, pieces(session.roles.join(", ") + groups))),
        h("div", { class: "tools" },
          h("button", { type: "button", class: "plain", title: "Light or dark (t)",
            "aria-label": "Light or dark", onclick: toggleTheme }, icon("sun")),
          h("button", { type: "button", class: "plain", title: "Keyboard shortcuts (?)",
            "aria-label": "Keyboard shortcuts", onclick: showShortcuts }, icon("keys")),
          h("button", { type: "button", class: "plain", title: "Log out",
            "aria-label": "Log out", onclick: () => logOut().catch(() => {}) }, icon("leave"))))),
    main);
  const asking = setInterval(() => can("read") && isPresent() && countSoon(), COUNT_EVERY);
  return { element, main, notes: [away, refusal], showLedger,
    close: () => { clearInterval(asking); close(); endAway(); } };
}

function showPage() {
  if (!shell) return;
  const where = place();
  page?.close?.();
  const current = BELONGS_TO[where.name] ?? where.name;
  for (const link of shell.element.querySelectorAll("nav a")) {
    if (link.dataset.page === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    page = PAGES[where.name](where);
  } catch (problem) {
    page = { element: problemBox(problem), title: "Not shown" };
  }
  document.title = `${page.title} · Recourse`;
  replace(shell.main, shell.notes, page.element);
  shell.main.scrollTop = 0;
  // The next Tab leads into the page, not through the navigation again.
  shell.main.focus({ preventScroll: true });
  tell(page.title);
  countSoon();
}

// How much waits for a human, beside the pages' names.
const COUNTED = { parked: "A flow was parked", stopped: "A flow stopped unfinished",
  approvals: "A call waits for approval", unknown: "An outcome is unknown" };
const counts = {};
function setCount(name, number) {
  const mark = shell?.element.querySelector(`[data-count="${name}"]`);
  if (!mark) return;
  if (number > (counts[name] ?? 0) && counts[name] !== undefined) {
    tell(COUNTED[name]);
  }
  counts[name] = number;
  mark.hidden = number === 0;
  mark.textContent = number > 99 ? "99+" : String(number);
  mark.setAttribute("aria-label", `${number} waiting`);
}

const COUNT_PAUSE = 2000;
const COUNT_EVERY = 10000;  // also when nothing tells of news
const ASKING = new Set(["CLAIMED", "APPROVED", "DENIED", "EXPIRED", "DISPATCHING", "UNCERTAIN",
  "SUCCEEDED"]);
let countTimer = 0;
let countedAt = 0;
function countSoon() {
  countTimer ||= setTimeout(async () => {
    countTimer = 0;
    countedAt = Date.now();
    if (!currentSession()) return;
    try {
      const status = await get("/status");
      showProcess(status);
      shell?.showLedger(status.ledger);
      setCount("parked", status.flows.parked);
      setCount("stopped", status.flows.stopped);
      setCount("approvals", status.approvals_pending);
      setCount("unknown", status.ledger.uncertain);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
    }
  }, Math.max(300, countedAt + COUNT_PAUSE - Date.now()));
}

function showSession(session) {
  page?.close?.();
  page = null;
  shell?.close();
  if (!session) {
    shell = null;
    stop();
    document.title = "Log in · Recourse";
    replace(app, loginPage());
    app.querySelector("input")?.focus();
    return;
  }
  shell = buildShell(session);
  replace(app, shell.element);
  if (can("read")) start();
  showPage();
  countSoon();
}

useTheme();
for (const [name, text, key] of NAVIGATION) {
  shortcut(`g ${key}`, `Go to ${text}`, () => { location.hash = `#/${name}`; });
}
shortcut("t", "Light or dark", toggleTheme);
shortcut("?", "Show this list", showShortcuts);
window.addEventListener("hashchange", showPage);
onSession(showSession);
listen((news) => {
  const mayCount = news.kind === "flow" || news.kind === "gap" ||
    (news.kind === "event" && ASKING.has(news.event.phase));
  if (mayCount) countSoon();
});
try {
  if (!await resume()) showSession(null);
} catch (problem) {
  replace(app, h("main", { class: "alone" }, problemBox(problem, () => location.reload())));
}
