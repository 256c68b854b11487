// A list of any length with a bounded number of elements: rows of one height, of which only those
// in view, and some around them, exist.

import { h, replace } from "/ui/dom.js";
import { idFrom } from "/ui/ids.js";

const AROUND = 8;

// Rows are objects with an `id`; `render(row)` gives the cells of one, `open(row)` follows it. That
// there are none is for the page to say: it shows `empty` once it knows.
export class VirtualList {
  constructor({ label, height, render, open, onEnd, empty }) {
    this.heightOf = height;
    this.render = render;
    this.open = open;
    this.onEnd = onEnd;
    this.rows = [];
    this.shown = new Map();  // id -> { element, row, at }
    this.selected = null;    // id
    this.spacer = h("div", { class: "rows" });
    this.empty = h("div", { class: "list-empty", hidden: true }, empty);
    this.element = h("div", { class: "list", role: "grid", tabindex: "0", "aria-label": label,
      "aria-rowcount": "0", onkeydown: (event) => this.onKey(event) }, this.spacer);
    // A grid has rows alone.
    this.frame = h("div", { class: "list-box" }, this.element, this.empty);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("click", (event) => this.onClick(event));
    this.observer = new ResizeObserver(() => this.draw(true));
    this.observer.observe(this.element);
  }

  get height() {
    return this.heightOf();
  }

  isAtTop() {
    return this.element.scrollTop < this.height / 2;
  }

  // What the reader looks at stays where it is, whatever comes above it.
  set(rows) {
    const height = this.height;
    const before = this.element.scrollTop;
    if (!this.isAtTop() && this.rows.length > 0) {
      const first = this.rows[Math.min(this.rows.length - 1, Math.floor(before / height))];
      const at = rows.findIndex((row) => row.id === first.id);
      this.rows = rows;
      this.resize();
      if (at >= 0) this.element.scrollTop = at * height + (before % height);
    } else {
      this.rows = rows;
      this.resize();
    }
    this.draw();
  }

  resize() {
    this.spacer.style.height = `${this.rows.length * this.height}px`;
    this.element.setAttribute("aria-rowcount", String(this.rows.length));
  }

  draw(again = false) {
    const height = this.height;
    if (again) this.resize();
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / height) - AROUND);
    const last = Math.min(this.rows.length,
      Math.ceil((top + this.element.clientHeight) / height) + AROUND);
    const wanted = new Set();
    for (let at = first; at < last; at += 1) wanted.add(this.rows[at].id);
    for (const [id, one] of this.shown) {
      if (wanted.has(id)) continue;
      one.element.remove();
      this.shown.delete(id);
    }
    for (let at = first; at < last; at += 1) this.place(this.rows[at], at, height);
    if (this.onEnd && last >= this.rows.length - AROUND) this.onEnd();
  }

  place(row, at, height) {
    let one = this.shown.get(row.id);
    if (one && one.row !== row) {
      replace(one.element, this.render(row));
      one.row = row;
    }
    if (!one) {
      const element = h("div", { class: "row", role: "row", id: `row-${row.id}` },
        this.render(row));
      element.dataset.id = row.id;
      this.spacer.append(element);
      one = { element, row, at: -1 };
      this.shown.set(row.id, one);
    }
    if (one.at !== at || one.height !== height) {
      one.element.style.transform = `translateY(${at * height}px)`;
      one.element.setAttribute("aria-rowindex", String(at + 1));
      one.at = at;
      one.height = height;
    }
    one.element.classList.toggle("selected", row.id === this.selected);
  }

  select(id) {
    this.selected = id;
    const at = this.rows.findIndex((row) => row.id === id);
    if (at < 0) return;
    this.element.setAttribute("aria-activedescendant", `row-${id}`);
    const height = this.height;
    const top = at * height;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    const bottom = top + height - this.element.clientHeight;
    if (bottom > this.element.scrollTop) this.element.scrollTop = bottom;
    this.draw();
  }

  move(by) {
    if (this.rows.length === 0) return;
    const at = this.rows.findIndex((row) => row.id === this.selected);
    const next = at < 0 ? 0 : Math.min(this.rows.length - 1, Math.max(0, at + by));
    this.select(this.rows[next].id);
  }

  openSelected() {
    const row = this.rows.find((one) => one.id === this.selected);
    if (row) this.open(row);
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
      Home: -this.rows.length, End: this.rows.length };
    if (event.key in steps) {
      event.preventDefault();
      this.move(steps[event.key]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.openSelected();
    }
  }

  onClick(event) {
    const element = event.target.closest(".row");
    if (!element || event.target.closest("a, button") || window.getSelection()?.toString()) return;
    const row = this.shown.get(idFrom(element.dataset.id))?.row;
    if (row) this.open(row);
  }

  close() {
    this.observer.disconnect();
  }
}
