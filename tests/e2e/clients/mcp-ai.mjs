// Vercel's `ai` with `@ai-sdk/mcp` and a scripted model. Options: {"retries": N, "timeout": MS}.
import { createMCPClient } from "@ai-sdk/mcp";
import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { drive, options, url } from "./mcp-driver.mjs";

const TURNS_MAX = 20;
let client;
let tools;

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const finished = (unified) => ({ unified, raw: unified });

// Calls one tool per turn, in the order of `calls`, and then says "done".
function scripted(calls) {
  let turn = 0;
  return new MockLanguageModelV4({
    doGenerate: async () => {
      const next = calls[turn];
      turn += 1;
      if (!next) {
        return { content: [{ type: "text", text: "done" }], finishReason: finished("stop"), usage,
          warnings: [] };
      }
      const call = { type: "tool-call", toolCallId: `call-${turn}`, toolName: next.tool,
        input: JSON.stringify(next.arguments ?? {}) };
      return { content: [call], finishReason: finished("tool-calls"), usage, warnings: [] };
    },
  });
}

function text({ type, value }) {
  if (type === "content") return value.map((part) => part.text ?? "").join("");
  return typeof value === "string" ? value : JSON.stringify(value);
}

// What the model saw of each call, from its last prompt.
async function run(calls) {
  const model = scripted(calls);
  const limit = options.timeout ? { abortSignal: AbortSignal.timeout(options.timeout) } : {};
  const ended = await generateText({ model, tools, stopWhen: isStepCount(TURNS_MAX),
    prompt: "Do it.", maxRetries: 0, ...limit });
  const { prompt } = model.doGenerateCalls.at(-1);
  const parts = prompt.filter(({ role }) => role === "tool").flatMap(({ content }) => content);
  return { said: ended.text, calls: parts.map(({ output }) => ({ text: text(output), output })) };
}

await drive({
  async connect() {
    client = await createMCPClient({ transport: { type: "http", url },
      maxRetries: options.retries ?? 0 });
    tools = await client.tools();
    return Object.keys(tools);
  },
  async call({ tool, arguments: args }) {
    const { calls: [only] } = await run([{ tool, arguments: args }]);
    return { text: only.text, result: only.output };
  },
  run: ({ calls }) => run(calls),
}, () => client?.close());
