// The table of functions.
import { soon } from "./dom.js";
import { List, paintShare } from "./list.js";
import { grouped, share } from "./words.js";

/** What a function of a comparison is sorted by: values by what was before and after. @type {Record<string, (figures: Figures) => number>} */
const ORDERS = {
  before: ({ self: [before] }) => before, after: ({ self: [, after] }) => after, change: ({ change }) => Math.abs(change),
  factor: ({ self: [before, after] }) => before ? after / before : after ? Number.MAX_VALUE : 0,
  "total-before": ({ total: [before] }) => before, "total-after": ({ total: [, after] }) => after, "total-change": ({ totalChange }) => Math.abs(totalChange),
};
/** Figures of a function on both sides. @typedef {{self: number[], total: number[], change: number, totalChange: number}} Figures */

/** Width from which on a comparison has all its columns. */
export const WIDE_SIDES = 1080;
/** Width of the columns of one event, and of further ones: the name keeps what is left. */
const WIDE = 890, EVENT = 130;

export class FunctionTable {
  /**
   * @param {import("./words.js").Words} words @param {import("./state.js").Store} store
   * @param {(named: number) => void} open
   */
  constructor(words, store, open) {
    this.words = words;
    this.store = store;
    /** @type {import("./engine.js").Table|null} */
    this.table = null;
    /** @type {import("./engine.js").Totals|null} */
    this.totals = null;
    /** @type {Int32Array} */
    this.order = new Int32Array();
    this.sorted = "self";
    /** What is said of functions of the whole recordings: the interval of the factor, and what became of them. @type {Map<number, [string, string]>} */
    this.changes = new Map((words.meta.sides?.changes ?? []).map(([id, low, high, verdict]) =>
      [id, [low === null || high === null ? "" : `× ${low.toFixed(2)} to ${high.toFixed(2)}`, verdict]]));
    this.wide = false;
    /** The greatest changes of functions themselves and with what they call, which fill their cells. */
    this.greatest = [0, 0];
    /** Whether the rows are those of an earlier selection, because nobody saw them change. */
    this.stale = true;
    this.list = new List("Functions", "grid", {
      fill: (row, cells, line) => this.fill(row, cells, line),
      chosen: row => store.set({ named: this.order[row] }, "named"),
      opened: row => open(this.order[row]),
      sort: key => {
        this.sorted = key;
        this.sort();
      },
      key: () => {},
    });
  }

  /** @param {import("./engine.js").Totals} totals @param {import("./engine.js").Table|null} table `null`: the same as before. */
  show(totals, table) {
    this.totals = totals;
    this.table = table ?? this.table;
    this.sort();
  }

  /** @param {boolean} wide */
  setWide(wide) {
    if (this.wide === wide) return;
    this.wide = wide;
    this.sort();
  }

  /** Further events that there is room for; the list of events shows all, one at a time. */
  get others() {
    return this.table?.others.slice(0, Math.max(0, Math.floor((this.list.node.clientWidth - WIDE) / EVENT))) ?? [];
  }

  /** What a function has on both sides of a comparison. @param {number} id @returns {Figures} */
  figures(id) {
    const sides = this.table?.sides ?? [], [self, total] = [sides.map(({ self }) => self[id]), sides.map(({ total }) => total[id])];
    return { self, total, change: this.words.change(self[0], self[1]), totalChange: this.words.change(total[0], total[1]) };
  }

  /** Columns of a comparison. */
  columnsOfSides() {
    const { words, wide } = this, { sides } = words.meta, unit = sides ? words.unit(this.store.state.event) : "share of its time", inUnit = unit === "ms" ? ", ms" : "";
    /** @param {string} key @param {string} label @param {string} title @param {string} [kind] @returns {import("./list.js").Column} */
    const column = (key, label, title, kind = "amount") => ({ key, label, title, kind, sortable: key in ORDERS || key === "name" });
    return [
      column("before", sides ? `Before${inUnit}` : "Self before", `In the function itself, before: ${unit}`), column("after", sides ? `After${inUnit}` : "Self after", `In the function itself, after: ${unit}`),
      column("change", sides ? "Difference" : "Points", sides ? "After less before, beyond what changed everywhere" : "After less before, in points of per cent"),
      ...(wide ? [column("factor", "Factor", "By what it changed, beyond what changed everywhere"), ...(sides ? [column("interval", "Interval", "In which the factor lies at 95 %, as far as samples tell: of the whole recordings, relative to everything else", "event"),
        column("verdict", "", "What became of it: of the whole recordings")] : []), column("total-before", "Total before", "With what it calls"), column("total-after", "Total after", "With what it calls"),
        column("total-change", "Difference", "Of the totals, after less before")] : []),
      column("name", "Function", "", "name"), ...(wide ? [column("module", "Module", "The file it lies in", "module")] : []),
    ];
  }

  columns() {
    const { words, wide, others } = this, { event } = this.store.state;
    if (words.comparison) return this.columnsOfSides();
    const unit = words.unit(event);
    /** @type {import("./list.js").Column[]} */
    const columns = [
      { key: "self", label: "Self", title: "Share of the selection in the function itself", kind: "share", sortable: true },
      { key: "total", label: "Total", title: "Share of the selection in the function and what it calls", kind: "share", sortable: true },
    ];
    if (wide) {
      columns.push(
        { key: "self-amount", label: `Self, ${unit}`, title: "In the function itself", kind: "amount", sortable: false },
        { key: "total-amount", label: `Total, ${unit}`, title: "In the function and what it calls", kind: "amount", sortable: false },
        { key: "samples", label: "Samples", title: "Samples that have the function in their stack", kind: "amount", sortable: true },
        { key: "all", label: "Of all", title: "Total, as a share of the whole recording", kind: "amount", sortable: false },
      );
      for (const { event } of others) {
        const { name } = words.meta.events[event];
        columns.push({ key: `event${event}`, label: name, title: `Share of ${name} in the function itself, and in total`, kind: "event", sortable: true });
      }
    }
    columns.push({ key: "name", label: "Function", title: "", kind: "name", sortable: true });
    if (wide) columns.push({ key: "module", label: "Module", title: "The file it lies in", kind: "module", sortable: false });
    return columns;
  }

  sort() {
    const { table, totals, words } = this, columns = this.columns();
    // What is compared has other columns.
    if (!columns.some(({ key }) => key === this.sorted)) this.sorted = words.comparison ? "change" : "self";
    const { sorted } = this;
    this.stale = !this.list.node.isConnected;
    if (this.stale) return;
    this.list.setColumns(columns, sorted);
    if (!table || !totals) return;
    let order = table.functions;
    const { found } = totals;
    if (found) order = order.filter(id => found[id]);
    else order = order.slice();
    if (sorted === "name") {
      const names = new Map([...order].map(id => [id, words.functionName(id)]));
      order.sort((one, other) => (names.get(one) ?? "") < (names.get(other) ?? "") ? -1 : 1);
    } else if (table.sides) {
      const figures = [...order].map(id => this.figures(id)), greatest = (/** @type {number[]} */ changes) => changes.reduce((most, change) => Math.max(most, Math.abs(change)), 0);
      this.greatest = [greatest(figures.map(({ change }) => change)), greatest(figures.map(({ totalChange }) => totalChange))];
      const values = new Map([...order].map((id, at) => [id, ORDERS[sorted](figures[at])]));
      order.sort((one, other) => (values.get(other) ?? 0) - (values.get(one) ?? 0) || one - other);
    } else if (sorted !== "self") {
      // By self they come.
      const other = sorted.startsWith("event") ? table.others.find(({ event }) => `event${event}` === sorted)?.self : null;
      const values = other ?? (sorted === "total" ? table.total : table.samples);
      order.sort((one, other) => values[other] - values[one] || table.total[other] - table.total[one] || one - other);
    }
    this.order = order;
    this.list.row = order.indexOf(this.store.state.named);
    this.list.setCount(order.length);
  }

  pointOut() {
    if (this.stale) this.sort();
    this.list.row = this.order.indexOf(this.store.state.named);
    soon(this.list.refresh);
  }

  /** @param {number} row @param {HTMLElement[]} cells @param {HTMLElement} line */
  fill(row, cells, line) {
    const { table, totals, words, wide } = this, { event, named } = this.store.state;
    if (!table || !totals) return;
    const id = this.order[row], all = totals.weight;
    line.classList.toggle("named", id === named);
    line.setAttribute("aria-selected", String(id === named));
    if (table.sides) return this.fillSides(id, cells);
    const texts = [share(table.self[id], all), share(table.total[id], all)];
    const others = this.list.columns.filter(({ kind }) => kind === "event").map(({ key }) => key);
    if (wide) {
      texts.push(words.cell(table.self[id], event), words.cell(table.total[id], event), grouped(table.samples[id]), share(table.total[id], totals.all));
      for (const other of table.others) {
        if (others.includes(`event${other.event}`)) texts.push(`${share(other.self[id], other.all)} / ${share(other.total[id], other.all)}`);
      }
    }
    texts.push(words.fitted(id, Math.max(this.list.room, 12)));
    if (wide) texts.push(words.moduleOf(id));
    this.write(id, texts, cells);
    paintShare(cells[0], all ? table.self[id] / all : 0);
    paintShare(cells[1], all ? table.total[id] / all : 0);
  }

  /** @param {number} id @param {string[]} texts @param {HTMLElement[]} cells */
  write(id, texts, cells) {
    texts.forEach((text, at) => { if (cells[at].textContent !== text) cells[at].textContent = text; });
    const name = cells[texts.length - (this.wide ? 2 : 1)], title = this.words.functionName(id).slice(0, 2000);
    if (name.title !== title) name.title = title;
  }

  /** A row of a comparison. @param {number} id @param {HTMLElement[]} cells */
  fillSides(id, cells) {
    const { words, wide, totals } = this, { state } = this.store, { event } = state;
    const { self, total, change, totalChange } = this.figures(id), { sides } = words.meta;
    // Times of one recording differ in their lengths: shares can be compared.
    const all = [totals?.other?.weight ?? 0, totals?.weight ?? 0];
    const cell = (/** @type {number} */ weight, /** @type {number} */ side) => sides ? words.cell(weight, event) : share(weight, all[side]);
    const signed = (/** @type {number} */ change) => `${change < 0 ? "−" : "+"}${cell(Math.abs(change), 1).replace(" %", "")}`;
    // What is known of the whole recordings says nothing of a part.
    const isWhole = !state.time && !state.timeBefore && !state.threads && !state.steps.length;
    const [interval, verdict] = isWhole ? this.changes.get(id) ?? ["", ""] : ["", ""];
    const texts = [cell(self[0], 0), cell(self[1], 1), signed(change),
      ...(wide ? [words.factor(self[0] * (words.comparison?.factor ?? 1), self[1]), ...(sides ? [interval, verdict] : []), cell(total[0], 0), cell(total[1], 1), signed(totalChange)] : []),
      words.fitted(id, Math.max(this.list.room, 12)), ...(wide ? [words.moduleOf(id)] : [])];
    this.write(id, texts, cells);
    for (const at of wide ? [2, sides ? 8 : 6] : [2]) {
      const part = at === 2 ? change : totalChange, greatest = this.greatest[at === 2 ? 0 : 1];
      cells[at].classList.add("change");
      cells[at].classList.toggle("shrank", part < 0);
      paintShare(cells[at], greatest ? Math.abs(part) / greatest : 0);
    }
  }
}
