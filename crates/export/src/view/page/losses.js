// When samples were lost: a list, of which each entry selects its time.
import { button, element } from "./dom.js";
import { counted, grouped, SIDES } from "./words.js";

/** Losses that overlap, as one. `records` is 0 where the kernel throttled the event and lost none. @typedef {{from: number, to: number, records: number, side: number}} Loss */

/** Losses that are listed. */
const MOST_LOSSES = 1000;

/** @param {import("./format.js").Meta} meta @returns {Loss[]} In the order of time. */
export function lossesOf({ gaps, length }) {
  /** @type {Loss[]} */
  const losses = [];
  for (const [from, to, records, side] of [...gaps].sort((one, other) => one[3] - other[3] || one[0] - other[0])) {
    const last = losses[losses.length - 1];
    if (last && last.side === side && from <= last.to) {
      last.to = Math.max(last.to, to);
      last.records += records;
    // A time that is selected has an end behind its beginning.
    } else losses.push({ from: Math.min(from, length - 1), to: Math.max(to, from + 1), records, side });
  }
  return losses;
}

/** Both ends in figures, at least to a tenth of a millisecond. @param {import("./words.js").Words} words @param {number} from @param {number} to */
export function when(words, from, to) {
  const step = Math.min((to - from) / 10, 100 / words.meta.unit);
  return `${words.time(from, step)} to ${words.time(to, step)}`;
}

export class Losses {
  /** @param {import("./format.js").Meta} meta @param {import("./words.js").Words} words @param {import("./lanes.js").Lanes} lanes */
  constructor(meta, words, lanes) {
    this.meta = meta;
    this.words = words;
    this.lanes = lanes;
    this.node = element("aside", { class: "float losses", "aria-label": "Losses", hidden: true });
    const { losses } = lanes;
    this.toggle = button("", "When samples were lost, as a list: a click selects the time", () => this.show(Boolean(this.node.hidden)));
    this.toggle.append(element("i", { class: "lost" }), losses.some(({ records }) => records) ? `lost samples: ${this.times(losses.length)}` : `throttled by the kernel: ${this.times(losses.length)}`);
    this.toggle.className = "lossy";
    this.toggle.hidden = !losses.length;
  }

  /** @param {number} count */
  times = count => count === 1 ? "once" : `${grouped(count)} times`;

  /** @param {Loss} loss */
  describe({ from, to, records }) {
    return `${when(this.words, from, to)} · ${records ? `${counted(records, "record", "records")} lost` : "throttled by the kernel"}`;
  }

  /** @param {boolean} isShown */
  show(isShown) {
    const { node, lanes: { losses }, meta, words } = this;
    node.hidden = !isShown;
    this.toggle.setAttribute("aria-expanded", String(isShown));
    if (!isShown) return this.toggle.focus();
    const listed = [...losses].sort((one, other) => other.records - one.records || one.from - other.from).slice(0, MOST_LOSSES);
    const records = losses.reduce((sum, { records }) => sum + records, 0), length = losses.reduce((sum, { from, to }) => sum + to - from, 0);
    node.replaceChildren(
      element("div", { class: "bar" }, element("b", {}, `Losses: ${this.times(losses.length)}`), element("span", { class: "grow" }), button("✕", "Close (Esc)", () => this.show(false), "plain")),
      element("p", { class: "muted" }, `${counted(records, "record", "records")} in ${words.length(length)}${losses.length > 1 ? `, the ${losses.length > MOST_LOSSES ? `${grouped(MOST_LOSSES)} largest` : "largest first"}` : ""}:`),
      element("ol", {}, ...listed.map(loss => element("li", {},
        element("button", { type: "button", title: "Selects this time", click: () => this.lanes.selectLoss(loss) }, `${meta.sides ? `${SIDES[loss.side]}: ` : ""}${this.describe(loss)}`)))));
    node.querySelector("li button")?.scrollIntoView({ block: "nearest" });
  }
}
