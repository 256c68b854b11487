// `@openai/agents` with a scripted model. Options: {"timeout": MS}.
import { Agent, MCPServerStreamableHttp, run as runAgent, setTracingDisabled, Usage }
  from "@openai/agents";
import { drive, options, url } from "./mcp-driver.mjs";

setTracingDisabled(true);
const TURNS_MAX = 20;
const server = new MCPServerStreamableHttp({ url, name: "tools",
  ...(options.timeout ? { timeout: options.timeout } : {}) });

// Calls one tool per turn, in the order of `calls`, and then says "done".
function scripted(calls) {
  let turn = 0;
  return {
    async getResponse() {
      const next = calls[turn];
      turn += 1;
      const output = next
        ? { type: "function_call", callId: `call-${turn}`, name: next.tool, status: "completed",
          arguments: JSON.stringify(next.arguments ?? {}) }
        : { type: "message", role: "assistant", status: "completed",
          content: [{ type: "output_text", text: "done" }] };
      return { usage: new Usage(), output: [output] };
    },
    getStreamedResponse() {
      throw new Error("this model does not stream");
    },
  };
}

function text(output) {
  if (typeof output === "string") return output;
  const parts = Array.isArray(output) ? output : [output];
  return parts.map((part) => part.text ?? "").join("");
}

// What the model saw of each call.
async function run(calls) {
  const agent = new Agent({ name: "agent", model: scripted(calls), mcpServers: [server] });
  const ended = await runAgent(agent, "Do it.", { maxTurns: TURNS_MAX });
  const results = ended.history.filter(({ type }) => type === "function_call_result");
  return { said: ended.finalOutput,
    calls: results.map(({ output }) => ({ text: text(output), output })) };
}

await drive({
  connect: () => server.connect(),
  async list() {
    return (await server.listTools()).map(({ name }) => name);
  },
  async call({ tool, arguments: args }) {
    const { calls: [only] } = await run([{ tool, arguments: args }]);
    return { text: only.text, result: only.output };
  },
  run: ({ calls }) => run(calls),
}, () => server.close());
