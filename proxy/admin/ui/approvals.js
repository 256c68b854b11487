// Calls that wait for a human: the inbox, and one of them with the whole request.

import { can, get, post, query } from "/ui/api.js";
import { ask } from "/ui/dialog.js";
import { diffBox } from "/ui/diff.js";
import { h, icon, toast } from "/ui/dom.js";
import { badge, countdownText, counted, date, facts } from "/ui/format.js";
import { compareIds, idFrom } from "/ui/ids.js";
import { shortcut } from "/ui/keys.js";
import { emptyBox, loadedPage, pageHead, pasteBox, requestBox } from "/ui/parts.js";
import { originOf, podFilter } from "/ui/pods.js";
import { listen, streamState } from "/ui/stream.js";
import { bytesOf, compact, foreign, fromEdit, marksIn, sizeText, spaced,
  toEdit } from "/ui/text.js";

const SHOWN_MOST = 200;

// Every element that says when it ends, once a second.
function tick(root) {
  for (const element of root.querySelectorAll("[data-expires]")) {
    const left = Number(element.dataset.expires) - Date.now();
    element.textContent = countdownText(left);
    element.classList.toggle("urgent", left < 60_000);
  }
}

function countdown(approval) {
  if (approval.sealed) return null;  // nobody knows
  const at = Date.parse(approval.expires);
  return h("span", { class: "countdown", "data-expires": at, title: `Until ${approval.expires}; ` +
    "then the answer is no" }, countdownText(at - Date.now()));
}

// Asked for anew when something happens, or every few seconds for who may not watch the ledger.
function watch(page, isOurs) {
  const end = listen((told) => {
    if (told.kind === "gap" || (told.kind === "event" && isOurs(told.event))) page.reloadSoon();
  });
  let seconds = 0;
  const timer = setInterval(() => {
    tick(page.element);
    seconds += 1;
    if (seconds % 5 === 0 && streamState() !== "live") page.reload();
  }, 1000);
  return () => {
    end();
    clearInterval(timer);
    page.close();
  };
}

export function approvalsPage({ values }) {
  const page = loadedPage({
    head: pageHead("Approvals", h("p", { class: "muted" },
      "Calls that wait for a human. What nobody decides in time is not sent."),
    podFilter("approvals", values.pod)),
    load: () => get(`/approvals${query({ limit: SHOWN_MOST, pod: values.pod })}`),
    draw: ({ approvals, next }) => {
      if (approvals.length === 0) {
        return [emptyBox("approvals", "Nothing waits for you",
          "Calls of tools whose policy asks for an approval appear here at once."),
        pasteBox("Into a tool of the policy, to have a human asked first",
          "approval: { by: [ team-support ], expires: 15m, summary: \"mail to {body#/to}\" }")];
      }
      return [
        h("ul", { class: "inbox" }, approvals.map(inboxRow)),
        next !== null && h("p", { class: "muted" }, "There are more; decide some of these first."),
      ];
    },
  });
  const move = (by) => {
    const rows = [...page.element.querySelectorAll(".inbox-row")];
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
  };
  const ends = [
    shortcut("j", "Next row", () => move(1)),
    shortcut("k", "Row before", () => move(-1)),
  ];
  const endWatch = watch(page, (event) =>
    /^(CLAIMED|APPROVED|DENIED|EXPIRED|DISPATCHING)$/.test(event.phase));
  return { title: "Approvals", element: page.element,
    close: () => { endWatch(); for (const end of ends) end(); } };
}

function inboxRow(approval) {
  return h("li", {},
    h("a", { class: "inbox-row", href: `#/approval/${approval.operation}`,
      "data-keep": `approval-${approval.operation}` },
    h("div", { class: "title-line" },
      h("b", {}, foreign(approval.tool)),
      approval.needs > 1 && h("span", { class: "muted small" },
        `${approval.approvals} of ${approval.needs} approved`),
      countdown(approval)),
    approval.sealed && h("p", { class: "reason" }, "It is not shown or decided here: ",
      foreign(approval.detail)),
    approval.summary && h("p", { class: "summary" }, foreign(approval.summary)),
    h("p", { class: "mono small" }, foreign(`${approval.method} ${approval.path}`)),
    h("p", { class: "muted small" }, "asked by ", foreign(approval.caller), " at ",
      date(approval.asked), approval.body_bytes !== undefined
        ? ` · body ${sizeText(approval.body_bytes)}` : "",
      originOf(approval) && [" · pod ", foreign(originOf(approval))],
      approval.why ? [" · ", foreign(approval.why)] : "")));
}

export function approvalPage({ id }) {
  const number = idFrom(id) ?? 0;
  const page = loadedPage({
    head: pageHead(`Approval ${number}`),
    load: () => get(`/approvals/${number}`),
    draw: (approval) => drawApproval(approval, page.reload),
  });
  const press = (name) => page.element.querySelector(`[data-keep="${name}"]`)?.click();
  const ends = [
    shortcut("a", "Approve…", () => press("approve")),
    shortcut("x", "Reject…", () => press("reject")),
    shortcut("e", "Edit…", () => press("edit")),
    shortcut("j", "Next call that waits", () => moveFrom(number, 1)),
    shortcut("k", "Call before it", () => moveFrom(number, -1)),
    shortcut("u", "Back to the list", () => { location.hash = "#/approvals"; }),
  ];
  const endWatch = watch(page, (event) => event.operation === number);
  return { title: `Approval ${number}`, element: page.element,
    close: () => { endWatch(); for (const end of ends) end(); } };
}

// To the one that waits behind or before this one; past the last it is the list.
async function moveFrom(number, by) {
  const { approvals } = await get(`/approvals${query({ limit: SHOWN_MOST })}`)
    .catch(() => ({ approvals: [] }));
  const waiting = approvals.map((one) => one.operation).sort(compareIds);
  const next = by > 0 ? waiting.find((one) => compareIds(one, number) > 0)
    : waiting.findLast((one) => compareIds(one, number) < 0);
  location.hash = next === undefined ? "#/approvals" : `#/approval/${next}`;
}

const STATUS = {
  waiting: ["pending", "Waits"],
  approved: ["success", "Approved"],
  running: ["pending", "Approved, being sent"],
  unknown: ["unknown", "Sent, outcome unknown"],
  finished: ["success", "Approved and done"],
  not_executed: ["failed", "Not sent"],
  rejected: ["failed", "Rejected"],
  expired: ["failed", "Expired"],
  compensated: ["compensated", "Compensated"],
};

function drawApproval(approval, reload) {
  const [state, word] = STATUS[approval.status] ?? ["pending", approval.status];
  const isPending = approval.phase === "CLAIMED";
  return [
    // First for the keyboard; it stands at the foot, where the thumb is.
    isPending && decideBar(approval, reload),
    h("section", { class: "card" },
      h("div", { class: "title-line" },
        h("h2", {}, foreign(approval.tool)), badge(state, word, approval.phase),
        isPending && countdown(approval)),
      approval.summary && h("p", { class: "summary" }, foreign(approval.summary)),
      approval.why && h("p", { class: "reason" }, "It asks because ", foreign(approval.why)),
      approval.detail && !isPending && h("p", { class: "reason" }, foreign(approval.detail)),
      facts([
        ["Asked by", foreign(approval.caller)],
        ["Pod", approval.pod && foreign(approval.pod)],
        ["Asked at", date(approval.asked)],
        isPending && ["Decide until", date(approval.expires)],
        ["Approved", `${approval.approvals} of ${approval.needs}`],
        ["May decide", approval.by.length ? foreign(approval.by.join(", "))
          : "anybody with the role"],
        ["Backend", foreign(approval.backend)],
        ["Flow", approval.flow && h("a", { href: `#/flow/${encodeURIComponent(approval.flow)}` },
          foreign(approval.flow))],
      ].filter(Boolean))),
    requestCard(approval),
    decisionsCard(approval),
    earlierCard(approval),
  ];
}

function requestCard(approval) {
  const { request } = approval;
  if (!request) {
    return h("section", { class: "card" }, h("h2", {}, "Request"),
      h("p", { class: "muted" }, "The request is no longer kept."));
  }
  return h("section", { class: "card" },
    h("h2", {}, "Exactly this is sent"),
    requestBox(request, "Request"),
    approval.credentials.length > 0 && h("p", { class: "reason" },
      `Sent with the policy's own ${approval.credentials.join(", ")} in place of the agent's.`),
    facts([
      ["Body", sizeText(request.body_bytes)],
      ["SHA-256 of the body", h("span", { class: "mono cut", title: request.body_sha256 },
        request.body_sha256)],
      ["Digest that is approved", h("span", { class: "mono cut", title: approval.digest },
        approval.digest)],
    ]),
    approval.original && [
      h("h3", {}, `Edited; the agent had asked for ${sizeText(approval.original.body_bytes)}`),
      diffBox(readable(approval.original.body ?? approval.original.body_base64),
        readable(request.body ?? request.body_base64)),
    ]);
}

function decisionsCard(approval) {
  if (approval.decisions.length === 0) return null;
  return h("section", { class: "card" }, h("h2", {}, "Decisions"),
    h("ul", { class: "moves" }, approval.decisions.map((one) => h("li", {},
      date(one.time), h("b", {}, foreign(one.who)), one.decision,
      one.reason && foreign(one.reason),
      !one.counts && h("span", { class: "muted" },
        one.late ? "(too late)" : "(counts no more)")))));
}

function earlierCard(approval) {
  if (approval.earlier.length === 0) return null;
  return h("section", { class: "card" },
    h("h2", {}, "Earlier calls of ", foreign(approval.caller)),
    h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Earlier calls" },
      h("table", {}, h("tbody", {}, approval.earlier.map((one) => h("tr", {},
        h("td", {}, date(one.time)),
        h("td", {}, h("a", { href: `#/operation/${one.operation}` }, foreign(one.tool))),
        h("td", { class: "mono" }, foreign(`${one.method} ${one.path}`)),
        h("td", {}, one.phase)))))));
}

const readable = (body) => spaced(body) ?? body;

function decideBar(approval, reload) {
  if (!can("approve", approval.operation)) {
    return h("p", { class: "muted" }, "Deciding takes the role approve, which you do not have.");
  }
  const decide = async (verb, body, done) => {
    await post(`/approvals/${approval.operation}/${verb}`, body);
    toast(done);
    await reload();
  };
  const isText = approval.request?.body !== undefined;
  return h("div", { class: "decide", role: "group", "aria-label": "Decide" },
    h("button", { type: "button", class: "danger", "data-keep": "reject",
      onclick: () => reject(approval, decide) }, icon("cross"), "Reject"),
    isText && h("button", { type: "button", "data-keep": "edit",
      onclick: () => edit(approval, decide) }, "Edit…"),
    approval.request && h("button", { type: "button", class: "main", "data-keep": "approve",
      onclick: () => approve(approval, decide) }, icon("check"), "Approve"));
}

const OPTIONAL = { name: "reason", label: "Reason", required: false,
  hint: "Kept in the log with your name." };

function approve(approval, decide) {
  return ask({
    title: "Approve this call",
    body: [h("p", { class: "request-line" }, h("b", {}, foreign(approval.request.method)), " ",
      foreign(approval.request.target)),
    h("p", {}, `${sizeText(approval.request.body_bytes)} of body to `, foreign(approval.backend),
      ", as you saw it. It is sent once."),
    h("p", { class: "muted small mono cut", title: approval.digest }, approval.digest)],
    fields: [OPTIONAL],
    confirm: "Approve",
    submit: ({ reason }) => decide("approve", { digest: approval.digest,
      ...(reason ? { reason } : {}) }, "Approved"),
  });
}

function reject(approval, decide) {
  return ask({
    title: "Reject this call",
    body: h("p", {}, "It is not sent. The agent is told your reason."),
    fields: [{ name: "reason", label: "Reason", hint: "The agent and the log get it." }],
    confirm: "Reject",
    tone: "danger",
    submit: ({ reason }) => decide("reject", { reason }, "Rejected"),
  });
}

// First the text, then what it changes; only then is it sent.
async function edit(approval, decide) {
  const before = readable(approval.request.body);
  const isJson = spaced(approval.request.body) !== null;
  const hidden = marksIn(before);
  let text = before;
  const isEdited = await ask({
    title: "Edit the body",
    wide: true,
    body: [h("p", { class: "muted" }, isJson ? "JSON, spaced out for reading. It is sent without " +
      "the added spaces." : "It is sent as it stands here."),
    hidden > 0 && h("p", { class: "reason warned" }, `${counted(hidden, "hidden character")} ` +
      "marked like ⟦RLO⟧; a mark that you leave is sent as that character.")],
    fields: [{ name: "body", label: "Body", value: toEdit(before), lines: 14, most: null,
      mono: true, marks: true }],
    confirm: "Show what changes",
    submit: ({ body }) => {
      // A form gives line breaks as CR LF.
      text = fromEdit(body.replace(/\r\n/g, "\n"));
      if (text === null) {
        throw new Error("A mark such as ⟦RLO⟧ was broken. Take out all of it, or put it back.");
      }
      if (isJson && compact(text) === null) {
        throw new Error("This is not JSON any more. Look for a missing quote, comma or brace.");
      }
      if (text === before) throw new Error("Nothing was changed. Approve the call as it is.");
    },
  });
  if (!isEdited) return;
  const body = isJson ? compact(text) : text;
  await ask({
    title: "Approve it with these changes",
    wide: true,
    body: [diffBox(before, readable(body)),
      h("p", { class: "muted small" },
        `${sizeText(approval.request.body_bytes)} become ${sizeText(bytesOf(body))}; ` +
        `${counted(approval.needs, "approval")} of this text ` +
        `${approval.needs === 1 ? "is" : "are"} needed.`)],
    fields: [OPTIONAL],
    confirm: "Approve with edits",
    submit: ({ reason }) => decide("approve", { digest: approval.digest, body,
      ...(reason ? { reason } : {}) }, "Approved with edits"),
  });
}
