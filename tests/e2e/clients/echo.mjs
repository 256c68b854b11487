// A WebSocket server that sends every message back; prints its port, ends when stdin closes.
import { WebSocketServer } from "ws";

const handleProtocols = (all) => [...all][0];
const server = new WebSocketServer({ host: "127.0.0.1", port: 0, handleProtocols });
server.on("connection", (socket) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
server.on("listening", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
