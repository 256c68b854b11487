// Needs `traceparent`, which is made once for each run; `buyer` makes a graph of the
// tools. The headers of beforeToolCall replace those of the connection: repeat there what else the
// server needs.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";

const shop = new MultiServerMCPClient({
  mcpServers: { shop: { transport: "http", url: `${process.env.SHOP_URL}/mcp` } },
  beforeToolCall: (call, state, { configurable }) => (
    { headers: { traceparent: configurable.traceparent } }),
});
const graph = buyer(await shop.getTools());
await graph.invoke({ messages: "Buy what is missing." },
  { configurable: { thread_id: "cart-42", traceparent } });
