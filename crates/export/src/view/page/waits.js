// What threads waited for, and who ended that.
import { button, element } from "./dom.js";
import { most } from "./ended.js";
import { counted, share } from "./words.js";

export class WaitsView {
  /** @param {import("./format.js").Meta} meta @param {import("./words.js").Words} words @param {import("./state.js").Store} store */
  constructor(meta, words, store) {
    this.meta = meta;
    this.words = words;
    this.store = store;
    this.node = element("div", { class: "source", tabindex: "0", role: "region", "aria-label": "Waits" });
  }

  /** @param {import("./ended.js").Endings|null} answer @param {number} event */
  show(answer, event) {
    const { meta, words, store } = this, { named } = store.state;
    const advice = "Try: sudo prof record --off-cpu -- COMMAND";
    if (!answer) {
      this.node.replaceChildren(element("p", { class: "empty" }, `This page has samples of the CPU alone. Try: prof view -o view.html ${meta.recording}`));
      return;
    }
    const { weight, waits, places, isOfNamed } = answer;
    if (!places.length) return this.node.replaceChildren(element("p", { class: "empty" }, "No thread of the selection was blocked."));
    const who = meta.wakers ? "Whoever ended a wait for a lock had held it." : `Who ended them was not recorded: that takes the right to record tracepoints. ${advice}`;
    const all = isOfNamed ? [` with ${words.fitted(named, 60)} on the stack `, button("All waits", "Waits of all functions", () => store.set({ named: -1 }))] : [];
    const heads = [["Blocked", "figure"], ["Share", "figure"], ["Waits", "figure"], ["For, in", ""], ...(meta.wakers ? [["Ended by, which meanwhile did", ""]] : [])];
    const rows = places.map(place => element("tr", {},
      element("td", { class: "amount" }, words.amount(place.weight, event)), element("td", { class: "amount" }, share(place.weight, weight)),
      element("td", { class: "amount" }, String(place.waits)), element("td", {}, ...this.place(place)),
      ...(meta.wakers ? [element("td", {}, ...place.enders.map(ender => element("div", {}, ...this.ender(ender, place.weight))))] : [])));
    this.node.replaceChildren(
      ...(meta.waiting?.lines.length ? [element("pre", { class: "muted" }, meta.waiting.lines.join("\n"))] : []),
      element("p", { class: "muted" }, `${words.amount(weight, event)} blocked in ${counted(waits, "wait", "waits")}`, ...all, `. ${who}`),
      element("table", { class: "waits" }, element("thead", {}, element("tr", {}, ...heads.map(([label, kind]) => element("th", { scope: "col", class: kind }, label)))), element("tbody", {}, ...rows)));
  }

  /** A function that can be pointed out. @param {number} named */
  name(named) {
    const { words, store } = this;
    return button(words.fitted(named, 46), words.functionName(named).slice(0, 2000), () => store.set({ named }, "named"), "plain code");
  }

  /** @param {import("./ended.js").Place} place */
  place({ state, own, call }) {
    const { words } = this;
    return [stateName(words, state), ...(own < 0 ? [] : [" in ", this.name(own)]), ...(call < 0 ? [] : [" → ", this.name(call)])];
  }

  /** Who ended waits, how much of them, and what it did meanwhile. @param {import("./ended.js").Ender} ender @param {number} all */
  ender({ waker, weight, waits, meanwhile }, all) {
    return [...wakerOf(this.meta, this.store, waker), ` · ${share(weight, all)}${waits ? ` in ${counted(waits, "wait", "waits")}` : ""}`, ...this.deeds(meanwhile)];
  }

  /** @param {import("./ended.js").Deed[]|null} meanwhile */
  deeds(meanwhile) {
    const { first, all } = most(meanwhile ?? []);
    return first.flatMap(({ state, own, weight }, at) => [at ? ", " : " · meanwhile ", `${share(weight, all)} ${state < 0 ? "running" : stateName(this.words, state)}`, ...(own < 0 ? [] : [" in ", this.name(own)])]);
  }
}

/** The state of a thread that was off the CPU. @param {import("./words.js").Words} words @param {number} state */
export const stateName = (words, state) => words.frameName(state).replace(/^\[(.*)\]$/, "$1");

/** Who ended a wait: a click selects its lane. @param {import("./format.js").Meta} meta @param {import("./state.js").Store} store @param {number} waker */
export function wakerOf(meta, store, waker) {
  const known = meta.wakers?.[waker - 1];
  if (!known) return ["not known"];
  const { thread, tid } = known, name = `${thread === null ? known.name : meta.threads[thread].name}${tid === null || thread === null ? "" : ` ${tid}`}`;
  return thread === null ? [name] : [button(name, "Selects its lane", () => store.set({ threads: [thread] }), "plain code")];
}
