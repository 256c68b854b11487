// News of the ledger, as the server tells them. A tab that nobody sees gives its place back.

import { currentSession, get, getLines, ledgers, query } from "/ui/api.js";

const HIDDEN_FOR = 20_000;
const RETRY_MOST = 15_000;
const LOOK_EVERY = 1_500;  // at a console

let source = null;
let last = null;  // place up to which everything was told
let state = "off";
let retry = 0;
let timer = 0;
const listeners = new Set();

function tell(news) {
  for (const listener of [...listeners]) listener(news);
}

// What else there is to tell: news of a test.
export function inject(news) {
  tell(news);
}

function become(next) {
  if (state === next) return;
  state = next;
  tell({ kind: "state", state });
}

export function streamState() {
  return state;
}

// `listener` gets {kind: "event", event}, {kind: "flow", event} when a flow moved, {kind: "gap"}
// when it has to ask anew, and {kind: "state", state}.
// Gives a function that ends it.
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// An EventSource does not tell why it was refused; this does, and ends a session that is over.
async function tryAgain() {
  await get("/session").catch(() => {});
  if (currentSession()) open();
}

// A console has no stream: it is asked for what came since, in all of its ledgers.
async function look() {
  const mine = source;
  let wait = LOOK_EVERY;
  try {
    const isFirst = last === null;
    const rows = await getLines(`/events${query({ flows: "true", follow: last ?? "now",
      limit: 1000 })}`);
    if (source !== mine) return;
    const tail = rows.pop();
    last = tail.next ?? last;
    become("live");
    if (isFirst || tail.gap) tell({ kind: "gap" });
    for (const event of rows) tell({ kind: event.kind === "flow" ? "flow" : "event", event });
    tell({ kind: "ledgers", ledgers: tail.ledgers });
    if (tail.more) wait = 0;
  } catch {
    if (source !== mine) return;
    become("waiting");
    wait = RETRY_MOST / 3;
    await get("/session").catch(() => {});
  }
  if (source === mine) timer = setTimeout(look, wait);
}

function open() {
  clearTimeout(timer);
  if (source) return;
  become("connecting");
  if (ledgers()) {
    source = { close() {} };
    look();
    return;
  }
  source = new EventSource(last === null ? "/stream"
    : `/stream?after=${encodeURIComponent(last)}`);
  source.addEventListener("hello", (message) => {
    const hello = JSON.parse(message.data);
    // What a page asked for before may have changed until now.
    const missed = last === null || hello.gap;
    last = hello.last;
    retry = 0;
    become("live");
    if (missed) tell({ kind: "gap" });
  });
  source.addEventListener("event", (message) => {
    last = message.lastEventId;
    const event = JSON.parse(message.data);
    tell({ kind: event.kind === "flow" ? "flow" : "event", event });
  });
  source.addEventListener("error", () => {
    become("connecting");
    if (source?.readyState !== EventSource.CLOSED) return;  // it tries again by itself
    close();
    retry = Math.min(RETRY_MOST, Math.max(1000, retry * 2));
    become("waiting");
    timer = setTimeout(tryAgain, retry);
  });
}

function close() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

export function start() {
  open();
}

export function stop() {
  close();
  last = null;
  become("off");
}

document.addEventListener("visibilitychange", () => {
  if (state === "off") return;
  clearTimeout(timer);
  if (document.hidden) {
    timer = setTimeout(() => {
      close();
      become("paused");
    }, HIDDEN_FOR);
  } else if (!source) {
    open();
  }
});
