// What the MCP drivers share. A driver runs one unchanged client:
//   node mcp-NAME.mjs URL [OPTIONS-AS-JSON]
// It reads one step per line of stdin, {"op": NAME, ...}, and answers each with one line,
//   {"step": N, "value": ...} or {"step": N, "error": {"name", "message", "code"}},
// in the order in which steps end: a step with "wait": false does not hold up the next one. It ends
// when stdin closes and no step runs any more. Value of a call, whatever the client:
//   {"text": what its caller or model saw, "is_error", "structured", "result": all that came}
import readline from "node:readline";

export const url = process.argv[2];
export const options = JSON.parse(process.argv[3] ?? "{}");

const told = ({ name, message, code }) => ({ name, message, code });

export function seen(result) {
  const parts = Array.isArray(result.content) ? result.content : [];
  return {
    text: parts.map((part) => part.text ?? "").join(""),
    is_error: result.isError === true,
    structured: result.structuredContent ?? null,
    result,
  };
}

// What a client answers when its server asks it, and a list of what it was asked.
export const asked = [];
export const ANSWERS = {
  "elicitation/create": { action: "accept", content: { colour: "red" } },
  "sampling/createMessage": { role: "assistant", model: "scripted",
    content: { type: "text", text: "word" }, stopReason: "endTurn" },
  "roots/list": { roots: [{ uri: "file:///home", name: "home" }] },
};
export const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} };

export async function drive(steps, close) {
  const running = [];
  let number = 0;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { op, wait = true, ...values } = JSON.parse(line);
    number += 1;
    const step = number;
    const run = async () => {
      try {
        console.log(JSON.stringify({ step, value: await steps[op](values) ?? null }));
      } catch (error) {
        console.log(JSON.stringify({ step, error: told(error) }));
      }
    };
    const ended = run();
    if (wait) await ended;
    else running.push(ended);
  }
  await Promise.all(running);
  await close?.().catch(() => {});
  process.exit(0);
}
