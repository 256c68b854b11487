// json-server as a real backend: serves DB.json on a free port, prints the port, and ends with its
// parent (when stdin closes).   node json-server.mjs DB.json
import jsonServer from "json-server";

const server = jsonServer.create();
server.use(jsonServer.defaults({ logger: false }));
server.use(jsonServer.router(process.argv[2]));
const listener = server.listen(0, "127.0.0.1", () => console.log(listener.address().port));
process.stdin.resume().on("end", () => process.exit(0));
