// The tools of the MCP fixture server: how tools/list shows them and what a call of each does.
import { inputRequired, ProtocolError } from "@modelcontextprotocol/server";

const object = (properties, required = []) => ({ type: "object", properties, required });
const text = { type: "string" };
const number = { type: "number" };
const bool = { type: "boolean" };
const order = object({ id: text, status: text, item: text }, ["id", "status"]);
const say = (...lines) => ({ content: lines.map((line) => ({ type: "text", text: line })) });
const structured = (value) => ({ ...say(JSON.stringify(value)), structuredContent: value });

// What the client is asked for by ask_client.
const QUESTION = { message: "Which colour?",
  requestedSchema: object({ colour: text }, ["colour"]) };
const PROMPT = { messages: [{ role: "user", content: { type: "text", text: "Say a word." } }],
  maxTokens: 16 };

async function askLegacy({ what = "elicitation", stream = "post" }, context, server) {
  const ask = stream === "get"
    ? { elicitation: () => server.elicitInput(QUESTION),
      sampling: () => server.createMessage(PROMPT), roots: () => server.listRoots() }
    : { elicitation: () => context.mcpReq.send({ method: "elicitation/create", params: QUESTION }),
      sampling: () => context.mcpReq.send({ method: "sampling/createMessage", params: PROMPT }),
      roots: () => context.mcpReq.send({ method: "roots/list" }) };
  return ask[what]();
}

// Modern: nothing is asked on the stream; the client calls again with what it was asked for.
function askModern({ what = "elicitation", rounds = 1 }, context) {
  const round = Number(context.mcpReq.requestState() ?? "0");
  if (what === "state") {
    return round < rounds ? inputRequired({ requestState: String(round + 1) }) : { rounds: round };
  }
  const answer = context.mcpReq.inputResponses?.asked;
  if (answer !== undefined) return answer;
  const asked = { elicitation: () => inputRequired.elicit({ mode: "form", ...QUESTION }),
    sampling: () => inputRequired.createMessage(PROMPT),
    roots: () => inputRequired.listRoots() }[what]();
  return inputRequired({ inputRequests: { asked }, requestState: "1" });
}

async function askClient(args, context, { world, server, era }) {
  const answer = era === "legacy" ? await askLegacy(args, context, server)
    : askModern(args, context);
  if (answer.resultType === "input_required") return answer;
  world.execute("ask_client", args);
  return say(JSON.stringify(answer));
}

// One progress notification per passage of the gate, if the client asked for progress at all.
async function streamReport(given, context, { world }) {
  const { chunks = 3, gate = "stream_report", pad = 0 } = given;
  const args = { chunks, gate };
  world.execute("stream_report", args);
  const progressToken = context.mcpReq._meta?.progressToken;
  for (let progress = 1; progress <= chunks; progress += 1) {
    await world.pass(gate);
    if (progressToken === undefined) continue;
    const message = `chunk ${progress}`.padEnd(pad);
    const params = { progressToken, progress, total: chunks, message };
    await context.mcpReq.notify({ method: "notifications/progress", params });
  }
  return say(`${chunks} chunks`);
}

async function slowWrite(args, context, { world }) {
  const { gate = "slow_write", effect = "first" } = args;
  let number = effect === "first" ? world.execute("slow_write", args) : undefined;
  context.mcpReq.signal.addEventListener("abort", () => {
    world.remember(world.cancelled, { tool: "slow_write", arguments: args });
  });
  await world.pass(gate);
  if (context.mcpReq.signal.aborted && effect === "last") return say("cancelled before the effect");
  number ??= world.execute("slow_write", args);
  return structured({ id: `slow-${number}`, status: "done" });
}

export const TOOLS = {
  search: {
    definition: { description: "Looks for orders", inputSchema: object({ query: text }, ["query"]),
      annotations: { readOnlyHint: true } },
    run: (args, _, { world }) => say(`result ${world.execute("search", args)} for ${args.query}`),
  },
  create_order: {
    definition: { description: "Creates an order",
      inputSchema: object({ item: text, amount: number, note: text,
        region: { ...text, "x-mcp-header": "Region" } }, ["item"]),
      outputSchema: order, annotations: { readOnlyHint: false, destructiveHint: false } },
    run: (args, _, { world }) =>
      structured({ id: `order-${world.execute("create_order", args)}`, status: "created",
        item: args.item }),
  },
  cancel_order: {
    definition: { description: "Cancels an order", inputSchema: object({ id: text }, ["id"]),
      outputSchema: order, annotations: { destructiveHint: true, idempotentHint: true } },
    run: (args, _, { world }) => {
      world.execute("cancel_order", args);
      return structured({ id: args.id, status: "cancelled" });
    },
  },
  get_order: {
    definition: { description: "Finds the order of an item",
      inputSchema: object({ item: text }, ["item"]), annotations: { readOnlyHint: true } },
    run: ({ item }, _, { world }) => {
      const orders = world.executions.filter(({ tool }) => tool === "create_order");
      const at = orders.findIndex((order) => order.arguments.item === item);
      return structured(at < 0 ? { found: false } : { id: `order-${at + 1}` });
    },
  },
  send_mail: {
    definition: { description: "Sends a mail",
      inputSchema: object({ to: text, subject: text, body: text }, ["to"]) },
    run: (args, _, { world }) =>
      say(`mail ${world.execute("send_mail", args)} to ${args.to} is sent`),
  },
  slow_write: {
    definition: { description: "A write that answers when it is told to",
      inputSchema: object({ gate: text, effect: text }), outputSchema: order },
    run: slowWrite,
  },
  fail_tool: {
    definition: { description: "Has its effect, if it is to, and says that it failed",
      inputSchema: object({ text, execute: bool }) },
    run: (args, _, { world }) => {
      if (args.execute ?? true) world.execute("fail_tool", args);
      return { ...say(args.text ?? "the tool failed"), isError: true };
    },
  },
  error_tool: {
    definition: { description: "Has its effect, if it is to, and answers a JSON-RPC error",
      inputSchema: object({ code: number, message: text, execute: bool }, ["code"]) },
    run: (args, _, { world }) => {
      if (args.execute ?? true) world.execute("error_tool", args);
      throw new ProtocolError(args.code, args.message ?? "the tool errs");
    },
  },
  cut_write: {
    definition: { description: "Has its effect and cuts its answer",
      inputSchema: object({ how: text, event_id: bool, half: bool }),
      outputSchema: order },
    fault: (args) => ({ kind: "cut", ...args }),
    run: (args, _, { world }) =>
      structured({ id: `cut-${world.execute("cut_write", args)}`, status: "done" }),
  },
  stream_report: {
    definition: { description: "Reports progress, one chunk at a time",
      inputSchema: object({ chunks: number, gate: text, pad: number }),
      annotations: { readOnlyHint: true } },
    run: streamReport,
  },
  task_write: {
    definition: { description: "Becomes a task, and ends when it is told to (mcp-tasks.mjs)",
      inputSchema: object({ mark: text, gate: text, ends: text }),
      execution: { taskSupport: "required" } },
    run: () => { throw new ProtocolError(-32601, "it takes a task"); },
  },
  ask_client: {
    definition: { description: "Asks its client for something before it has its effect",
      inputSchema: object({ what: text, stream: text, rounds: number }) },
    run: askClient,
  },
  status_tool: {
    definition: { description: "Has its effect, if it is to, and answers an HTTP status",
      inputSchema: object({ status: number, execute: bool }, ["status"]) },
    fault: (args) => ({ kind: "status", ...args }),
    run: (args, _, { world }) => say(`done ${world.execute("status_tool", args)}`),
  },
};
