// Text that somebody else wrote, shown so that a reader sees what is really there: characters that
// have no shape, turn the direction of writing or steer a terminal become labelled marks.

import { h } from "/ui/dom.js";

const NAMES = new Map([
  [0x00, "NUL"], [0x07, "BEL"], [0x08, "BS"], [0x0b, "VT"], [0x0c, "FF"], [0x1b, "ESC"],
  [0x7f, "DEL"], [0x85, "NEL"], [0xa0, "NBSP"], [0xad, "SHY"], [0x061c, "ALM"], [0x115f, "HCF"],
  [0x1160, "HJF"], [0x180e, "MVS"], [0x200b, "ZWSP"], [0x200c, "ZWNJ"], [0x200d, "ZWJ"],
  [0x200e, "LRM"], [0x200f, "RLM"], [0x2028, "LSEP"], [0x2029, "PSEP"], [0x202a, "LRE"],
  [0x202b, "RLE"], [0x202c, "PDF"], [0x202d, "LRO"], [0x202e, "RLO"], [0x2060, "WJ"],
  [0x2066, "LRI"], [0x2067, "RLI"], [0x2068, "FSI"], [0x2069, "PDI"], [0x3164, "HF"],
  [0xfeff, "BOM"], [0xffa0, "HHF"], [0xfffd, "U+FFFD"],
]);
const HIDDEN = new RegExp(
  "[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}\\u00a0" +
  "\\u2000-\\u200a\\u202f\\u205f\\u2800\\u3000\\ufffd\\p{Default_Ignorable_Code_Point}]",
  "gu");

function markOf(character) {
  const code = character.codePointAt(0);
  const number = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  const name = NAMES.get(code) ?? number;
  return h("span", { class: "mark", title: `${number}: a character without a shape of its own` },
    name);
}

// Pieces for an element: text nodes and marks. Line breaks and tabs stay when `lines` says so.
export function pieces(text, lines = false) {
  const out = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (lines && /[\n\t]/.test(found[0])) continue;
    if (found.index > from) out.push(text.slice(from, found.index));
    out.push(markOf(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) out.push(text.slice(from));
  return out;
}

// A word or a line within our own text.
export function foreign(text, props) {
  return h("bdi", { dir: "ltr", ...props }, pieces(String(text ?? "")));
}

export function marksIn(text) {
  return [...text.matchAll(HIDDEN)].filter((found) => !/[\n\r\t]/.test(found[0])).length;
}

// For a box to write in, which can hold text alone: what is hidden becomes ⟦RLO⟧, and so do these
// brackets themselves, so that each text has its own form and comes back from it.
const CODES = new Map([...NAMES].map(([code, name]) => [name, code]));
const LEFT = "\u27e6";
const RIGHT = "\u27e7";
const BRACKETS = new RegExp(`[${LEFT}${RIGHT}]`, "g");

const markText = (character) => {
  const code = character.codePointAt(0);
  const number = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return `${LEFT}${NAMES.get(code) ?? number}${RIGHT}`;
};
const markHidden = (text) => text.replace(HIDDEN, (found) =>
  (/[\n\t]/.test(found) ? found : markText(found)));

export function toEdit(text) {
  return markHidden(text.replace(BRACKETS, markText));
}

// null: a mark was broken.
export function fromEdit(text) {
  let isBroken = false;
  const out = text.replace(new RegExp(`${LEFT}([^${LEFT}${RIGHT}]*)${RIGHT}|${LEFT}|${RIGHT}`, "g"),
    (_, name) => {
      const code = CODES.get(name) ??
        (/^U\+[0-9A-F]{4,6}$/.test(name ?? "") ? parseInt(name.slice(2), 16) : NaN);
      if (code <= 0x10ffff) return String.fromCodePoint(code);
      isBroken = true;
      return "";
    });
  return isBroken ? null : out;
}

// What is hidden and comes in by typing or pasting is marked at once.
export function markWhileEditing(box) {
  box.addEventListener("input", () => {
    const marked = markHidden(box.value);
    if (marked === box.value) return;
    const before = markHidden(box.value.slice(0, box.selectionEnd)).length;
    box.value = marked;
    box.setSelectionRange(before, before);
  });
}

export function bytesOf(text) {
  return new TextEncoder().encode(text).length;
}

export function sizeText(bytes) {
  if (bytes < 1024) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

// The tokens of a JSON text as they stand there; null: it is no JSON.
function tokensOf(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return text.match(TOKENS) ?? [];
}

// JSON without spaces between its tokens. null: it is no JSON.
export function compact(text) {
  return tokensOf(text)?.join("") ?? null;
}

// JSON with line breaks and indents added between its tokens. The tokens stay as they are, so that
// a number or a name is never shown otherwise than it is sent. null: it is no JSON.
export function spaced(text) {
  const tokens = tokensOf(text);
  if (tokens === null) return null;
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, index) => {
    const next = tokens[index + 1];
    if (token === "{" || token === "[") {
      depth += 1;
      out += token + (next === "}" || next === "]" ? "" : line());
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const isEmpty = tokens[index - 1] === "{" || tokens[index - 1] === "[";
      out += (isEmpty ? "" : line()) + token;
    } else if (token === ",") {
      out += token + line();
    } else {
      out += token === ":" ? ": " : token;
    }
  });
  return out;
}

const CHUNK = 20000;

// A block with the whole text, its size, and what is hidden in it. A very long text is added as the
// reader scrolls; nothing is left out.
export function block(text, { label = "Text", spacedOut = true } = {}) {
  const json = spacedOut ? spaced(text) : null;
  const shown = json ?? text;
  const marks = marksIn(text);
  const body = h("pre", { class: "foreign", dir: "ltr", tabindex: "0", "aria-label": label });
  let at = 0;
  const more = () => {
    while (at < shown.length && body.scrollTop + body.clientHeight + 600 >= body.scrollHeight) {
      body.append(...pieces(shown.slice(at, at + CHUNK), true));
      at += CHUNK;
      if (!body.isConnected) break;
    }
  };
  more();
  body.addEventListener("scroll", more, { passive: true });
  const facts = [sizeText(bytesOf(text))];
  if (json !== null) facts.push("JSON, spaced out for reading");
  if (marks > 0) facts.push(`${marks} hidden ${marks === 1 ? "character" : "characters"} marked`);
  if (shown.length > CHUNK) facts.push("scroll to read all of it");
  return h("figure", { class: "block" },
    h("figcaption", { class: marks > 0 ? "warned" : "" }, h("b", {}, label), " · ",
      facts.join(" · ")),
    body);
}
