// A table of any length, of which only the rows in view are elements.
import { element, soon } from "./dom.js";

export const LINE = 22;

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {string} title
 * @property {string} kind Class of its cells.
 * @property {boolean} sortable
 */

/** Paints a share behind its figure; not what nobody would see. @param {HTMLElement} cell @param {number} part */
export function paintShare(cell, part) {
  cell.style.setProperty("--part", part < 0.01 ? "0" : part.toFixed(4));
}

export class List {
  /**
   * @param {string} label @param {string} role
   * @param {{fill: (row: number, cells: HTMLElement[], line: HTMLElement) => void, chosen: (row: number) => void, opened: (row: number) => void,
   *   sort: (key: string) => void, key: (event: KeyboardEvent, row: number) => void}} events
   */
  constructor(label, role, events) {
    this.events = events;
    /** @type {Column[]} */
    this.columns = [];
    this.count = 0;
    this.row = -1;
    /** Letters of a name that there is room for. */
    this.room = 40;
    /** @type {{line: HTMLElement, cells: HTMLElement[]}[]} */
    this.lines = [];
    this.head = element("div", { class: "head", role: "row" });
    this.spacer = element("div", { class: "spacer", role: "presentation" });
    this.scroller = element("div", { class: "rows", tabindex: "0", role: "rowgroup" }, this.spacer);
    this.node = element("div", { class: "list", role, "aria-label": label }, element("div", { role: "rowgroup" }, this.head), this.scroller);
    this.refresh = () => this.draw();
    this.scroller.addEventListener("scroll", () => soon(this.refresh));
    this.scroller.addEventListener("keydown", event => this.key(event));
    this.scroller.addEventListener("click", event => {
      const line = event.target instanceof Element ? event.target.closest("[data-row]") : null;
      if (!(line instanceof HTMLElement)) return;
      const row = Number(line.dataset.row);
      this.row = row;
      if (event.target instanceof Element && event.target.closest(".twist")) this.events.opened(row);
      else this.events.chosen(row);
      soon(this.refresh);
    });
    this.scroller.addEventListener("dblclick", event => {
      const line = event.target instanceof Element ? event.target.closest("[data-row]") : null;
      if (line instanceof HTMLElement && !(event.target instanceof Element && event.target.closest(".twist"))) this.events.opened(Number(line.dataset.row));
    });
    new ResizeObserver(() => soon(this.refresh)).observe(this.scroller);
  }

  /** @param {Column[]} columns @param {string} sorted */
  setColumns(columns, sorted) {
    const same = JSON.stringify(columns) === JSON.stringify(this.columns);
    this.columns = columns;
    if (!same) {
      this.head.replaceChildren(...columns.map(column => {
        const cell = element("div", { role: "columnheader", class: column.kind, title: column.title });
        cell.append(column.sortable
          ? element("button", { type: "button", click: () => this.events.sort(column.key) }, column.label) : column.label);
        return cell;
      }));
      this.spacer.replaceChildren();
      this.lines = [];
    }
    columns.forEach((column, at) => {
      if (!column.sortable) return;
      const cell = this.head.children[at];
      cell.setAttribute("aria-sort", column.key === sorted ? (column.key === "name" ? "ascending" : "descending") : "none");
    });
  }

  /** @param {number} count */
  setCount(count) {
    this.count = count;
    if (this.row >= count) this.row = count - 1;
    this.spacer.style.height = `${Math.max(count * LINE, 1)}px`;
    this.node.setAttribute("aria-rowcount", String(count + 1));
    this.draw();
  }

  draw() {
    const { scroller, spacer, lines } = this;
    this.room = Math.floor(((this.head.querySelector(".name")?.clientWidth ?? 300) - 20) / 7.25);
    const first = Math.max(0, Math.floor(scroller.scrollTop / LINE));
    const last = Math.min(this.count, Math.ceil((scroller.scrollTop + scroller.clientHeight) / LINE));
    const wanted = Math.max(0, last - first);
    while (lines.length < wanted) {
      const cells = this.columns.map(column => element("div", { class: column.kind, role: "gridcell" }));
      const line = element("div", { class: "line", role: "row" }, ...cells);
      lines.push({ line, cells });
      spacer.append(line);
    }
    lines.forEach(({ line, cells }, at) => {
      const row = first + at;
      line.hidden = row >= last;
      if (line.hidden) return;
      line.dataset.row = String(row);
      line.setAttribute("aria-rowindex", String(row + 2));
      line.style.transform = `translateY(${row * LINE}px)`;
      line.classList.toggle("odd", row % 2 === 1);
      line.classList.toggle("at", row === this.row);
      this.events.fill(row, cells, line);
    });
  }

  /** @param {number} row */
  reveal(row) {
    const { scroller } = this;
    if (row * LINE < scroller.scrollTop) scroller.scrollTop = row * LINE;
    else if ((row + 1) * LINE > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (row + 1) * LINE - scroller.clientHeight;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / LINE) - 1);
    const steps = /** @type {Record<string, number>} */ ({ ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity });
    if (event.key in steps) {
      this.row = Math.max(0, Math.min(this.count - 1, this.row + steps[event.key]));
      this.reveal(this.row);
      if (this.count) this.events.chosen(this.row);
      this.draw();
      event.preventDefault();
    } else if (event.key === "Enter" && this.row >= 0) {
      this.events.opened(this.row);
      event.preventDefault();
    } else if (this.row >= 0) this.events.key(event, this.row);
  }
}
