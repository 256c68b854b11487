// Calls of the admin API with the session's cookie. The page itself holds no credential.

import { ledgerOf, placeFrom } from "/ui/ids.js";

let session = null;
let chosen = "";  // ledger of a console that is looked at; "": all
const watchers = new Set();

export class ApiError extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }
}

export function currentSession() {
  return session;
}

// What `id` names may be of a ledger where the operator has other roles.
export function can(role, id = "") {
  const ledger = session?.ledgers?.find((one) => one.name === ledgerOf(id));
  return (ledger ?? session)?.roles?.includes(role) ?? false;
}

// The ledgers of a console; undefined: this page is of one.
export function ledgers() {
  return session?.ledgers;
}
export function chosenLedger() {
  return chosen;
}
export function chooseLedger(name) {
  chosen = name;
}

// An id names its ledger by itself.
function ofLedger(path) {
  if (!chosen || path === "/session" || /[/=][a-z][a-z0-9-]*(:|%3A)\d/i.test(path)) return path;
  return `${path}${path.includes("?") ? "&" : "?"}ledger=${chosen}`;
}

// Called with the session, or null when there is none any more.
export function onSession(watcher) {
  watchers.add(watcher);
}

function setSession(next) {
  session = next;
  for (const watcher of watchers) watcher(session);
}

async function problemOf(answer) {
  const text = await answer.text();
  try {
    const { title, detail } = JSON.parse(text);
    return new ApiError(answer.status, title ?? `Status ${answer.status}`, detail ?? "");
  } catch {
    return new ApiError(answer.status, `Status ${answer.status}`, text.slice(0, 500));
  }
}

async function send(method, path, { body, headers } = {}) {
  const fields = { Accept: "application/json", ...headers };
  if (body !== undefined) fields["Content-Type"] = "application/json";
  if (method !== "GET" && session?.csrf) fields["X-Recourse-CSRF"] = session.csrf;
  let answer;
  try {
    answer = await fetch(ofLedger(path), {
      method,
      headers: fields,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
    });
  } catch {
    throw new ApiError(0, "No answer", "Recourse did not answer. Is the process running, and " +
      "the port forwarded?");
  }
  return answer;
}

// The JSON of a 2xx; anything else is an ApiError. A session that is over is told to everybody.
export async function call(method, path, body) {
  const answer = await send(method, path, { body });
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = await problemOf(answer);
  if (answer.status === 401 && session) setSession(null);
  throw problem;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);

// One JSON value per line.
export async function getLines(path) {
  const answer = await send("GET", path);
  if (!answer.ok) throw await problemOf(answer);
  return (await answer.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// Parameters that are set, as a query.
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined &&
    value !== null && value !== "");
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

// Looks for a session that is there already; null: somebody has to log in.
export async function resume() {
  const answer = await send("GET", "/session");
  if (answer.status === 401) return null;
  if (!answer.ok) throw await problemOf(answer);
  setSession(await answer.json());
  return session;
}

export async function logIn(token) {
  const answer = await send("POST", "/session", { headers: { Authorization: `Bearer ${token}` } });
  if (!answer.ok) throw await problemOf(answer);
  setSession(await answer.json());
}

export async function logOut() {
  try {
    await call("DELETE", "/session");
  } finally {
    setSession(null);
  }
}

const WINDOW = 20000;  // rows of the log that one request may cost

// The events that `filter` names, oldest first, from row `from` on, until `isEnough(events)` or the
// log's end. Where the log is one stream, one window of rows is asked for after the other.
export async function eventsFrom(from, filter, isEnough) {
  const events = [];
  const read = async (after, upTo) => {
    const page = await get(`/events${query({ ...filter, after, up_to: upTo, limit: 1000 })}`);
    events.push(...page.events);
    return page.next;
  };
  if (typeof from === "string") {
    for (let after = placeFrom(from, -1); after !== null;) after = await read(after);
    return events;
  }
  const { last_id: last } = await get("/ledger");
  for (let after = Math.max(0, from - 1); after < last;) {
    const upTo = Math.min(last, after + WINDOW);
    const next = await read(after, upTo);
    if (next === null && isEnough(events)) break;
    after = next ?? upTo;
  }
  return events;
}
