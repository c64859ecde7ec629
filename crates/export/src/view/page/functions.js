// The table of functions.
import { soon } from "./dom.js";
import { List, paintShare } from "./list.js";
import { grouped, share } from "./words.js";

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
    this.wide = false;
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

  columns() {
    const { words, wide, others } = this, { event } = this.store.state;
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
    const { table, totals, words, sorted } = this;
    this.stale = !this.list.node.isConnected;
    if (this.stale) return;
    this.list.setColumns(this.columns(), sorted);
    if (!table || !totals) return;
    let order = table.functions;
    const { found } = totals;
    if (found) order = order.filter(id => found[id]);
    else order = order.slice();
    if (sorted === "name") {
      const names = new Map([...order].map(id => [id, words.functionName(id)]));
      order.sort((one, other) => (names.get(one) ?? "") < (names.get(other) ?? "") ? -1 : 1);
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
    texts.forEach((text, at) => { if (cells[at].textContent !== text) cells[at].textContent = text; });
    paintShare(cells[0], all ? table.self[id] / all : 0);
    paintShare(cells[1], all ? table.total[id] / all : 0);
    const name = cells[texts.length - (wide ? 2 : 1)];
    const title = words.functionName(id).slice(0, 2000);
    if (name.title !== title) name.title = title;
  }
}
