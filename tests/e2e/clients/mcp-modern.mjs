// @modelcontextprotocol/client, which speaks both eras. Options: {"mode": "legacy" | "auto" |
// "modern" (the default: nothing but 2026-07-28), "timeout": MS, "answers": BOOL}.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { ANSWERS, asked, CAPABILITIES, drive, options, seen, url } from "./mcp-driver.mjs";

const mode = (options.mode ?? "modern") === "modern" ? { pin: "2026-07-28" } : options.mode;
const client = new Client({ name: "modern", version: "1.0.0" },
  { capabilities: options.answers ? CAPABILITIES : {}, versionNegotiation: { mode } });
for (const method of options.answers ? Object.keys(ANSWERS) : []) {
  client.setRequestHandler(method, () => {
    asked.push(method);
    return ANSWERS[method];
  });
}
const transport = new StreamableHTTPClientTransport(new URL(url));
const limits = options.timeout ? { timeout: options.timeout } : {};

await drive({
  async connect() {
    await client.connect(transport);
    return client.getNegotiatedProtocolVersion();
  },
  list: async ({ cursor }) => client.listTools(cursor ? { cursor } : undefined),
  async call({ tool, arguments: args = {}, progress = false, meta, patience }) {
    const steps = [];
    const onprogress = progress ? (step) => steps.push(step.progress) : undefined;
    const params = { name: tool, arguments: args, ...(meta ? { _meta: meta } : {}) };
    const result = await client.callTool(params, { ...limits, ...patience, onprogress });
    return { ...seen(result), ...(progress ? { progress: steps } : {}) };
  },
  ping: () => client.ping(),
  asked: () => asked,
  session: () => transport.sessionId,
  end: () => transport.terminateSession(),
}, () => client.close());
