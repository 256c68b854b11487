// The durable write as a Restate service: the call to the backend is a durable step, and Restate
// remembers its answer under the idempotency key that the client sent.
//
// usage: node restate_worker.mjs BACKEND_PORT; prints its port
import http from "node:http";
import http2 from "node:http2";
import * as restate from "@restatedev/restate-sdk";

const backend = Number(process.argv[2]);
const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity, noDelay: true });

// node:http over kept connections: the built-in fetch takes more CPU.
function post(body) {
  const bytes = Buffer.from(JSON.stringify(body));
  const headers = { "Content-Type": "application/json", "Content-Length": bytes.length };
  return new Promise((resolve, reject) => {
    const request = http.request(
      { host: "127.0.0.1", port: backend, method: "POST", path: "/orders", agent, headers },
      (answer) => {
        const pieces = [];
        answer.on("data", (piece) => pieces.push(piece));
        answer.on("end", () => {
          if (answer.statusCode !== 200) return reject(new Error(`status ${answer.statusCode}`));
          resolve(JSON.parse(Buffer.concat(pieces).toString()));
        });
        answer.on("error", reject);
      },
    );
    request.on("error", reject);
    request.end(bytes);
  });
}

const orders = restate.service({
  name: "orders",
  handlers: { create: async (ctx, order) => ctx.run("create", () => post(order)) },
});

const endpoint = restate.endpoint().bind(orders);
const server = http2.createServer(endpoint.http2Handler());
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
