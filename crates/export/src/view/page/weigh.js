// Weighs a selection: how much each node of the tree, and each function, has.
import { KIND } from "./format.js";

/**
 * @typedef {object} Choice Which samples.
 * @property {number} event
 * @property {[number, number]|null} time From, to (not included), in units.
 * @property {number[]|null} threads
 * @property {number[]|null} cpus
 */
/**
 * @typedef {object} Weights Of the nodes of a tree.
 * @property {Float64Array} self
 * @property {Float64Array} total
 */

/** The samples as columns, with what is asked of them. */
export class Samples {
  /** @param {import("./format.js").Columns} columns @param {import("./format.js").Meta} meta */
  constructor(columns, meta) {
    this.columns = columns;
    this.meta = meta;
    /** @type {{event: number, thread: number, start: number, end: number}[]} */
    this.segments = [];
    let start = 0;
    for (const [event, thread, samples] of meta.segments) {
      this.segments.push({ event, thread, start, end: start += samples });
    }
  }

  /** The first sample of a segment that is not before a time. @param {number} start @param {number} end @param {number} time */
  firstAt(start, end, time) {
    const times = this.columns.time;
    while (start < end) {
      const middle = (start + end) >>> 1;
      if (times[middle] < time) start = middle + 1;
      else end = middle;
    }
    return start;
  }

  /** Ranges of samples that were chosen; CPUs apart. @param {Choice} choice */
  ranges(choice) {
    const threads = choice.threads && new Set(choice.threads);
    const ranges = [];
    for (const { event, thread, start, end } of this.segments) {
      if (event !== choice.event || threads && !threads.has(thread)) continue;
      const timed = choice.time && this.meta.timed;
      const first = timed ? this.firstAt(start, end, /** @type {any} */ (choice.time)[0]) : start;
      const last = timed ? this.firstAt(first, end, /** @type {any} */ (choice.time)[1]) : end;
      if (last > first) ranges.push({ thread, first, last });
    }
    return ranges;
  }

  /** Which CPUs are chosen, by number; `null` for all. @param {Choice} choice */
  cpuMask(choice) {
    if (!choice.cpus || !this.meta.cpus) return null;
    const mask = new Uint8Array(this.meta.cpus);
    for (const cpu of choice.cpus) mask[cpu] = 1;
    return mask;
  }

  /** Samples and weight of each stack. @param {Choice} choice */
  ofStacks(choice) {
    const { stack, cpu, weight, stacks } = this.columns;
    const weighted = this.meta.events[choice.event].weighted;
    const samples = new Float64Array(stacks.length);
    const weights = weighted ? new Float64Array(stacks.length) : samples;
    const mask = this.cpuMask(choice);
    for (const { first, last } of this.ranges(choice)) {
      if (mask) {
        for (let at = first; at < last; at++) {
          if (!mask[cpu[at]]) continue;
          samples[stack[at]]++;
          if (weighted) weights[stack[at]] += weight[at];
        }
      } else if (weighted) {
        for (let at = first; at < last; at++) {
          samples[stack[at]]++;
          weights[stack[at]] += weight[at];
        }
      } else for (let at = first; at < last; at++) samples[stack[at]]++;
    }
    return { samples, weights };
  }
}

/** What the nodes of a tree weigh. @param {import("./tree.js").Derived} derived @param {Int32Array} stacks @param {Float64Array} ofStacks @returns {Weights} */
export function weigh({ tree, map }, stacks, ofStacks) {
  const { parent } = tree, count = parent.length;
  const self = new Float64Array(count), total = new Float64Array(count);
  for (let stack = 0; stack < stacks.length; stack++) {
    const node = map[stacks[stack]];
    if (node >= 0) self[node] += ofStacks[stack];
  }
  total.set(self);
  for (let node = count - 1; node > 0; node--) total[parent[node]] += total[node];
  return { self, total };
}

/**
 * Self and total of each function. A stack counts once for a function, however often it calls itself.
 * @param {import("./tree.js").Tree} tree @param {import("./tree.js").Frames} frames @param {Weights} weights
 */
export function ofFunctions(tree, frames, weights) {
  const { frame, end } = tree, count = frame.length, { kind, functionOf } = frames;
  const functions = frames.moduleOf.length;
  const self = new Float64Array(functions), total = new Float64Array(functions);
  // The end of the subtree that a function has already counted for.
  const within = new Int32Array(functions);
  for (let node = 1; node < count; node++) {
    if (!weights.total[node]) {
      node = end[node] - 1;
      continue;
    }
    if (kind[frame[node]] === KIND.root) continue;
    const id = functionOf[frame[node]];
    self[id] += weights.self[node];
    if (node >= within[id]) {
      total[id] += weights.total[node];
      within[id] = end[node];
    }
  }
  return { self, total };
}

/** Which nodes have a function among a set on their way to the root. @param {import("./tree.js").Tree} tree @param {import("./tree.js").Frames} frames @param {Uint8Array} set */
export function nodesWith(tree, frames, set) {
  const { parent, frame } = tree, within = new Uint8Array(parent.length), meant = frames.framesOf(set);
  for (let node = 1; node < within.length; node++) within[node] = within[parent[node]] | meant[frame[node]];
  return within;
}
