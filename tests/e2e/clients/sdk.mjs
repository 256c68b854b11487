// Makes one write with an unchanged SDK and prints what its user sees, as one line of JSON:
// {resolved}, or {threw, status, code, type, message}.
//   node sdk.mjs stripe|openai|axios ORIGIN KEY AMOUNT RETRIES
import axios, { AxiosError } from "axios";
import OpenAI from "openai";
import Stripe from "stripe";

const [client, origin, key, amount, retries] = process.argv.slice(2);
const { hostname, port } = new URL(origin);
const maxRetries = Number(retries);

const calls = {
  stripe() {
    const stripe = new Stripe("sk_test_of_nobody", {
      host: hostname,
      port,
      protocol: "http",
      maxNetworkRetries: maxRetries,
      telemetry: false,
    });
    return stripe.charges.create({ amount, currency: "eur" }, { idempotencyKey: key });
  },

  openai() {
    const openai = new OpenAI({ apiKey: "sk-of-nobody", baseURL: `${origin}/v1`, maxRetries });
    const batch = { completion_window: "24h", endpoint: "/v1/responses", input_file_id: amount };
    return openai.batches.create(batch, { headers: { "Idempotency-Key": key } });
  },

  axios() {
    return axios.post(`${origin}/v1/axios`, { amount }, { headers: { "Idempotency-Key": key } });
  },
};

function seen(error) {
  const told = error instanceof AxiosError ? error.response.data.error : error;
  return {
    threw: error.constructor.name,
    status: error.statusCode ?? error.status,
    code: told?.code,
    type: told?.rawType ?? told?.type,
    message: told?.message,
  };
}

const outcome = await calls[client]().then((resolved) => ({ resolved: resolved.id ?? null }), seen);
// Stripe's SDK leaves the connection of an answer that it retried open; do not wait for it.
process.stdout.write(JSON.stringify(outcome) + "\n", () => process.exit(0));
