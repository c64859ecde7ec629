// What the reader sees, as one value: it can be undone, and stands in the address of the page.

/**
 * @typedef {object} State
 * @property {number} event
 * @property {[number, number]|null} time What is selected: from, to (not included), in units. In a comparison: after the change.
 * @property {[number, number]|null} timeBefore In a comparison of recordings: what is selected before the change; else the time that the selected one is compared with.
 * @property {number[]|null} threads
 * @property {number[]|null} cpus
 * @property {import("./tree.js").Step[]} steps
 * @property {string} search
 * @property {number} named The function that is pointed out; -1 for none.
 * @property {string} view
 * @property {number[]} zoom Frames from the root on.
 * @property {string} lanes "threads", "cpus" or "heat".
 * @property {[number, number]|null} window The time that lanes show; `null` for all.
 * @property {number} thread Whose samples are shown in order; -1 for all, one below the other.
 * @property {"time"|"name"|"start"} sort The order of lanes.
 * @property {string} find What the names of lanes have.
 * @property {number[]|null} hidden Threads without a lane.
 * @property {number} pin The sample whose stack is shown, by its number in the columns; -1 for none.
 */

const ALWAYS = ["flame", "tree", "inverted", "sandwich", "functions"];
/** The views that the page has data for. @param {import("./format.js").Meta} meta */
export const viewsOf = ({ timed, code, lines, waits }) => [...ALWAYS, ...(timed ? ["order"] : []), ...(code || lines ? ["source"] : []), ...(code ? ["assembly"] : []), ...(waits ? ["waits"] : [])];

/** @returns {State} */
export const initial = () => ({
  event: 0, time: null, timeBefore: null, threads: null, cpus: null, steps: [], search: "", named: -1,
  view: "flame", zoom: [], lanes: "threads", window: null, thread: -1, sort: "time", find: "", hidden: null, pin: -1,
});

/** @param {State} state */
export function toFragment(state) {
  const parts = new URLSearchParams(), start = initial();
  for (const key of /** @type {(keyof State)[]} */ (Object.keys(start))) {
    const value = state[key];
    if (JSON.stringify(value) === JSON.stringify(start[key])) continue;
    const isNumbers = Array.isArray(value) && key !== "steps";
    parts.set(key, isNumbers ? value.join(".") : typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return parts.toString();
}

/** Reads a fragment. What is not understood is left out: anybody can write one. @param {string} text @param {import("./format.js").Meta} meta @returns {State} */
export function fromFragment(text, meta) {
  const state = initial(), parts = new URLSearchParams(text.replace(/^#/, ""));
  /** @param {string} key @param {number} below */
  const numbers = (key, below) => {
    const given = parts.get(key);
    if (!given) return null;
    const list = given.split(".").map(Number);
    return list.every(number => Number.isInteger(number) && number >= 0 && number < below) ? list : null;
  };
  /** @param {string} key @param {number} below @param {number} otherwise */
  const number = (key, below, otherwise) => numbers(key, below)?.[0] ?? otherwise;
  /** @param {string} key @returns {[number, number]|null} */
  const range = key => {
    const [from, to] = numbers(key, meta.length + 1) ?? [0, 0];
    return to > from ? [from, to] : null;
  };
  const functions = meta.functions.name.length + meta.modules.length;
  state.event = number("event", meta.events.length, defaultEvent(meta));
  state.time = range("time");
  if (meta.sides || meta.timed) state.timeBefore = range("timeBefore");
  state.window = range("window");
  state.threads = numbers("threads", meta.threads.length);
  state.cpus = numbers("cpus", meta.cpus);
  state.named = number("named", functions, -1);
  state.thread = number("thread", meta.threads.length, -1);
  state.zoom = numbers("zoom", meta.frames.kind.length + meta.modules.length) ?? [];
  state.search = parts.get("search") ?? "";
  const view = parts.get("view") ?? "";
  if (viewsOf(meta).includes(view)) state.view = view;
  const sort = parts.get("sort") ?? "";
  if (sort === "name" || sort === "start") state.sort = sort;
  state.find = parts.get("find") ?? "";
  state.hidden = numbers("hidden", meta.threads.length);
  state.pin = meta.timed ? number("pin", meta.segments.reduce((sum, [, , samples]) => sum + samples, 0), -1) : -1;
  const lanes = parts.get("lanes") ?? "";
  if (lanes === "cpus" && meta.cpus || lanes === "heat") state.lanes = lanes;
  try {
    const steps = JSON.parse(parts.get("steps") ?? "[]");
    if (Array.isArray(steps)) state.steps = steps.filter(step => isStep(step, functions, meta.modules.length)).slice(0, 100);
  } catch { /* No steps, then. */ }
  return state;
}

/** The event with most samples; pieces of time come after what was sampled. @param {import("./format.js").Meta} meta */
export function defaultEvent({ events, sides }) {
  // Widths are those after a change.
  if (sides) return 1;
  const compare = (/** @type {number} */ one, /** @type {number} */ other) => Number(events[one].time) - Number(events[other].time) || events[other].samples - events[one].samples;
  return [...events.keys()].sort((one, other) => compare(one, other) || one - other)[0];
}

/** @param {any} step @param {number} functions @param {number} modules */
function isStep(step, functions, modules) {
  if (typeof step !== "object" || step === null) return false;
  /** @param {any} id @param {number} below */
  const within = (id, below) => Number.isInteger(id) && id >= 0 && id < below;
  switch (step.o) {
    case "hide": case "keep": case "root": case "merge": return within(step.f, functions) || typeof step.p === "string";
    case "module": return within(step.m, modules);
    case "recursion": case "mine": case "threads": case "all": return true;
    default: return false;
  }
}

/** What tells the steps apart that are undone. @param {State} state */
const shownBy = state => toFragment({ ...state, named: -1, pin: -1 });

/** Holds the state, with what it was before and what was taken back. */
export class Store {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    /** @type {State[]} */
    this.before = [];
    /** @type {State[]} */
    this.after = [];
    /** @type {((state: State, old: State) => void)[]} */
    this.listeners = [];
    this.last = "";
  }
  /**
   * Changes the state. Changes of one kind that follow each other are undone as one.
   * @param {Partial<State>} change @param {string} [kind]
   */
  set(change, kind = "") {
    const next = { ...this.state, ...change };
    if (JSON.stringify(next) === JSON.stringify(this.state)) return;
    if (!kind || kind !== this.last) {
      this.before.push(this.state);
      if (this.before.length > 500) this.before.shift();
    }
    this.after = [];
    this.last = kind;
    this.become(next);
  }
  /** Puts another state in its place, as a step of its own. @param {State} next */
  goTo(next) {
    this.last = "";
    this.set(next);
  }
  /** @param {State} next */
  become(next) {
    const old = this.state;
    this.state = next;
    for (const listener of this.listeners) listener(next, old);
  }
  undo() {
    this.walk(this.before, this.after);
  }
  redo() {
    this.walk(this.after, this.before);
  }
  /** Goes to the last state that shows something else: what is pointed out and pinned comes along. @param {State[]} from @param {State[]} to */
  walk(from, to) {
    const now = shownBy(this.state);
    let { state } = this;
    do {
      const next = from.pop();
      if (!next) break;
      to.push(state);
      state = next;
    } while (shownBy(state) === now);
    this.last = "";
    if (state !== this.state) this.become(state);
  }
}
