// @modelcontextprotocol/server-everything as it is, on a free port of 127.0.0.1: prints the port,
// ends when stdin closes.
import http from "node:http";

const { listen } = http.Server.prototype;
http.Server.prototype.listen = function onLoopback(_, ready) {
  return listen.call(this, 0, "127.0.0.1", () => {
    process.stdout.write(`${this.address().port}\n`);
    ready();
  });
};
// Its own lines would stand where the port is read.
console.log = console.error;
process.env.PORT = "0";
process.stdin.resume().on("end", () => process.exit(0));
await import("@modelcontextprotocol/server-everything/dist/transports/streamableHttp.js");
