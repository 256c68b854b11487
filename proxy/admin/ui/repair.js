// What a human may do with a flow. Every action asks for a reason, and says first what it sends.

import { can, get, post } from "/ui/api.js";
import { h, toast } from "/ui/dom.js";
import { ask, openDialog } from "/ui/dialog.js";
import { counted } from "/ui/format.js";
import { problemBox, requestBox } from "/ui/parts.js";
import { foreign } from "/ui/text.js";

export const REASON = { name: "reason", label: "Reason",
  hint: "Kept in the log with your name. Others will read it." };

function pathOf(flow, verb) {
  return `/flows/${flow.number}/${verb}`;
}

async function act(flow, verb, body, done, reload) {
  const after = await post(pathOf(flow, verb), body);
  toast(`${done}. The flow is ${after.phase.toLowerCase().replaceAll("_", " ")}.`);
  await reload();
}

function button(text, onclick, tone = "") {
  return h("button", { type: "button", class: tone, onclick,
    "data-keep": `button-${text}` }, text);
}

const ACTIONS = {
  OPEN: [close, cancel],
  COMMITTED: [undo],
  NEEDS_HUMAN: [retry, undo, close],
};

export function flowActions(flow, reload) {
  const actions = ACTIONS[flow.phase] ?? [];
  if (actions.length === 0) return null;
  if (!can("repair")) {
    return h("p", { class: "muted small" }, "Repairing a flow takes the role repair, which you " +
      "do not have.");
  }
  return h("div", { class: "actions" }, actions.map((make) => make(flow, reload)));
}

function close(flow, reload) {
  return button("Close…", () => ask({
    title: "Close this flow",
    body: h("p", {}, "It ends here. What was done stays, and nothing is undone."),
    fields: [REASON],
    confirm: "Close the flow",
    submit: ({ reason }) => act(flow, "close", { reason }, "Closed", reload),
  }));
}

function cancel(flow, reload) {
  return button("Cancel…", () => withPreview(flow, (plan) => ask({
    title: "Cancel this flow",
    wide: true,
    body: [h("p", {}, "It ends here, and what was done is undone, newest first."), plan.element],
    fields: [REASON],
    confirm: "Cancel and undo",
    tone: "danger",
    submit: ({ reason }) => act(flow, "cancel", { reason }, "Canceled", reload),
  })), "danger");
}

function retry(flow, reload) {
  return button("Retry…", () => withPreview(flow, (plan) => ask({
    title: "Try again",
    wide: true,
    body: [h("p", {}, "What was stuck is tried once more, also what only a human may repeat."),
      plan.element],
    fields: [{ ...REASON, required: false }],
    confirm: "Try again",
    submit: ({ reason }) => act(flow, "retry", reason ? { reason } : {}, "Tried again", reload),
  })), "main");
}

// The same for each of them, one after the other: what one of them refuses does not stop the rest.
export function bulkActions(flows, reload) {
  if (!can("repair")) return null;
  const each = (verb, title, says, tone, reasonField) => button(`${title} all ${flows.length}…`,
    () => ask({
      title: `${title} ${counted(flows.length, "flow")}`,
      body: h("p", {}, says),
      fields: [reasonField],
      confirm: `${title} all ${flows.length}`,
      tone,
      submit: async ({ reason }) => {
        const refused = [];
        for (const flow of flows) {
          await post(pathOf(flow, verb), reason ? { reason } : {})
            .catch((problem) => refused.push(`Flow ${flow.number}: ${problem.message}`));
        }
        await reload();
        if (refused.length > 0) {
          throw new Error(`${counted(flows.length - refused.length, "flow")} done. ` +
            refused.slice(0, 5).join(" "));
        }
        toast(`${counted(flows.length, "flow")} done.`);
      },
    }), tone);
  return h("div", { class: "actions", role: "group", "aria-label": "All of them" },
    each("retry", "Retry", "What was stuck in each is tried once more, also what only a human " +
      "may repeat.", "main", { ...REASON, required: false }),
    each("close", "Close", "They end here. What was done stays, and nothing more is undone.", "",
      REASON));
}

// Only a flow that is complete is undone by this; a parked one goes on with retry.
function undo(flow, reload) {
  if (flow.phase === "NEEDS_HUMAN") {
    return button("Show what is left to undo", () => withPreview(flow, (plan) => openDialog({
      title: "What is left to undo", wide: true, body: plan.element })));
  }
  return button("Undo…", () => withPreview(flow, (plan) => {
    if (plan.refused) {
      openDialog({ title: "It cannot be undone", wide: true, body: plan.element });
      return;
    }
    ask({
      title: "Undo this flow",
      wide: true,
      body: plan.element,
      fields: [REASON],
      confirm: plan.sends ? `Send ${counted(plan.sends, "undo request")}` : "Undo",
      tone: "danger",
      submit: ({ reason }) => act(flow, "undo", { reason }, "The undo began", reload),
    });
  }), "danger");
}

async function withPreview(flow, then) {
  try {
    then(drawPlan(await get(pathOf(flow, "preview"))));
  } catch (problem) {
    openDialog({ title: "No preview", body: problemBox(problem) });
  }
}

const WORDS = {
  settle: "is settled first",
  send: "is undone with",
  skip: "needs no undo",
  stop: "cannot be undone: a human has to see to it",
  too_old: "is too old to be undone",
};

function drawPlan(preview) {
  const sends = preview.plan.filter((step) => step.undo === "send" && step.reached).length;
  const items = preview.plan.map((step) => h("li", { class: step.reached ? "" : "unreached" },
    h("p", {}, h("b", {}, foreign(step.tool || `step ${step.step}`)), " ",
      WORDS[step.undo] ?? step.undo, step.why ? [": ", foreign(step.why)] : "",
      !step.reached && ". It is not reached: what stands before it stops the undo."),
    step.undo_request && requestBox(step.undo_request, "Undo request")));
  return {
    sends,
    refused: preview.refused,
    element: h("div", { class: "plan stack" },
      preview.refused && h("p", { class: "error" }, foreign(preview.refused)),
      items.length === 0 ? h("p", {}, "There is nothing to undo.")
        : h("p", { class: "muted" }, `In this order; ${counted(sends, "request")} will be sent. ` +
          "Credentials are added when they are sent and are not shown."),
      h("ol", {}, items)),
  };
}

const REF = { name: "external_ref", label: "External ref", required: false, lines: 1, mono: true,
  hint: "What the backend calls it. Its undo request may need it." };

// For what observe mode saw nothing waits, so nobody has to say what became of it.
export const waits = (event) => event.verdict === undefined;

// Of an operation of unknown outcome, whatever its flow is at: a human says what became of it.
export function settleActions(operation, reload) {
  if (!can("repair")) return null;
  const settle = (text, as, says, fields) => button(text, () => ask({
    title: text.replace("…", ""),
    body: h("p", {}, says),
    fields,
    confirm: text.replace("…", ""),
    submit: async (said) => {
      const told = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== ""));
      const after = await post(`/operations/${operation}/settle`, { as, ...told });
      toast(`Noted. The operation is ${after.phase.toLowerCase().replaceAll("_", " ")}.`);
      await reload();
    },
  }));
  return h("div", { class: "actions", role: "group", "aria-label": `Operation ${operation}` },
    settle("It happened…", "happened", "You know that this call had its effect. Its repeats " +
      "are told so, and it can be undone.", [REF, REASON]),
    settle("It did not happen…", "absent", "You know that this call had no effect. Its repeat " +
      "will be sent.", [REASON]));
}

// A human says what became of one step.
export function stepActions(flow, step, reload) {
  if (step.phase === "UNCERTAIN") return settleActions(step.step, reload);
  if (flow.phase !== "NEEDS_HUMAN" || step.not_needed || !can("repair")) return null;
  if (step.phase === "DISPATCHING" || step.undo === "nothing") return null;
  const resolve = (text, as, says) => button(text, () => ask({
    title: text.replace("…", ""),
    body: h("p", {}, says, " The undo of the flow then goes on."),
    fields: [REASON],
    confirm: text.replace("…", ""),
    submit: ({ reason }) => act(flow, "resolve", { step: step.step, as, reason }, "Noted", reload),
  }));
  return h("div", { class: "actions", role: "group", "aria-label": `Step ${step.step}` },
    resolve("Undone by hand…", "done", "You, or somebody, undid this step's effect by hand."),
    resolve("It may stay…", "not-needed", "This step's effect stays; nobody has to undo it."));
}
