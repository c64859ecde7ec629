// Lines of the function that is pointed out, with the samples that were taken on them.
import { element } from "./dom.js";
import { counted, share } from "./words.js";

/** Lines shown around one that was sampled. */
const NEAR = 8;

/** @typedef {{all: number, lines: {line: number, samples: number, weight: number}[]}} LinesOfFunction */

export class SourceView {
  /** @param {import("./format.js").Meta} meta @param {import("./words.js").Words} words */
  constructor(meta, words) {
    this.meta = meta;
    this.words = words;
    this.node = element("div", { class: "source", tabindex: "0", role: "region", "aria-label": "Source" });
    /** By file: text of lines by their numbers. @type {Map<number, Map<number, string>>} */
    this.texts = new Map();
    for (const [file, first, lines] of meta.texts ?? []) {
      const known = this.texts.get(file) ?? new Map();
      lines.forEach((text, at) => known.set(first + at, text));
      this.texts.set(file, known);
    }
  }

  /** @param {string} text */
  explain(text) {
    this.node.replaceChildren(element("p", { class: "empty" }, text));
  }

  /** @param {number} named @param {number} event @param {LinesOfFunction} answer */
  show(named, event, { all, lines }) {
    const { meta, words } = this, known = meta.lines;
    const name = words.functionName(named).slice(0, 400);
    if (!known || !all) return this.explain(`No sample of the selection was taken in ${name} itself; its callees have lines of their own.`);
    if (!lines.length) return this.explain(`${name} has no line information: it was built without debug information (-g), or that is not installed.`);
    /** @type {Map<number, Map<number, {samples: number, weight: number}>>} */
    const files = new Map();
    for (const { line, samples, weight } of lines) {
      const file = known.file[line], own = files.get(file) ?? new Map();
      own.set(known.line[line], { samples, weight });
      files.set(file, own);
    }
    const most = Math.max(...lines.map(({ weight }) => weight));
    const weigh = (/** @type {Map<number, {weight: number}>} */ own) => [...own.values()].reduce((sum, { weight }) => sum + weight, 0);
    const sorted = [...files].sort(([, one], [, other]) => weigh(other) - weigh(one));
    const head = element("p", { class: "muted" }, `${words.amount(all, event)} in ${name} itself, by the line that ran`);
    this.node.replaceChildren(head, ...sorted.slice(0, 50).map(([file, own]) => this.table(file, own, event, all, most)));
  }

  /**
   * @param {number} file @param {Map<number, {samples: number, weight: number}>} own @param {number} event @param {number} all
   * @param {number} most
   */
  table(file, own, event, all, most) {
    const { meta, words } = this, text = this.texts.get(file);
    const rows = [], path = meta.sources?.[file] ?? "";
    let before = -1;
    const numbers = new Set();
    for (const line of own.keys()) {
      numbers.add(line);
      if (text) for (let near = line - NEAR; near <= line + NEAR; near++) if (text.has(near)) numbers.add(near);
    }
    for (const line of [...numbers].sort((one, other) => one - other).slice(0, 5000)) {
      if (before >= 0 && line !== before + 1) rows.push(element("tr", { class: "jump" }, element("td", { colspan: "4" }, "⋯")));
      before = line;
      const figures = own.get(line);
      const row = element("tr", { class: figures ? "hot" : "" },
        element("td", { class: "amount", title: figures ? counted(figures.samples, "sample", "samples") : "" }, figures ? words.cell(figures.weight, event) : ""),
        element("td", { class: "amount" }, figures ? share(figures.weight, all) : ""),
        element("td", { class: "number" }, String(line)), element("td", {}, element("code", {}, text?.get(line) ?? "")));
      if (figures) row.style.setProperty("--part", (figures.weight / most).toFixed(3));
      rows.push(row);
    }
    const missing = text ? "" : " (its text was not found when the page was written; --source-dir says where it lies)";
    const head = element("tr", {}, ...[words.unit(event), "Share", "Line", "Source"].map((label, at) => element("th", { scope: "col", class: at < 3 ? "figure" : "" }, label)));
    return element("table", {}, element("caption", {}, element("b", {}, path), ` ${counted(own.size, "line", "lines")} with samples${missing}`),
      element("thead", {}, head), element("tbody", {}, ...rows));
  }
}
