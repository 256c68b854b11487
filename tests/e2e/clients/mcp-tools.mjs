// An MCP server for tests, over Streamable HTTP, in both eras at one address: with sessions, a GET
// stream and resumption (2025-11-25), and one exchange per call (2026-07-28). Prints its port; ends
// with its stdin or by SIGTERM. Beside /mcp it has:
//   GET /counts      executions by tool, with their arguments; cancellations; open GET streams
//   GET /requests    every request to /mcp as it arrived
//   POST /control    {"op": "reset" | "set" | "arm" | "open" | "define" | "forget_sessions" |
//                     "forget_tasks" | "await", ...}; see World.control
// set: {"answer": "sse" | "json" | "auto", "events": BOOL, "page_size": N, "resume": BOOL}
//   "auto" is modern only; without "resume" no stream is taken up again; of tasks: mcp-tasks.mjs
// arm: {"tool": NAME, "times": N, "fault": FAULT}: the next N calls of the tool go wrong.
//   {"kind": "status", "status": N, "body": TEXT, "headers": {}, "execute": BOOL}
//                                                 %ID% in the body is the request's id
//   {"kind": "cut", "how": "end" | "fin" | "rst", "event_id": BOOL, "half": BOOL, "as": "json"}
//   {"kind": "drop", "execute": BOOL}               the connection is reset instead of an answer
//   {"kind": "gate", "gate": NAME}                  the answer waits for "open"
//   {"kind": "error", "code": N, "message": TEXT, "execute": BOOL}
//   {"kind": "is_error", "text": TEXT, "execute": BOOL}
// "execute": false leaves the effect out; otherwise the tool has it before the fault.
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import http from "node:http";
import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest }
  from "@modelcontextprotocol/node";
import { createMcpHandler, isLegacyRequest, ProtocolError, Server }
  from "@modelcontextprotocol/server";
import { Tasks } from "./mcp-tasks.mjs";
import { TOOLS } from "./mcp-tool-table.mjs";
import { World } from "./mcp-world.mjs";

const BODY_MAX = 16 << 20;
const SESSIONS_MAX = 1000;
const world = new World();
const tasks = new Tasks(world);
const calls = new AsyncLocalStorage();
const sessions = new Map(); // id -> { transport, server }

// --- the server behind both eras ----------------------------------------------------------------

function listTools(cursor) {
  const all = Object.entries(TOOLS).map(([name, { definition }]) =>
    ({ name, ...definition, ...world.definitions.get(name) }));
  const size = world.settings.page_size;
  if (!size) return { tools: all };
  const start = Number(cursor ?? "0");
  const tools = all.slice(start, start + size);
  return start + size < all.length ? { tools, nextCursor: String(start + size) } : { tools };
}

async function callTool(name, args, context, era, server) {
  const tool = TOOLS[name];
  if (!tool) throw new ProtocolError(-32602, `there is no tool ${name}`);
  const { fault } = calls.getStore();
  const executes = fault?.execute ?? true;
  const result = executes ? await tool.run(args, context, { world, server, era }) : undefined;
  switch (fault?.kind) {
    case "cut":
      context.http.closeSSE();
      break;
    case "gate":
      await world.pass(fault.gate);
      break;
    case "error":
      throw new ProtocolError(fault.code, fault.message ?? "an error");
    case "is_error":
      return { content: [{ type: "text", text: fault.text ?? "it failed" }], isError: true };
    default:
  }
  return result;
}

function makeServer(era) {
  const server = new Server({ name: "recourse-fixture", version: "1.0.0" },
    { capabilities: { tools: { listChanged: true } } });
  server.setRequestHandler("tools/list", (request) => listTools(request.params?.cursor));
  server.setRequestHandler("tools/call", (request, context) =>
    callTool(request.params.name, request.params.arguments ?? {}, context, era, server));
  return server;
}

// --- 2026-07-28 ---------------------------------------------------------------------------------

const handlers = Object.fromEntries(["auto", "sse", "json"].map((responseMode) =>
  [responseMode, createMcpHandler(() => makeServer("modern"),
    { legacy: "reject", responseMode, keepAliveMs: 0 })]));
const modern = Object.fromEntries(
  Object.entries(handlers).map(([mode, handler]) => [mode, toNodeHandler(handler)]));

// --- 2025-11-25 ---------------------------------------------------------------------------------

function eventStore() {
  const events = []; // { stream, message }; an event's id is its place
  return {
    async storeEvent(stream, message) {
      events.push({ stream, message });
      return `event-${events.length}`;
    },
    async getStreamIdForEventId(id) {
      return events[Number(id.slice(6)) - 1]?.stream;
    },
    async replayEventsAfter(id, { send }) {
      const last = Number(id.slice(6));
      const stream = events[last - 1]?.stream ?? "";
      for (let n = last; n < events.length; n += 1) {
        const { stream: of, message } = events[n];
        // An empty message only gave the stream its first id.
        if (of === stream && message.jsonrpc) await send(`event-${n + 1}`, message);
      }
      return stream;
    },
  };
}

async function openSession() {
  if (sessions.size === SESSIONS_MAX) throw new Error("too many sessions");
  const server = makeServer("legacy");
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => { sessions.set(id, { transport, server }); },
    onsessionclosed: (id) => { sessions.delete(id); },
    enableJsonResponse: world.settings.answer === "json",
    eventStore: world.settings.events ? eventStore() : undefined,
    retryInterval: world.settings.events ? 50 : undefined,
    keepAliveMs: 0,
  });
  await server.connect(transport);
  return transport;
}

// A GET stream stands from its head to its end.
function countStream(res) {
  const { writeHead } = res;
  res.writeHead = (status, ...values) => {
    if (status === 200) {
      world.addStreams(1);
      res.on("close", () => world.addStreams(-1));
    }
    return writeHead.call(res, status, ...values);
  };
}

async function legacy(req, res, message) {
  const id = req.headers["mcp-session-id"];
  const session = sessions.get(id);
  if (!session && (id || message?.method !== "initialize")) {
    const error = id ? { code: -32001, message: "Session not found" }
      : { code: -32000, message: "Bad Request: Mcp-Session-Id header is required" };
    answerJson(res, id ? 404 : 400, { jsonrpc: "2.0", error, id: message?.id ?? null });
    return;
  }
  if (req.method === "GET") countStream(res);
  await (session?.transport ?? await openSession()).handleRequest(req, res, message);
}

function endSessions() {
  for (const { transport } of sessions.values()) transport.close();
  sessions.clear();
}

function toolsChanged() {
  for (const { server } of sessions.values()) server.sendToolListChanged();
  for (const handler of Object.values(handlers)) handler.notify.toolsChanged();
}

// --- faults below MCP ---------------------------------------------------------------------------

// An official server never answers like this, so the bytes are ours.
async function breakAnswer(fault, req, res, message) {
  const { name, arguments: args = {} } = message.params;
  const context = { mcpReq: { signal: new AbortController().signal } };
  const result = fault.execute ?? true ? await TOOLS[name].run(args, context, { world }) : {};
  if (fault.kind === "drop") {
    req.socket.resetAndDestroy();
    return;
  }
  if (fault.kind === "status") {
    const headers = { "content-type": "text/plain", ...fault.headers };
    const id = JSON.stringify(message.id);
    res.writeHead(fault.status, headers).end((fault.body ?? "").replaceAll("%ID%", id));
    return;
  }
  const final = JSON.stringify({ jsonrpc: "2.0", id: message.id, result });
  const json = fault.as === "json";
  const whole = json ? final : `event: message\ndata: ${final}\n\n`;
  res.writeHead(200, json ? { "content-type": "application/json", "content-length": whole.length }
    : { "content-type": "text/event-stream", "cache-control": "no-cache" });
  res.flushHeaders();
  if (fault.event_id) res.write("id: cut-1\nretry: 50\ndata: \n\n");
  if (fault.half) res.write(whole.slice(0, whole.length / 2));
  if (fault.how === "fin") {
    res.write(json || fault.half ? "" : ": \n", () => req.socket.destroy());
  } else if (fault.how === "rst") {
    req.socket.resetAndDestroy();
  } else {
    res.end();
  }
}

// In a session with events the official server can cut an answer and give it later.
function resumes(fault, req, isLegacy) {
  return isLegacy && fault.kind === "cut" && fault.event_id && (fault.how ?? "end") === "end" &&
    !fault.half && world.settings.events && sessions.has(req.headers["mcp-session-id"]);
}

// --- HTTP ---------------------------------------------------------------------------------------

function answerJson(res, status, value) {
  res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

async function readBody(req) {
  const pieces = [];
  let size = 0;
  for await (const piece of req) {
    size += piece.length;
    if (size > BODY_MAX) throw new Error("the body is too large");
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

async function serveMcp(req, res) {
  const body = await readBody(req);
  const message = parsed(body);
  const headers = [];
  for (let n = 0; n < req.rawHeaders.length; n += 2) headers.push(req.rawHeaders.slice(n, n + 2));
  const isLegacy = await isLegacyRequest(await toWebRequest(req, message ?? body), message);
  world.remember(world.requests, { method: req.method, target: req.url, headers, body,
    era: isLegacy ? "legacy" : "modern", rpc: message?.method ?? null,
    tool: message?.params?.name ?? null });
  const tool = message?.method === "tools/call" ? TOOLS[message.params?.name] : undefined;
  const fault = tool && (world.takeFault(message.params.name) ??
    tool.fault?.(message.params.arguments ?? {}));
  if (["status", "cut", "drop"].includes(fault?.kind) && !resumes(fault, req, isLegacy)) {
    await breakAnswer(fault, req, res, message);
    return;
  }
  if (req.method === "GET" && req.headers["last-event-id"] && !world.settings.resume) {
    res.writeHead(503, { "content-type": "text/plain" }).end();
    return;
  }
  const session = isLegacy ? req.headers["mcp-session-id"] : undefined;
  const ofTask = !isLegacy || sessions.has(session)
    ? await tasks.answer(message, { isLegacy, session, authorization: req.headers.authorization })
    : undefined;
  if (ofTask) {
    if (ofTask.status) res.writeHead(ofTask.status, { "content-type": "text/plain" }).end();
    else answerJson(res, 200, { jsonrpc: "2.0", id: message.id, ...ofTask });
    return;
  }
  const serve = isLegacy ? legacy : modern[world.settings.answer];
  await calls.run({ fault }, () => serve(req, res, message ?? body));
}

async function serve(req, res) {
  const path = req.url.split("?")[0];
  if (path === "/mcp") {
    await serveMcp(req, res);
  } else if (path === "/counts") {
    answerJson(res, 200, { ...world.counts(), sessions: [...sessions.keys()] });
  } else if (path === "/requests") {
    answerJson(res, 200, world.requests);
  } else if (path === "/control") {
    const command = JSON.parse(await readBody(req));
    answerJson(res, 200, await world.control(command, { endSessions, toolsChanged, tasks }));
  } else {
    answerJson(res, 404, { error: `nothing is at ${path}` });
  }
}

const listener = http.createServer((req, res) => {
  serve(req, res).catch((error) => {
    if (res.headersSent) res.destroy();
    else answerJson(res, 500, { error: String(error) });
  });
});
listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
process.on("SIGTERM", () => process.exit(0));
process.stdin.resume().on("end", () => process.exit(0));
