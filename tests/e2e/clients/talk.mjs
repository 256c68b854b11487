// A WebSocket client: text, one MiB of bytes, ping and a clean close. Prints what came back.
import WebSocket from "ws";

const socket = new WebSocket(process.argv[2], ["chat"], { headers: { Host: "shop.test" } });
const large = Buffer.alloc(1 << 20, 7);
const seen = { protocol: null, text: null, large: false, pong: false, code: null };
socket.on("open", () => {
  seen.protocol = socket.protocol;
  socket.send("hello");
});
socket.on("message", (data, isBinary) => {
  if (!isBinary) {
    seen.text = data.toString();
    socket.send(large);
  } else {
    seen.large = large.equals(data);
    socket.ping("x");
  }
});
socket.on("pong", () => {
  seen.pong = true;
  socket.close(1000);
});
socket.on("error", (error) => (seen.error = String(error)));
socket.on("close", (code) => {
  seen.code = code;
  console.log(JSON.stringify(seen));
});
