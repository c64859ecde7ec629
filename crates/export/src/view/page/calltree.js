// A call tree as rows that open: from the roots, or from where samples were taken.
import { element, soon } from "./dom.js";
import { List, paintShare } from "./list.js";
import { counted, share } from "./words.js";

export class CallTree {
  /**
   * @param {string} label @param {string} view What the engine calls it.
   * @param {import("./words.js").Words} words @param {import("./colours.js").Colours} colours
   * @param {import("./state.js").Store} store @param {() => void} ask @param {(named: number) => void} open
   */
  constructor(label, view, words, colours, store, ask, open) {
    this.view = view;
    this.words = words;
    this.colours = colours;
    this.store = store;
    this.ask = ask;
    /** @type {import("./layout.js").Rows|null} */
    this.rows = null;
    this.weight = 0;
    /** @type {Set<string>} */
    this.open = new Set();
    /** @type {Set<string>} */
    this.closed = new Set();
    /** @type {Uint8Array|null} */
    this.found = null;
    this.list = new List(label, "treegrid", {
      fill: (row, cells, line) => this.fill(row, cells, line),
      chosen: row => {
        const frame = this.rows?.frame[row] ?? -1;
        if (frame >= 0) store.set({ named: words.functionAt(frame) }, "named");
      },
      opened: row => this.toggle(row),
      sort: () => {},
      key: (event, row) => this.key(event, row),
    });
    this.openSandwich = open;
  }

  /** @param {import("./layout.js").Rows} rows @param {number} weight @param {Uint8Array|null} found */
  show(rows, weight, found) {
    this.rows = rows;
    this.weight = weight;
    this.found = found;
    const unit = this.words.meta.sides ? this.words.unit(this.store.state.event) : "share";
    if (this.words.comparison) this.list.setColumns([
      { key: "before", label: unit === "ms" ? "Before, ms" : "Before", title: "Total before", kind: "amount", sortable: false },
      { key: "after", label: unit === "ms" ? "After, ms" : "After", title: "Total after", kind: "amount", sortable: false },
      { key: "change", label: "Difference", title: "After less before, beyond what changed everywhere", kind: "amount change", sortable: false },
      { key: "name", label: "Function", title: "", kind: "name tree", sortable: false },
      { key: "module", label: "Module", title: "", kind: "module", sortable: false },
    ], "");
    else this.list.setColumns([
      { key: "total", label: "Total", title: "Share of the selection", kind: "share", sortable: false },
      { key: "amount", label: this.words.unit(this.store.state.event), title: "", kind: "amount", sortable: false },
      { key: "self", label: "Self", title: "Share of the selection in the function itself", kind: "amount", sortable: false },
      { key: "name", label: "Function", title: "", kind: "name tree", sortable: false },
      { key: "module", label: "Module", title: "", kind: "module", sortable: false },
    ], "");
    this.list.setCount(rows.frame.length);
  }

  /** Frames from the first row's level to a row, as the engine writes them. @param {number} row */
  path(row) {
    const { rows } = this, path = [];
    if (!rows) return "";
    for (let at = row, depth = rows.depth[row]; at >= 0; at--) {
      if (rows.depth[at] !== depth) continue;
      path.push(rows.frame[at]);
      depth--;
    }
    return path.reverse().join(".");
  }

  /** @param {number} row */
  toggle(row) {
    const { rows } = this;
    if (!rows || rows.leaf[row]) return;
    const path = this.path(row);
    if (rows.open[row]) {
      this.closed.add(path);
      this.open.delete(path);
    } else {
      this.open.add(path);
      this.closed.delete(path);
    }
    this.list.row = row;
    this.ask();
  }

  /** @param {KeyboardEvent} event @param {number} row */
  key(event, row) {
    const { rows } = this;
    if (!rows) return;
    if (event.key === "ArrowRight") {
      if (!rows.open[row] && !rows.leaf[row]) this.toggle(row);
      else if (rows.open[row]) this.goTo(row + 1);
    } else if (event.key === "ArrowLeft") {
      if (rows.open[row]) this.toggle(row);
      else for (let at = row; at >= 0; at--) if (rows.depth[at] < rows.depth[row]) {
        this.goTo(at);
        break;
      }
    } else if (event.key === "*") {
      // Opens the hottest way below a row, as far as one child has most of it.
      const path = this.path(row);
      for (let at = row; at < rows.frame.length && (at === row || rows.depth[at] > rows.depth[row]); at++) this.open.add(this.path(at));
      this.open.add(path);
      this.ask();
    } else return;
    event.preventDefault();
  }

  /** @param {number} row */
  goTo(row) {
    this.list.row = row;
    this.list.reveal(row);
    this.list.events.chosen(row);
    soon(this.list.refresh);
  }

  /** @param {number} row @param {HTMLElement[]} cells @param {HTMLElement} line */
  fill(row, cells, line) {
    const { rows, words, weight, found } = this, { event, named } = this.store.state;
    if (!rows) return;
    const frame = rows.frame[row], name = cells[3];
    line.setAttribute("aria-level", String(rows.depth[row] + 1));
    if (rows.leaf[row]) line.removeAttribute("aria-expanded");
    else line.setAttribute("aria-expanded", String(rows.open[row]));
    const isLeftOut = frame === -1;
    const id = isLeftOut ? -1 : words.functionAt(frame);
    line.classList.toggle("named", id >= 0 && id === named);
    line.classList.toggle("match", Boolean(found && id >= 0 && found[id]));
    const { comparison: sides, meta } = words, [before, after] = event || !meta.sides ? [rows.other[row], rows.total[row]] : [rows.total[row], rows.other[row]], change = words.change(before, after);
    // Times of one recording differ in their lengths: shares can be compared.
    const cell = (/** @type {number} */ amount) => meta.sides ? words.cell(amount, event) : share(amount, weight);
    const texts = isLeftOut ? ["", "", "", "", ""]
      : sides ? [cell(before * (meta.sides ? 1 : sides.factor)), cell(after), `${change < 0 ? "−" : "+"}${cell(Math.abs(change))}`, "", words.moduleOf(id)]
      : [share(rows.total[row], weight), words.cell(rows.total[row], event), rows.self[row] ? share(rows.self[row], weight) : "", "", words.moduleOf(id)];
    texts.forEach((text, at) => { if (at !== 3 && cells[at].textContent !== text) cells[at].textContent = text; });
    if (sides) {
      cells[2].classList.toggle("shrank", change < 0);
      paintShare(cells[2], weight && !isLeftOut ? Math.min(Math.abs(change) / weight, 1) : 0);
    } else paintShare(cells[0], weight ? isLeftOut ? 0 : rows.total[row] / weight : 0);
    const kind = words.kindName(frame);
    const title = isLeftOut ? "" : words.frameName(frame).slice(0, 2000);
    const room = Math.max(this.list.room - 5 - Math.ceil(rows.depth[row] * 1.6) - kind.length, 24);
    const label = isLeftOut ? `${counted(rows.total[row], "more is", "more are")} not listed` : words.fitted(id, room);
    name.style.setProperty("--depth", String(Math.min(rows.depth[row], 60)));
    const chip = element("i", { class: "chip" });
    if (!isLeftOut) chip.style.background = sides ? this.colours.ofChange(before, after, weight, sides) : this.colours.of(frame);
    name.replaceChildren(
      element("span", { class: rows.leaf[row] ? "twist leaf" : "twist", "aria-hidden": "true" }, rows.leaf[row] ? "" : rows.open[row] ? "▾" : "▸"),
      chip, element("span", { title }, label), ...(kind ? [element("small", {}, kind)] : []));
  }
}
