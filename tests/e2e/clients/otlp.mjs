// Judges exports of traces, a JSON array of bodies on stdin, by the definitions of the protocol
// (opentelemetry.proto.collector.trace.v1): prints what is wrong with each, null if nothing is.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const root = require("@opentelemetry/otlp-transformer/build/src/generated/root.js");
const Request = root.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
// The JSON of OTLP has ids in hex, where that of protobuf has base64.
const IDS = { traceId: 16, spanId: 8, parentSpanId: 8 };

function mapIds(value, change) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item) => mapIds(item, change));
  return Object.fromEntries(Object.entries(value).map(([name, item]) =>
    [name, Object.hasOwn(IDS, name) ? change(item, IDS[name]) : mapIds(item, change)]));
}

function fromHex(text, bytes) {
  assert.match(text, new RegExp(`^[0-9a-f]{${2 * bytes}}$`));
  return Buffer.from(text, "hex").toString("base64");
}

// The first place at which what was read is not what was given; lists are read even if not given.
function changed(given, read, at) {
  if (given === undefined && Array.isArray(read) && read.length === 0) return null;
  if (given === null || typeof given !== "object" || typeof read !== "object") {
    return given === read ? null : `${at}: ${JSON.stringify(given)}`;
  }
  for (const name of new Set([...Object.keys(given), ...Object.keys(read)])) {
    const found = changed(given[name], read[name], `${at}.${name}`);
    if (found !== null) return found;
  }
  return null;
}

function wrongIn(body) {
  try {
    const given = JSON.parse(body);
    const message = Request.fromObject(mapIds(given, fromHex));
    assert.strictEqual(Request.verify(message), null);
    // A member that the protocol does not have, or of another type, does not come back as it was.
    const read = Request.toObject(Request.decode(Request.encode(message).finish()),
      { longs: String, bytes: String, arrays: true });
    const ids = (text) => Buffer.from(text, "base64").toString("hex");
    return changed(given, mapIds(read, ids), "export");
  } catch (error) {
    return error.message;
  }
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(wrongIn)));
