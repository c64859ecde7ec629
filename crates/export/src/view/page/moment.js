// The stack at a moment: pointed at in a lane, pinned by a click, gone through from sample to sample.
import { button, element } from "./dom.js";
import { counted, share } from "./words.js";
import { most } from "./ended.js";
import { stateName, wakerOf } from "./waits.js";

/** Frames of a stack that a tooltip has. */
const FEW_FRAMES = 9;

/** Who ended it, as a number of `meta.wakers` from 1, and what it did meanwhile. @typedef {{runnable: boolean, from: number, to: number, waker: number, meanwhile: import("./ended.js").Deed[]|null}} Wait */
/** @typedef {{sample: number, event: number, thread: number, cpu: number, time: number, weight: number, count: number, frames: number[], wait: Wait|null}} Stack Frames come innermost first. */

export class Moment {
  /**
   * @param {import("./format.js").Meta} meta @param {import("./words.js").Words} words @param {import("./colours.js").Colours} colours
   * @param {import("./state.js").Store} store @param {import("./client.js").Client} client @param {import("./lanes.js").Lanes} lanes
   * @param {{fail: (error: Error) => void, say: (text: string) => void, changed: () => void}} page
   */
  constructor(meta, words, colours, store, client, lanes, page) {
    this.meta = meta;
    this.words = words;
    this.colours = colours;
    this.store = store;
    this.client = client;
    this.lanes = lanes;
    this.page = page;
    /** What is pinned. @type {Stack|null} */
    this.shown = null;
    this.node = element("aside", { class: "float moment", "aria-label": "Stack at the moment that is pinned", hidden: true });
  }

  /** What is asked about a lane; all of them where none is meant. @param {number} row */
  request(row) {
    const { state } = this.store, lane = this.lanes.lanes[row];
    const { threads, cpus, steps } = state, event = this.lanes.sideOf(row);
    return { selection: { event, time: null, threads, cpus, steps }, members: lane?.members ?? null, byCpu: state.lanes === "cpus" };
  }

  /** @param {number} row @param {number} time */
  pinAt(row, time) {
    this.client.latest("pin", "moment", { ...this.request(row), time, sample: -1, by: 0 }, stack => this.pin(stack), this.page.fail);
  }

  /** Goes to the sample before or after the one that is pinned. @param {number} row Lane whose samples are gone through. @param {number} by @param {number} mark Where to begin; -1: in the middle. */
  step(row, by, mark) {
    const { shown, lanes } = this, [from, to] = lanes.window;
    if (!shown) return this.pinAt(row, mark < 0 ? (from + to) / 2 : mark);
    const own = lanes.lanes[row]?.members.includes(this.store.state.lanes === "cpus" ? shown.cpu : shown.thread) ? row : lanes.rowOf(shown.thread, shown.cpu);
    this.client.latest("pin", "moment", { ...this.request(own), time: shown.time, sample: shown.sample, by }, stack => this.pin(stack), this.page.fail);
  }

  /** @param {Stack|null} stack */
  pin(stack) {
    if (!stack) return this.page.say("There is no further sample.");
    this.store.set({ pin: stack.sample }, "pin");
    const [from, to] = this.lanes.window;
    if (stack.time < from || stack.time > to) this.lanes.show(stack.time - (to - from) / 2, stack.time + (to - from) / 2);
  }

  /** The stack at a time of a lane, in lines. @param {number} row @param {number} time @param {(lines: string[]) => void} then */
  peek(row, time, then) {
    this.client.latest("peek", "moment", { ...this.request(row), time, sample: -1, by: 0 }, stack => then(this.lines(stack, time)), this.page.fail);
  }

  /** @param {Stack|null} stack @param {number} time */
  lines(stack, time) {
    if (!stack) return [];
    const { words, meta } = this, { wait } = stack;
    const state = wait ? [this.waited(wait), ...this.deeds(wait)] : [];
    const away = Math.abs(stack.time - time) * meta.unit;
    const where = away > 20_000 ? `the nearest sample is ${words.length(Math.abs(stack.time - time))} ${stack.time > time ? "later" : "earlier"}:` : "";
    const frames = stack.frames.slice(0, FEW_FRAMES).map(frame => words.fitted(words.functionAt(frame), 70));
    const more = stack.frames.length - frames.length;
    return [...state, ...(where ? [where] : []), ...frames, ...(more > 0 ? [`… and ${more} callers; a click pins the stack`] : [])];
  }

  /** @param {Wait} wait */
  waited({ runnable, from, to, waker }) {
    const who = waker ? `, until ${wakerOf(this.meta, this.store, waker).map(part => typeof part === "string" ? part : part.textContent).join("")} woke it` : "";
    return `${runnable ? "runnable" : "blocked"} for ${this.words.length(to - from)}${who}`;
  }

  /** What the waker did meanwhile. @param {Wait} wait */
  deeds({ meanwhile }) {
    const { words } = this, { first, all } = most(meanwhile ?? []);
    const named = first.map(({ state, own, weight }) => `${share(weight, all)} ${state < 0 ? "running" : stateName(words, state)}${own < 0 ? "" : ` in ${words.fitted(own, 46)}`}`);
    return first.length ? [`which meanwhile did: ${named.join(", ")}`] : [];
  }

  /** Shows what is pinned. */
  update() {
    const { store: { state }, client } = this;
    if (state.pin < 0) {
      this.shown = null;
      this.node.hidden = true;
      this.page.changed();
      return;
    }
    client.latest("pinned", "moment", { ...this.request(-1), time: 0, sample: state.pin, by: 0 }, stack => {
      this.shown = this.store.state.pin === state.pin ? stack : this.shown;
      this.draw();
      this.page.changed();
    }, this.page.fail);
  }

  /** What is known of a wait, with who ended it. @param {Wait|null} wait */
  facts(wait) {
    if (!wait) return [];
    const { meta, store } = this, length = this.words.length(wait.to - wait.from);
    const hint = meta.wakers ? "" : ". Who woke it was not recorded; try: sudo prof record --off-cpu -- COMMAND";
    const who = wait.waker ? [", until ", ...wakerOf(meta, store, wait.waker), " woke it"] : [wait.runnable ? "" : hint];
    return [element("p", {}, `${wait.runnable ? "runnable" : "blocked"} for ${length}`, ...who, ...this.deeds(wait).map(text => `, ${text}`))];
  }

  draw() {
    const { shown, words, meta, store, colours, node } = this;
    node.hidden = !shown;
    if (!shown) return;
    const at = words.time(shown.time, 100 / meta.unit);
    const step = (/** @type {number} */ by) => this.step(this.lanes.rowOf(shown.thread, shown.cpu), by, -1);
    const facts = [at, words.threadName(shown.thread), ...(meta.events[shown.event].cpus ? [`CPU ${shown.cpu}`] : [])];
    const { weighted, name: event } = meta.events[shown.event];
    const about = [...(shown.count > 1 ? [counted(shown.count, "sample", "samples")] : []), weighted ? `${words.amount(shown.weight, shown.event)} of ${event}` : event];
    const frames = shown.frames.map(frame => {
      const id = words.functionAt(frame), chip = element("i", { class: "chip" });
      chip.style.background = colours.of(frame);
      const made = element("button", { type: "button", title: words.frameName(frame).slice(0, 2000), click: () => store.set({ named: id }, "named") }, chip, words.fitted(id, 46));
      made.setAttribute("aria-pressed", String(id === store.state.named));
      return element("li", {}, made);
    });
    const focused = document.activeElement instanceof HTMLElement && node.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    node.replaceChildren(
      element("div", { class: "bar" }, element("b", {}, facts.join(" · ")), element("span", { class: "grow" }),
        button("◂", "Sample before (←, in the lanes)", () => step(-1), "plain"), button("▸", "Sample after (→, in the lanes)", () => step(1), "plain"),
        button("✕", "Unpin (Esc)", () => store.set({ pin: -1 }), "plain")),
      element("p", { class: "muted" }, about.join(" · ")), ...this.facts(shown.wait), element("ol", {}, ...frames));
    if (focused) [...node.querySelectorAll("button")].find(made => made.getAttribute("aria-label") === focused)?.focus();
    this.page.say(`${facts.join(", ")}: ${shown.frames.length ? words.frameName(shown.frames[0]) : ""}`);
  }
}
