// Needs `traceparent`, which is made once for each run, and a `model`. One server serves
// all runs.
import { Agent, MCPServerStreamableHttp, run } from "@openai/agents";

const shop = new MCPServerStreamableHttp({
  url: `${process.env.SHOP_URL}/mcp`,
  toolMetaResolver: ({ runContext }) => ({ traceparent: runContext.context.traceparent }),
});
await shop.connect();
const agent = new Agent({ name: "buyer", model, mcpServers: [shop] });
await run(agent, "Buy what is missing.", { context: { traceparent } });
