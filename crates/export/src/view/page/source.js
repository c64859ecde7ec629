// Lines of a function with their samples, where the page carries them.
import { element } from "./dom.js";
import { grouped, share } from "./words.js";

export class SourceView {
  /** @param {import("./format.js").Meta} meta @param {import("./words.js").Words} words */
  constructor(meta, words) {
    this.meta = meta;
    this.words = words;
    this.named = -2;
    this.node = element("div", { class: "source", tabindex: "0", role: "region", "aria-label": "Source" });
  }

  /** @param {number} named */
  show(named) {
    if (named === this.named) return;
    this.named = named;
    const found = (this.meta.source ?? []).filter(source => source.function === named);
    if (!found.length) {
      this.node.replaceChildren(element("p", { class: "empty" }, named < 0 ? "Choose a function." : "The page does not carry the source of this function."));
      return;
    }
    this.node.replaceChildren(...found.map(source => {
      const sum = source.samples.reduce((sum, samples) => sum + samples, 0);
      const most = Math.max(...source.samples, 1);
      const rows = source.text.map((text, at) => {
        const samples = source.samples[at];
        const row = element("tr", { class: samples ? "hot" : "" },
          element("td", { class: "amount" }, samples ? grouped(samples) : ""), element("td", { class: "amount" }, samples ? share(samples, sum) : ""),
          element("td", { class: "number" }, String(source.lines[at])), element("td", {}, element("code", {}, text)));
        row.style.setProperty("--part", String(samples / most));
        return row;
      });
      const head = element("tr", {}, ...["Samples", "Share", "Line", "Source"].map(label => element("th", { scope: "col" }, label)));
      return element("table", {}, element("caption", {}, this.meta.sources?.[source.file] ?? ""), element("thead", {}, head), element("tbody", {}, ...rows));
    }));
  }
}
