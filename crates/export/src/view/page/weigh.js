// Weighs a selection: how much each node of the tree, and each function, has.
import { KIND } from "./format.js";

/**
 * @typedef {object} Choice Which samples.
 * @property {number} event
 * @property {[number, number]|null} time From, to (not included), in units.
 * @property {number[]|null} threads
 * @property {number[]|null} cpus
 */
/** The samples as columns, with what is asked of them. */
export class Samples {
  /** @param {import("./format.js").Columns} columns @param {import("./format.js").Meta} meta @param {Uint8Array} off Which stacks end off the CPU. */
  constructor(columns, meta, off) {
    this.columns = columns;
    this.meta = meta;
    this.off = off;
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
    const ranges = [], source = this.meta.events[choice.event].of ?? choice.event;
    for (const { event, thread, start, end } of this.segments) {
      if (event !== source || threads && !threads.has(thread)) continue;
      const timed = choice.time && this.meta.timed;
      const first = timed ? this.firstAt(start, end, /** @type {any} */ (choice.time)[0]) : start;
      const last = timed ? this.firstAt(first, end, /** @type {any} */ (choice.time)[1]) : end;
      if (last > first) ranges.push({ thread, first, last });
    }
    return ranges;
  }

  /** What a sample weighs in lanes. @param {number} event @returns {(at: number) => number} */
  amounts(event) {
    const { weight, count } = this.columns;
    return this.meta.events[event].weighted ? at => weight[at] : count.length ? at => count[at] : () => 1;
  }

  /** Half the length of a piece of time, in units: it lies around its time. @param {number} at */
  half(at) {
    return this.columns.weight[at] / 2e3 / this.meta.unit;
  }

  /** Which CPUs are chosen, by number; `null` for all. @param {Choice} choice */
  cpuMask(choice) {
    if (!choice.cpus || !this.meta.events[choice.event].cpus) return null;
    const mask = new Uint8Array(this.meta.cpus);
    for (const cpu of choice.cpus) mask[cpu] = 1;
    return mask;
  }

  /** Samples and weight of each stack. @param {Choice} choice */
  ofStacks(choice) {
    const { stack, cpu, weight, count, stacks } = this.columns, isMerged = count.length > 0;
    const weighted = this.meta.events[choice.event].weighted;
    const samples = new Float64Array(stacks.length);
    const weights = weighted ? new Float64Array(stacks.length) : samples;
    const mask = this.cpuMask(choice);
    for (const { first, last } of this.ranges(choice)) {
      if (mask) {
        for (let at = first; at < last; at++) {
          if (!mask[cpu[at]]) continue;
          samples[stack[at]] += isMerged ? count[at] : 1;
          if (weighted) weights[stack[at]] += weight[at];
        }
      } else if (weighted) {
        for (let at = first; at < last; at++) {
          samples[stack[at]] += isMerged ? count[at] : 1;
          weights[stack[at]] += weight[at];
        }
      } else if (isMerged) for (let at = first; at < last; at++) samples[stack[at]] += count[at];
      else for (let at = first; at < last; at++) samples[stack[at]]++;
    }
    if (this.meta.events[choice.event].of !== undefined) {
      for (let at = 0; at < samples.length; at++) if (!this.off[at]) samples[at] = weights[at] = 0;
    }
    return { samples, weights };
  }
}

/** Where stacks lie in a tree: in the order of their nodes, so that those of a subtree lie side by side. */
export class Placed {
  /** @param {import("./tree.js").Derived} derived @param {Int32Array} stacks @param {import("./tree.js").Frames} frames */
  constructor({ tree, map }, stacks, frames) {
    const count = tree.parent.length;
    this.tree = tree;
    this.map = map;
    this.frames = frames;
    /** How many stacks lie before a node. */
    this.first = new Int32Array(count + 1);
    for (let stack = 0; stack < stacks.length; stack++) if (map[stacks[stack]] >= 0) this.first[map[stacks[stack]] + 1]++;
    for (let node = 0; node < count; node++) this.first[node + 1] += this.first[node];
    /** The place of each stack; -1 where it is left out. */
    this.place = new Int32Array(stacks.length);
    /** The node of each place. */
    this.nodes = new Int32Array(this.first[count]);
    const next = this.first.slice();
    for (let stack = 0; stack < stacks.length; stack++) {
      const node = map[stacks[stack]];
      this.place[stack] = node < 0 ? -1 : next[node]++;
      if (node >= 0) this.nodes[this.place[stack]] = node;
    }
    /** @type {Int32Array|null} */
    this.outer = null;
  }

  /** The function of each node, where no caller is of the same function; else -1. A stack counts once for a function, however often it calls itself. */
  get outermost() {
    if (this.outer) return this.outer;
    const { tree: { frame, end }, frames: { kind, functionOf, moduleOf } } = this;
    // The end of the subtree that a function has already counted for.
    const within = new Int32Array(moduleOf.length), outer = new Int32Array(frame.length).fill(-1);
    for (let node = 1; node < frame.length; node++) {
      if (kind[frame[node]] === KIND.root) continue;
      const id = functionOf[frame[node]];
      if (node < within[id]) continue;
      outer[node] = id;
      within[id] = end[node];
    }
    return this.outer = outer;
  }
}

/** What the nodes of a tree weigh: differences of sums over stacks in the order of nodes. Nothing is written per node, of which there are many. */
export class Weights {
  /** @param {Placed} placed @param {Float64Array} ofStacks */
  constructor(placed, ofStacks) {
    const { place, nodes } = placed, sums = new Float64Array(nodes.length + 1);
    this.placed = placed;
    this.first = placed.first;
    this.end = placed.tree.end;
    this.sums = sums;
    for (let stack = 0; stack < place.length; stack++) if (place[stack] >= 0) sums[place[stack] + 1] = ofStacks[stack];
    for (let at = 0; at < nodes.length; at++) sums[at + 1] += sums[at];
    this.all = sums[nodes.length];
  }

  /** @param {number} node */
  total(node) {
    return this.sums[this.first[this.end[node]]] - this.sums[this.first[node]];
  }

  /** @param {number} node */
  self(node) {
    return this.sums[this.first[node + 1]] - this.sums[this.first[node]];
  }

  /** Calls with each node that has something of its own, in preorder. @param {(node: number, self: number) => void} act */
  eachSelf(act) {
    const { sums, placed: { nodes } } = this;
    for (let at = 0; at < nodes.length;) {
      const node = nodes[at], behind = this.first[node + 1], self = sums[behind] - sums[at];
      if (self) act(node, self);
      at = behind;
    }
  }

  /** Self and total of each function. */
  ofFunctions() {
    const { sums, first, end, placed } = this, { tree: { frame }, frames, outermost } = placed;
    const self = new Float64Array(frames.moduleOf.length), total = new Float64Array(self.length);
    this.eachSelf((node, weight) => { if (frames.kind[frame[node]] !== KIND.root) self[frames.functionOf[frame[node]]] += weight; });
    for (let node = 1; node < frame.length; node++) {
      const before = sums[first[node]], weight = sums[first[end[node]]] - before;
      if (!weight) node = end[node] - 1;
      else if (outermost[node] >= 0) total[outermost[node]] += weight;
    }
    return { self, total };
  }
}

/** Which nodes have a function among a set on their way to the root. @param {import("./tree.js").Tree} tree @param {import("./tree.js").Frames} frames @param {Uint8Array} set */
export function nodesWith(tree, frames, set) {
  const { parent, frame } = tree, within = new Uint8Array(parent.length), meant = frames.framesOf(set);
  for (let node = 1; node < within.length; node++) within[node] = within[parent[node]] | meant[frame[node]];
  return within;
}
