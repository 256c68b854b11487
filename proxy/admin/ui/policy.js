// The policy in force, and which tool a request matches.

import { get, post } from "/ui/api.js";
import { h, replace } from "/ui/dom.js";
import { counted, date, facts, spanText } from "/ui/format.js";
import { loadedPage, pageHead, problemBox } from "/ui/parts.js";
import { podsCard } from "/ui/pods.js";
import { foreign } from "/ui/text.js";

export function policyPage() {
  const page = loadedPage({
    head: pageHead("Policy"),
    load: async () => ({ state: await get("/policy"), policy: await get("/policy/tools"),
      streams: (await get("/status")).streams }),
    draw: ({ state, policy, streams }) => [explainCard(policy), stateCard(state, policy),
      podsCard(streams), toolsCard(policy), flowsCard(policy), backendsCard(policy)],
  });
  return { title: "Policy", element: page.element, close: page.close };
}

function stateCard(state, policy) {
  const reload = state.last_reload;
  return h("section", { class: "card" }, h("h2", {}, "In force"),
    facts([
      ["Version", h("span", { class: "mono" }, policy.version)],
      ["Mode", policy.mode],
      ["File", h("span", { class: "mono" }, foreign(state.path))],
      ["Unlisted", `reads ${policy.unlisted_reads}, writes ${policy.unlisted_writes}`],
      ["Kept for", spanText(policy.retention_ms)],
      ["Read", h("span", {}, date(reload.time), ` (${reload.trigger}): ${reload.result}`)],
      ["Older versions held", state.older_versions_held.join(", ")],
    ]),
    reload.problems.length > 0 && h("ul", { class: "problems" },
      reload.problems.map((problem) => h("li", {}, foreign(problem)))),
    state.orphaned.length > 0 && h("p", { class: "reason bad" },
      `${counted(state.orphaned.length, "tool")} with open operations left the policy or lost it: `,
      state.orphaned.map((one) => [foreign(one.tool), " "])));
}

// The words of `recourse policy explain`.
function lineTable(lines) {
  return h("table", { class: "lines" }, h("tbody", {}, lines.map(([name, text]) => h("tr", {},
    // What goes on from the line before has no name.
    name ? h("th", { scope: "row" }, name) : h("td"), h("td", {}, foreign(text))))));
}

function explainCard(policy) {
  const answer = h("div", { "aria-live": "polite" });
  const backend = policy.backends[0];
  const call = h("input", { id: "explain-call", spellcheck: "false", autocomplete: "off",
    class: "mono", placeholder: backend ? `POST ${backend.url}/…` : "POST http://host/path" });
  const body = h("textarea", { id: "explain-body", rows: 3, spellcheck: "false", class: "mono",
    placeholder: "{\"…\": …}" });
  const form = h("form", { class: "stack" },
    h("div", { class: "field" }, h("label", { for: "explain-call" },
      "Which tool does this request match?"), call,
    h("p", { class: "muted small" },
      "Method and URL, or method, backend and path. Nothing is sent.")),
    h("details", { class: "more" }, h("summary", {}, "With a body"),
      h("div", { class: "field" }, h("label", { for: "explain-body", class: "unseen" }, "Body"),
        body)),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "main" }, "Explain")),
    answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const found = await post("/policy/explain", { call: call.value.trim(), body: body.value });
      replace(answer, h("p", { class: "verdict" }, found.refused
        ? ["Refused: ", h("b", {}, found.refused)]
        : [h("b", {}, foreign(found.tool || "unlisted")), ` · ${found.effect}`]),
      lineTable(found.lines));
    } catch (problem) {
      replace(answer, problemBox(problem));
    }
  });
  return h("section", { class: "card" }, form);
}

function matchText(tool) {
  if (tool.mutations.length > 0) return `mutation ${tool.backend} ${tool.mutations.join(" ")}`;
  if (tool.mcp_names.length > 0) return `tools/call ${tool.backend} ${tool.mcp_names.join(" ")}`;
  return `${tool.methods.join("|")} ${tool.backend} ${tool.patterns.join(" ")}`;
}

function toolsCard(policy) {
  return h("section", { class: "card" }, h("h2", {}, counted(policy.tools.length, "tool")),
    policy.tools.map((tool) => h("details", { class: "step", "data-keep": `tool-${tool.name}` },
      h("summary", {},
        h("span", { class: `effect ${tool.effect}` }, tool.effect),
        h("span", { class: "step-name" }, foreign(tool.name)),
        h("span", { class: "step-call mono muted" },
          foreign(matchText(tool)))),
      h("div", { class: "stack step-body" },
        tool.rules.length > 0 ? lineTable(tool.rules)
          : h("p", { class: "muted" }, "It changes nothing, so nothing is remembered of it."),
        h("p", { class: "muted small" }, `Line ${tool.line} of the policy`)))));
}

function flowsCard(policy) {
  if (policy.flows.length === 0) return null;
  return h("section", { class: "card" }, h("h2", {}, counted(policy.flows.length, "flow")),
    policy.flows.map((flow) => h("div", { class: "line" }, h("b", {}, foreign(flow.name)), " ",
      foreign(flow.tools.join(" → ")),
      h("p", { class: "muted small" }, [flow.ends_with && `ends with ${flow.ends_with}`,
        flow.canceled_by && `canceled by ${flow.canceled_by}`,
        flow.deadline_ms && `deadline ${spanText(flow.deadline_ms)}`].filter(Boolean)
        .join(" · ")))));
}

function backendsCard(policy) {
  return h("section", { class: "card" }, h("h2", {}, counted(policy.backends.length, "backend")),
    policy.backends.map((backend) => h("div", { class: "line" }, h("b", {}, foreign(backend.name)),
      " ", h("span", { class: "mono" }, foreign(backend.url)),
      h("p", { class: "muted small" }, [backend.hosts.length && `also ${backend.hosts.join(", ")}`,
        backend.key_header ? `de-duplicates by ${backend.key_header}` : "knows no key",
        backend.protocol !== "http" && backend.protocol].filter(Boolean).join(" · ")))));
}
