// Elements are made here and nowhere else. Text becomes text nodes, so nothing that came from an
// agent, a backend or a policy can turn into markup.

const SVG = "http://www.w3.org/2000/svg";
// Set as properties, as their attributes only say how they begin.
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "indeterminate"]);

// Only places of this page. Whatever else was given becomes no link at all.
function isOwnPlace(url) {
  return /^(#|\/(?!\/))/.test(url);
}

function give(element, name, value) {
  if (value === undefined || value === null || value === false) {
    if (PROPERTIES.has(name)) element[name] = false;
    return;
  }
  if (typeof value === "function") {
    if (!name.startsWith("on")) throw new Error(`${name} takes no function`);
    element.addEventListener(name.slice(2), value);
    return;
  }
  if (/^(on|style$|srcdoc$)/.test(name)) throw new Error(`${name} is no attribute for a value`);
  if (/^(href|src|action|formaction)$/.test(name) && !isOwnPlace(String(value))) return;
  if (PROPERTIES.has(name)) {
    element[name] = value;
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) give(element, name, value);
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

// h("p", { class: "note", onclick: f }, "text", otherElement)
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

export function replace(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

const ICONS = {
  activity: "M3 12h4l3-8 4 16 3-8h4",
  approvals: "M4 13v5a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2v-5M4 13l2.5-8h11L20 13M4 13h5a3 3 0 0 0 6 0h5",
  parked: "M8 21h8M12 3a9 9 0 0 0-5.5 16.1h11A9 9 0 0 0 12 3ZM10 9v5M14 9v5",
  stopped: "M7 5v14M17 5v14",
  duplicates: "M9 9h11v11H9zM5 15H4V4h11v1",
  policy: "M12 3 5 6v5c0 4.6 2.9 8 7 10 4.1-2 7-5.4 7-10V6zM9 12l2 2 4-4",
  check: "M5 12.5 10 17 19 7",
  cross: "M6 6l12 12M18 6 6 18",
  clock: "M12 7v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Z",
  unknown: "M9.2 9a2.9 2.9 0 1 1 4.3 2.6c-1 .6-1.5 1.1-1.5 2.2M12 17.5v.1",
  undo: "M4 10h10a5 5 0 0 1 0 10h-4M8 6l-4 4 4 4",
  hand: "M8 12V6a1.5 1.5 0 0 1 3 0v5V4.5a1.5 1.5 0 0 1 3 0V11 6a1.5 1.5 0 0 1 3 0v8a6 6 0 0 1-6 6" +
    "c-2.5 0-4-1-5.2-3L4 13.5a1.5 1.5 0 0 1 2.5-1.6L8 14",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4" +
    "M17.6 17.6 19 19M19 5l-1.4 1.4M6.4 17.6 5 19",
  keys: "M3 7h18v10H3zM7 11h.1M11 11h.1M15 11h.1M8 14h8",
  leave: "M14 4h5v16h-5M10 8l-4 4 4 4M6 12h10",
  back: "M15 5l-7 7 7 7",
  next: "M9 5l7 7-7 7",
  up: "M12 19V5M6 11l6-6 6 6",
  flow: "M6 4v10a4 4 0 0 0 4 4h8M14 14l4 4-4 4M6 4h.1",
};

export function icon(name, props) {
  return s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", ...props },
    s("path", { d: ICONS[name] }));
}

let numbers = 0;
export function newId(prefix) {
  numbers += 1;
  return `${prefix}-${numbers}`;
}

// Says something to those who do not see the screen.
export function tell(text) {
  document.getElementById("news").textContent = text;
}

export function toast(text, tone = "good") {
  const box = h("p", { class: `toast ${tone}`, role: tone === "bad" ? "alert" : "status" }, text);
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), tone === "bad" ? 9000 : 5000);
}
