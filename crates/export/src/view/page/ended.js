// What threads waited for, who ended that, and what those did meanwhile.
import { isOff, KIND } from "./format.js";
import { leftOut } from "./tree.js";

/**
 * Where a stack ends, as functions: the innermost of the reader's own code, else the innermost at all, and what that called of a library, -1
 * where it called none. `state` is the frame of a thread that was off the CPU, else -1.
 * @typedef {{state: number, own: number, call: number}} Place
 */
/** What a thread did, with its weight. @typedef {{state: number, own: number, weight: number}} Deed */
/** @typedef {{waker: number, weight: number, waits: number, meanwhile: Deed[]|null}} Ender `waker` as a number of `meta.wakers`, from 1; 0 where nobody knows. */
/** @typedef {Place & {weight: number, waits: number, enders: Ender[]}} WaitPlace */
/** @typedef {{weight: number, waits: number, places: WaitPlace[], isOfNamed: boolean}} Endings Time may have no wait of its own: what the kernel counts beyond the records. */

/** Places that are told, those who ended waits at each, and deeds of each of those. */
const MOST_PLACES = 100, MOST_ENDERS = 4, MOST_DEEDS = 3;
/** The share of the waits at a place that somebody ended who is told. */
const LEAST_SHARE = 0.001;

export class Ended {
  /** @param {import("./format.js").Meta} meta @param {import("./tree.js").Frames} frames @param {import("./weigh.js").Samples} samples */
  constructor(meta, frames, samples) {
    this.frames = frames;
    this.samples = samples;
    /** The time of threads; -1 where it is not known. */
    this.event = meta.events.findIndex(({ time, of }) => time && of === undefined);
    this.lanes = meta.wakers?.map(({ thread }) => thread) ?? [];
    /** @type {Map<number, import("./format.js").Waits>} */
    this.waits = new Map(samples.columns.waits.map(waits => [waits.thread, waits]));
    /** @type {(Place|undefined)[]} */
    this.places = [];
    /** @type {Uint8Array|null} */
    this.others = null;
  }

  /** @param {number} stack @returns {Place} */
  place(stack) {
    const known = this.places[stack];
    if (known) return known;
    const { columns: { stacks, parent, frame } } = this.samples, { kind, functionOf } = this.frames;
    const others = this.others ??= leftOut(this.frames, { o: "mine" });
    let state = -1, call = -1, innermost = -1, own = -1;
    for (let node = stacks[stack]; node > 0 && own < 0; node = parent[node]) {
      const at = frame[node];
      if (kind[at] >= KIND.unsampled) state = at;
      else if (kind[at] !== KIND.root && kind[at] !== KIND.truncated) {
        if (innermost < 0) innermost = functionOf[at];
        if (!others[at]) own = functionOf[at];
        else if (kind[at] !== KIND.kernel) call = functionOf[at];
      }
    }
    return this.places[stack] = own < 0 ? { state, own: innermost, call: -1 } : { state, own, call };
  }

  /** The wait of a thread at a time; -1 where there is none. @param {import("./format.js").Waits} waits @param {number} time */
  static at({ from, to }, time) {
    let first = 0, end = to.length;
    while (first < end) {
      const middle = (first + end) >>> 1;
      if (to[middle] <= time) first = middle + 1;
      else end = middle;
    }
    return first < to.length && from[first] <= time ? first : -1;
  }

  /**
   * The waits of a selection by where threads were blocked, those with the most time first.
   * @param {import("./weigh.js").Choice} choice @param {(stack: number) => boolean} admits @returns {Omit<Endings, "isOfNamed">}
   */
  endings({ time, threads }, admits) {
    const { samples, event } = this, { columns: { stack, stacks, frame, weight, time: times } } = samples, { kind } = this.frames;
    /** @type {Map<string, WaitPlace & {by: Map<number, Ender & {spans: [number, number][]}>}>} */
    const found = new Map();
    let all = 0, counted = 0;
    for (const { thread, first, last } of samples.ranges({ event, time, threads, cpus: null })) {
      const waits = this.waits.get(thread);
      for (let at = first, before = -1; at < last; at++) {
        const ends = kind[frame[stacks[stack[at]]]];
        if (!isOff(ends) || ends === KIND.runnable || !admits(stack[at])) continue;
        const wait = waits ? Ended.at(waits, times[at]) : -1, isNew = waits && wait >= 0 && !waits.runnable[wait] && wait !== before;
        before = wait;
        const where = this.place(stack[at]), key = `${where.state} ${where.own} ${where.call}`;
        let place = found.get(key);
        if (!place) found.set(key, place = { ...where, weight: 0, waits: 0, enders: [], by: new Map() });
        const waker = waits && wait >= 0 ? waits.waker[wait] : 0;
        let ender = place.by.get(waker);
        if (!ender) place.by.set(waker, ender = { waker, weight: 0, waits: 0, meanwhile: null, spans: [] });
        for (const sum of [place, ender]) {
          sum.weight += weight[at];
          if (isNew) sum.waits++;
        }
        all += weight[at];
        if (!isNew) continue;
        counted++;
        if (waker) ender.spans.push([waits.from[wait], waits.to[wait]]);
      }
    }
    const places = [...found.values()].sort((one, other) => other.weight - one.weight).slice(0, MOST_PLACES).map(({ by, ...place }) => {
      const enders = [...by.values()].filter(({ weight }) => weight >= place.weight * LEAST_SHARE).sort((one, other) => other.weight - one.weight);
      return { ...place, enders: enders.slice(0, MOST_ENDERS).map(({ spans, ...ender }) => ({ ...ender, meanwhile: this.meanwhile(ender.waker, spans) })) };
    });
    return { weight: all, waits: counted, places };
  }

  /** What a waker did within some spans, the most first; `null` where it has no lane. @param {number} waker @param {[number, number][]} spans @returns {Deed[]|null} */
  meanwhile(waker, spans) {
    const thread = this.lanes[waker - 1] ?? null, { samples } = this, { columns: { stack, weight, time } } = samples;
    if (thread === null) return null;
    /** @type {Map<string, Deed>} */
    const deeds = new Map();
    const all = samples.ranges({ event: this.event, time: null, threads: [thread], cpus: null });
    spans.sort(([one], [other]) => one - other);
    for (const { first, last } of all) {
      // Spans of several threads may overlap: what was done counts once.
      let next = first;
      for (const [from, to] of spans) {
        for (next = samples.firstAt(next, last, from); next < last && time[next] < to; next++) {
          const { state, own } = this.place(stack[next]), key = `${state} ${own}`, deed = deeds.get(key);
          if (deed) deed.weight += weight[next];
          else deeds.set(key, { state, own, weight: weight[next] });
        }
      }
    }
    return [...deeds.values()].sort((one, other) => other.weight - one.weight);
  }
}

/** The first deeds, and the weight of all. @param {Deed[]} deeds */
export function most(deeds) {
  return { first: deeds.slice(0, MOST_DEEDS), all: deeds.reduce((sum, { weight }) => sum + weight, 0) };
}
