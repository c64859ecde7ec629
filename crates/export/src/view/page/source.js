// Lines of the function that is pointed out, with the samples that were taken on them.
import { element } from "./dom.js";
import { counted, share } from "./words.js";

/** Lines shown around one that was sampled. */
const NEAR = 8;

/** Lines of a file with samples, and the text of those that the page has. @typedef {{text: Map<number, string>|undefined, lines: Map<number, {samples: number, weight: number}>}} SampledFile */
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
    const { meta, words } = this, known = meta.lines, name = words.functionName(named).slice(0, 400);
    if (!known || !all) return this.explain(`No sample of the selection was taken in ${name} itself; its callees have lines of their own.`);
    if (!lines.length) return this.explain(`${name} has no line information: it was built without debug information (-g), or that is not installed.`);
    /** @type {Map<string, SampledFile>} */
    const files = new Map();
    for (const { line, samples, weight } of lines) {
      const file = known.file[line], path = meta.sources?.[file] ?? "";
      const own = files.get(path) ?? { text: this.texts.get(file), lines: new Map() };
      own.lines.set(known.line[line], { samples, weight });
      files.set(path, own);
    }
    this.list(`${words.amount(all, event)} in ${name} itself, by the line that ran`, files, event, all);
  }

  /** Shows the lines of instructions, where these are in the page and lines are not. @param {number} named @param {number} event @param {{all: number, instructions: import("./assembly.js").Hit[]}} answer */
  showOfInstructions(named, event, { all, instructions }) {
    const { meta: { code }, words } = this, name = words.functionName(named).slice(0, 400);
    if (!code) return this.explain(this.advice("No source is in this page."));
    if (!all) return this.explain(`No sample of the selection was taken in ${name} itself; its callees have lines of their own.`);
    /** @type {Map<string, SampledFile>} */
    const files = new Map();
    let shown = 0;
    for (const { instruction, samples, weight } of instructions) {
      const [label, text] = code?.labels[(code.places[instruction] || 0) - 1] ?? ["", ""], [, path, number] = /^(.*?):(\d+)(?: \(inlined .*\))?$/.exec(label) ?? [];
      if (path === undefined) continue;
      const file = files.get(path) ?? { text: new Map(), lines: new Map() }, line = Number(number), before = file.lines.get(line) ?? { samples: 0, weight: 0 };
      file.lines.set(line, { samples: before.samples + samples, weight: before.weight + weight });
      if (text) file.text?.set(line, text);
      files.set(path, file);
      shown += weight;
    }
    if (!shown) return this.explain(this.advice(`The source of ${name} is not in this page: it is not among the hottest small functions, or has no debug information (-g) here.`));
    this.list(`${words.amount(shown, event)} of ${words.amount(all, event)} in the code of ${name}, by the line that ran. All lines with what is around them: ${this.command}`, files, event, all);
  }

  /** What to type for a page with all source. */
  get command() {
    return `prof view --with-source -o view.html ${this.meta.recording}`;
  }
  /** @param {string} why */
  advice(why) {
    return `${why} Try: ${this.command}`;
  }

  /** @param {string} head @param {Map<string, SampledFile>} files @param {number} event @param {number} all */
  list(head, files, event, all) {
    const weigh = (/** @type {SampledFile} */ { lines }) => [...lines.values()].reduce((sum, { weight }) => sum + weight, 0);
    const most = Math.max(...[...files.values()].flatMap(({ lines }) => [...lines.values()].map(({ weight }) => weight)));
    const sorted = [...files].sort(([, one], [, other]) => weigh(other) - weigh(one));
    this.node.replaceChildren(element("p", { class: "muted" }, head), ...sorted.slice(0, 50).map(([path, file]) => this.table(path, file, event, all, most)));
  }

  /** @param {string} path @param {SampledFile} file @param {number} event @param {number} all @param {number} most */
  table(path, { text, lines: own }, event, all, most) {
    const { words } = this, rows = [];
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
    const missing = text?.size ? "" : " (its text was not found when the page was written; --source-dir says where it lies)";
    const head = element("tr", {}, ...[words.unit(event), "Share", "Line", "Source"].map((label, at) => element("th", { scope: "col", class: at < 3 ? "figure" : "" }, label)));
    return element("table", {}, element("caption", {}, element("b", {}, path), ` ${counted(own.size, "line", "lines")} with samples${missing}`),
      element("thead", {}, head), element("tbody", {}, ...rows));
  }
}
