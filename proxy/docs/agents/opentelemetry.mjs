// One span around each run: its requests are one trace.
import { trace } from "@opentelemetry/api";
import { registerInstrumentations } from "@opentelemetry/instrumentation";
import { UndiciInstrumentation } from "@opentelemetry/instrumentation-undici";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

new NodeTracerProvider().register();
registerInstrumentations({ instrumentations: [new UndiciInstrumentation()] }); // fetch

const order = (item) => fetch(`${process.env.SHOP_URL}/orders`, { method: "POST",
  headers: { "content-type": "application/json" }, body: JSON.stringify({ item }) });
await trace.getTracer("agent").startActiveSpan("run", async (span) => {
  await order("tea");
  await order("milk");
  span.end();
});
