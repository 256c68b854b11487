// Makes one call with an unchanged client and prints {status, headers, body} as one line of JSON.
//   node call.mjs fetch|axios URL JSON [HEADERS-AS-JSON]
//   node call.mjs stripe ORIGIN NAME         creates a customer, retries on
import axios from "axios";
import Stripe from "stripe";

const [client, url, argument, fields = "{}"] = process.argv.slice(2);

const calls = {
  async fetch() {
    const headers = { "content-type": "application/json", ...JSON.parse(fields) };
    const answer = await fetch(url, { method: "POST", headers, body: argument });
    const received = Object.fromEntries(answer.headers);
    return { status: answer.status, headers: received, body: await answer.text() };
  },

  async axios() {
    const answer = await axios.post(url, JSON.parse(argument), {
      headers: JSON.parse(fields),
      validateStatus: () => true,
      transformResponse: (text) => text,
    });
    return { status: answer.status, headers: { ...answer.headers }, body: answer.data };
  },

  async stripe() {
    const { hostname, port } = new URL(url);
    const stripe = new Stripe("sk_test_of_nobody", {
      host: hostname,
      port,
      protocol: "http",
      maxNetworkRetries: 4,
      telemetry: false,
    });
    const metadata = { b: "2", a: "1" };
    const customer = await stripe.customers.create({ name: argument, metadata });
    const { headers, statusCode } = customer.lastResponse;
    return { status: statusCode, headers, body: JSON.stringify(customer) };
  },
};

// Stripe's SDK leaves the connection of an answer that it retried open; do not wait for it.
process.stdout.write(JSON.stringify(await calls[client]()) + "\n", () => process.exit(0));
