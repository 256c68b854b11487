// Needs `traceparent`, which is made once for each run, and a `model`. One MCP client for each run.
import { createMCPClient } from "@ai-sdk/mcp";
import { generateText, isStepCount } from "ai";

const shop = await createMCPClient({
  transport: { type: "http", url: `${process.env.SHOP_URL}/mcp`, headers: { traceparent } },
});
await generateText({ model, tools: await shop.tools(), stopWhen: isStepCount(10),
  prompt: "Buy what is missing." });
await shop.close();
