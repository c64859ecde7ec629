// Instructions of the function that is pointed out, with the samples that were taken at them.
import { element } from "./dom.js";
import { counted, share } from "./words.js";

/** Instructions shown around one that was sampled. */
const CLOSE = 6;
/** Rows of a piece of a function. */
const MOST_ROWS = 5000;

/** @typedef {{instruction: number, samples: number, weight: number}} Hit */

export class AssemblyView {
  /** @param {import("./format.js").Meta} meta @param {import("./words.js").Words} words */
  constructor(meta, words) {
    this.code = meta.code;
    this.recording = meta.recording;
    this.words = words;
    this.node = element("div", { class: "source", tabindex: "0", role: "region", "aria-label": "Assembly" });
    /** First instruction of each range, and the end. */
    this.firsts = [0];
    for (const { count } of meta.code?.ranges ?? []) this.firsts.push(this.firsts[this.firsts.length - 1] + count);
  }

  /** @param {string} text */
  explain(text) {
    this.node.replaceChildren(element("p", { class: "empty" }, text));
  }

  /** @param {number} named @param {number} event @param {{all: number, instructions: Hit[]}} answer */
  show(named, event, { all, instructions }) {
    const { code, words, firsts } = this;
    const name = words.functionName(named).slice(0, 400);
    if (!code || !all) return this.explain(`No sample of the selection was taken in ${name} itself; what it calls has code of its own.`);
    if (!instructions.length) return this.explain(`The code of ${name} is not in this page: it is not among the hottest, lies in no file (the kernel, generated code), or was not found. Try: prof view --with-source -o view.html ${this.recording}`);
    const most = Math.max(...instructions.map(({ weight }) => weight));
    /** @type {{range: number, weight: number, hits: Map<number, Hit>}[]} */
    const pieces = [];
    for (const hit of instructions) {
      const range = firsts.findLastIndex(first => first <= hit.instruction);
      let piece = pieces.find(piece => piece.range === range);
      if (!piece) pieces.push(piece = { range, weight: 0, hits: new Map() });
      piece.weight += hit.weight;
      piece.hits.set(hit.instruction, hit);
    }
    pieces.sort((one, other) => other.weight - one.weight);
    const placed = pieces.reduce((sum, { weight }) => sum + weight, 0);
    const elsewhere = placed < all ? `; ${share(all - placed, all)} of it at no instruction of this page` : "";
    const head = element("p", { class: "muted" }, `${words.amount(all, event)} in the code of ${name}, by instruction${elsewhere}`);
    this.node.replaceChildren(head, ...pieces.slice(0, 50).map(({ range, hits }) => this.table(range, named, hits, event, all, most)));
  }

  /**
   * @param {number} range @param {number} named @param {Map<number, Hit>} hits @param {number} event @param {number} all
   * @param {number} most
   */
  table(range, named, hits, event, all, most) {
    const { words, firsts } = this, code = /** @type {import("./format.js").Code} */ (this.code);
    const info = code.ranges[range], first = firsts[range], end = firsts[range + 1];
    const wanted = new Uint8Array(info.count);
    for (const at of hits.keys()) wanted.fill(1, Math.max(at - first - CLOSE, 0), Math.min(at - first + CLOSE + 1, info.count));
    const targets = new Set();
    for (let at = first; at < end; at++) if (code.jumps[at]) targets.add(at + code.jumps[at]);
    const rows = [];
    let address = BigInt(`0x${info.start}`), skipped = 0, place = 0;
    const skip = () => {
      if (skipped) rows.push(element("tr", { class: "jump" }, element("td", { colspan: "5" }, `⋯ ${counted(skipped, "instruction", "instructions")} without samples`)));
      skipped = 0;
    };
    for (let at = first; at < end && rows.length < MOST_ROWS; address += BigInt(code.lengths[at]), at++) {
      if (!wanted[at - first]) {
        skipped++;
        place = 0;
        continue;
      }
      skip();
      if (code.places[at] && code.places[at] !== place) {
        place = code.places[at];
        const [label, text] = code.labels[place - 1];
        rows.push(element("tr", { class: "place" }, element("td", { colspan: "4" }), element("td", {}, element("span", { title: label }, label.length > 90 ? `…${label.slice(-89)}` : label), element("code", {}, text))));
      }
      const hit = hits.get(at), jump = code.jumps[at] < 0 ? "↑" : code.jumps[at] > 0 ? "↓" : "";
      const row = element("tr", { class: hit ? "hot" : "" },
        element("td", { class: "amount", title: hit ? counted(hit.samples, "sample", "samples") : "" }, hit ? words.cell(hit.weight, event) : ""),
        element("td", { class: "amount" }, hit ? share(hit.weight, all) : ""),
        element("td", { class: "number", title: jump ? "jumps within the function" : targets.has(at) ? "is jumped to" : "" }, `${jump}${targets.has(at) ? "→" : ""}`),
        element("td", { class: "number" }, element("code", {}, address.toString(16))), element("td", {}, element("code", {}, code.texts[at])));
      if (hit) row.style.setProperty("--part", (hit.weight / most).toFixed(3));
      rows.push(row);
    }
    skip();
    const heads = [[words.unit(event), "figure"], ["Share", "figure"], ["", ""], ["Address", "figure"], ["Instruction", ""]];
    const into = info.function === named ? "" : "inlined into ";
    return element("table", {}, element("caption", {}, into, element("b", {}, info.name), ` in ${info.module}, ${counted(hits.size, "instruction", "instructions")} with samples${info.missing ? ` (${info.missing})` : ""}`),
      element("thead", {}, element("tr", {}, ...heads.map(([label, kind]) => element("th", { scope: "col", class: kind }, label)))), element("tbody", {}, ...rows));
  }
}
