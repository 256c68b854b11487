// Needs `traceparent`, which is made once for each run.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const shop = new Client({ name: "buyer", version: "1.0.0" });
await shop.connect(new StreamableHTTPClientTransport(new URL(`${process.env.SHOP_URL}/mcp`)));
const order = (item) => shop.callTool(
  { name: "create_order", arguments: { item }, _meta: { traceparent } });
await order("tea");
await order("milk");
