// @modelcontextprotocol/sdk, the client of 2025-11-25. Options: {"timeout": MS, "answers": BOOL}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema,
  ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { ANSWERS, asked, CAPABILITIES, drive, options, seen, url } from "./mcp-driver.mjs";

const SCHEMAS = [ElicitRequestSchema, CreateMessageRequestSchema, ListRootsRequestSchema];
const client = new Client({ name: "legacy", version: "1.0.0" },
  { capabilities: options.answers ? CAPABILITIES : {} });
for (const schema of options.answers ? SCHEMAS : []) {
  client.setRequestHandler(schema, (request) => {
    asked.push(request.method);
    return ANSWERS[request.method];
  });
}
const notified = [];
client.setNotificationHandler(ToolListChangedNotificationSchema, () => { notified.push("tools"); });
const transport = new StreamableHTTPClientTransport(new URL(url));
const limits = options.timeout ? { timeout: options.timeout } : {};

await drive({
  connect: () => client.connect(transport),
  list: async ({ cursor }) => client.listTools(cursor ? { cursor } : undefined),
  async call({ tool, arguments: args = {}, progress = false, meta, patience }) {
    const steps = [];
    const onprogress = progress ? (step) => steps.push(step.progress) : undefined;
    const params = { name: tool, arguments: args, ...(meta ? { _meta: meta } : {}) };
    const result = await client.callTool(params, undefined, { ...limits, ...patience, onprogress });
    return { ...seen(result), ...(progress ? { progress: steps } : {}) };
  },
  // A call that the server makes a task of: asked about until its result is here.
  async task({ tool, arguments: args = {} }) {
    const steps = client.experimental.tasks.callToolStream({ name: tool, arguments: args },
      undefined, limits);
    let task;
    for await (const step of steps) {
      if (step.type === "taskCreated") task = step.task.taskId;
      if (step.type === "error") throw step.error;
      if (step.type === "result") return { ...seen(step.result), task };
    }
    throw new Error("the task has no end");
  },
  ping: () => client.ping(),
  asked: () => asked,
  notified: () => notified,
  session: () => transport.sessionId,
  end: () => transport.terminateSession(),
}, () => client.close());
