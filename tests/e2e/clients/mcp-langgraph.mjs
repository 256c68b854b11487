// LangGraph with `@langchain/mcp-adapters`: a graph of one node that calls one tool. Nodes repeat:
//   retry      the node fails `failures` times after its call; its retry policy runs it again
//   interrupt  the node asks a human after its call; `resume` runs it from its beginning
//   crash      the process dies after the call; `resume` in another process runs it again
// Options: {"checkpoints": FILE, "timeout": MS}.
import fs from "node:fs";
import { AIMessage } from "@langchain/core/messages";
import { Annotation, Command, END, interrupt, MemorySaver, START, StateGraph }
  from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { drive, options, url } from "./mcp-driver.mjs";

const BYTES = "__bytes";

// LangGraph's own checkpoints, in a file that outlives the process.
class FileSaver extends MemorySaver {
  constructor(path) {
    super();
    this.path = path;
    if (!fs.existsSync(path)) return;
    const kept = JSON.parse(fs.readFileSync(path, "utf8"),
      (_, value) => (value?.[BYTES] === undefined ? value : Buffer.from(value[BYTES], "base64")));
    Object.assign(this.storage, kept.storage);
    Object.assign(this.writes, kept.writes);
  }

  keep() {
    const plain = (_, value) => (value?.type === "Buffer" ? { [BYTES]: Buffer.from(value.data)
      .toString("base64") } : value instanceof Uint8Array
      ? { [BYTES]: Buffer.from(value).toString("base64") } : value);
    fs.writeFileSync(`${this.path}.new`, JSON.stringify({ storage: this.storage,
      writes: this.writes }, plain));
    fs.renameSync(`${this.path}.new`, this.path);
  }

  async put(...values) {
    const config = await super.put(...values);
    this.keep();
    return config;
  }

  async putWrites(...values) {
    await super.putWrites(...values);
    this.keep();
  }
}

const client = new MultiServerMCPClient({
  mcpServers: { tools: { transport: "http", url,
    ...(options.timeout ? { defaultToolTimeout: options.timeout } : {}) } },
});
const saver = options.checkpoints ? new FileSaver(options.checkpoints) : new MemorySaver();
let tools = [];
let nodeRuns = 0;

const State = Annotation.Root({ tool: Annotation(), arguments: Annotation(), repeat: Annotation(),
  failures: Annotation(), text: Annotation() });

async function node(state) {
  nodeRuns += 1;
  const tool = tools.find(({ name }) => name === state.tool);
  const output = await tool.invoke(state.arguments);
  const text = typeof output === "string" ? output : JSON.stringify(output);
  if (state.repeat === "retry" && nodeRuns <= state.failures) throw new Error("the node failed");
  if (state.repeat === "crash" && !options.resumed) process.kill(process.pid, "SIGKILL");
  if (state.repeat === "interrupt") interrupt("go on?");
  return { text };
}

const retryPolicy = { maxAttempts: 5, initialInterval: 1, jitter: false, logWarning: false };
const graph = new StateGraph(State).addNode("work", node, { retryPolicy })
  .addEdge(START, "work").addEdge("work", END).compile({ checkpointer: saver });

async function advance(input, thread) {
  nodeRuns = 0;
  const state = await graph.invoke(input, { configurable: { thread_id: thread },
    durability: "sync" });
  return { text: state.text ?? null, runs: nodeRuns,
    interrupted: state.__interrupt__ !== undefined };
}

await drive({
  async connect() {
    tools = await client.getTools();
    return tools.map(({ name }) => name);
  },
  // As an agent's model sees it: through LangGraph's ToolNode.
  async call({ tool, arguments: args = {} }) {
    const message = new AIMessage({ content: "", tool_calls: [{ name: tool, args, id: "call-1",
      type: "tool_call" }] });
    const { messages: [answer] } = await new ToolNode(tools).invoke({ messages: [message] });
    const { content, status, artifact } = answer;
    const text = typeof content === "string" ? content
      : content.map((part) => part.text ?? "").join("");
    return { text, is_error: status === "error", result: { content, status, artifact } };
  },
  node: ({ thread, ...input }) => advance(input, thread),
  // A crashed node has no value to go on with, an interrupted one has.
  resume: ({ thread, value }) =>
    advance(value === undefined ? null : new Command({ resume: value }), thread),
}, () => client.close());
