// Answers what the page asks of the samples. Runs in a worker; in the page itself where there can be none.
import { KIND, unpackColumns, unpackMeta } from "./format.js";
import { derive, Frames, pattern, treeOf } from "./tree.js";
import { nodesWith, Placed, Samples, Weights } from "./weigh.js";
import { fromRoot, inOrder, Merged, rowsOf } from "./layout.js";

/** @typedef {import("./weigh.js").Choice & {steps: import("./tree.js").Step[], search: string}} Selection */
/**
 * @typedef {object} Totals Of a selection.
 * @property {number} samples
 * @property {number} weight
 * @property {number} all Weight of the event.
 * @property {number} allSamples
 * @property {number} cut Samples whose stacks end early.
 * @property {number} nameless Samples whose innermost frame has no name.
 * @property {number} lost
 * @property {number} matched Weight of the stacks with a function that was searched for.
 * @property {string} error What is wrong with the search.
 * @property {Uint8Array|null} found Functions that were searched for.
 */
/**
 * @typedef {object} Table
 * @property {Int32Array} functions Those that occur, by self.
 * @property {Float64Array} self By function.
 * @property {Float64Array} total
 * @property {Float64Array} samples Samples that have the function.
 * @property {{event: number, all: number, self: Float64Array, total: Float64Array}[]} others Further events.
 */

/** Kinds that lanes tell apart. */
export const LANE_KINDS = 7;
/** @param {number} kind */
const laneKind = kind => kind === KIND.kernel ? 1 : kind === KIND.generated ? 2 : kind >= KIND.runnable ? kind - KIND.runnable + 4 : kind >= KIND.nameless ? 3 : 0;

export class Engine {
  /** @param {import("./format.js").Meta} meta @param {import("./format.js").Columns} columns */
  constructor(meta, columns) {
    this.meta = meta;
    this.samples = new Samples(columns, meta);
    this.frames = new Frames(meta);
    this.base = treeOf(columns.parent, columns.frame);
    /** @type {Record<string, Map<string, any>>} */
    this.caches = {};
    this.stackKinds = new Uint8Array(columns.stacks.length);
    columns.stacks.forEach((node, stack) => { this.stackKinds[stack] = laneKind(this.frames.kind[columns.frame[node]]); });
  }

  /** @param {Record<string, string>} blocks */
  static async open(blocks) {
    const meta = await unpackMeta(blocks.meta);
    return new Engine(meta, await unpackColumns(blocks, meta));
  }

  /** What was made before, or is made now. The newest few of a kind are kept. @template T @param {string} kind @param {any} key @param {() => T} make @returns {T} */
  kept(kind, key, make) {
    const cache = this.caches[kind] ??= new Map(), text = JSON.stringify(key);
    const value = cache.has(text) ? cache.get(text) : make();
    cache.delete(text);
    if (cache.size >= 3) cache.delete(cache.keys().next().value ?? "");
    cache.set(text, value);
    return value;
  }

  /** @param {import("./tree.js").Step[]} steps */
  derived(steps) {
    return this.kept("steps", steps, () => new Placed(derive(this.base, this.frames, steps), this.samples.columns.stacks, this.frames));
  }

  /** @param {Selection} selection */
  weighed({ event, time, threads, cpus, steps }) {
    return this.kept("weights", [event, time, threads, cpus, steps], () => {
      const derived = this.derived(steps);
      const ofStacks = this.samples.ofStacks({ event, time, threads, cpus });
      const weights = new Weights(derived, ofStacks.weights);
      const samples = ofStacks.samples === ofStacks.weights ? weights : new Weights(derived, ofStacks.samples);
      return { derived, weights, samples };
    });
  }

  /** Which nodes lie on a cut stack (1), and which are frames without a name (2). @param {import("./tree.js").Step[]} steps */
  doubtful(steps) {
    return this.kept("doubtful", steps, () => {
      const { tree } = this.derived(steps), { kind } = this.frames, doubts = new Uint8Array(tree.frame.length);
      for (let node = 1; node < doubts.length; node++) {
        const own = kind[tree.frame[node]];
        doubts[node] = doubts[tree.parent[node]] & 1 | (own === KIND.truncated ? 1 : own === KIND.nameless ? 2 : 0);
      }
      return doubts;
    });
  }

  /** Samples whose stacks were cut, and that ended in code without a name. @param {Selection} selection */
  doubts(selection) {
    const { samples } = this.weighed(selection), doubts = this.doubtful(selection.steps);
    let cut = 0, nameless = 0;
    samples.eachSelf((node, self) => {
      if (doubts[node] & 1) cut += self;
      if (doubts[node] & 2) nameless += self;
    });
    return { cut, nameless };
  }

  /** @param {{selection: Selection, table: boolean}} request @returns {{totals: Totals, table: Table|null}} */
  select({ selection, table }) {
    const { derived: { tree }, weights, samples } = this.weighed(selection);
    const { frames, meta } = this;
    let matched = 0, found = null, error = "";
    if (selection.search) {
      error = pattern(selection.search).error;
      found = frames.matching(selection.search);
      const within = nodesWith(tree, frames, found);
      weights.eachSelf((node, self) => { if (within[node]) matched += self; });
    }
    const all = this.kept("all", selection.event, () => {
      const { samples, weights } = this.samples.ofStacks({ event: selection.event, time: null, threads: null, cpus: null });
      return { samples: sum(samples), weight: sum(weights) };
    });
    const [from, to] = selection.time ?? [0, Infinity];
    const lost = meta.gaps.reduce((sum, gap) => sum + (gap[0] < to && gap[1] >= from ? gap[2] : 0), 0);
    const totals = {
      samples: samples.all, weight: weights.all, all: all.weight, allSamples: all.samples,
      ...this.doubts(selection), lost, matched, error, found,
    };
    return { totals, table: table ? this.table(selection) : null };
  }

  /** @param {Selection} selection @returns {Table} */
  table(selection) {
    const { weights, samples } = this.weighed(selection);
    const { self, total } = weights.ofFunctions();
    const counted = samples === weights ? total : samples.ofFunctions().total;
    const functions = [];
    for (let id = 0; id < total.length; id++) if (total[id]) functions.push(id);
    functions.sort((one, other) => self[other] - self[one] || total[other] - total[one] || one - other);
    const others = this.meta.events.flatMap((info, event) => {
      if (event === selection.event || !info.samples) return [];
      const { weights } = this.weighed({ ...selection, event });
      return [{ event, all: weights.all, ...weights.ofFunctions() }];
    });
    return { functions: Int32Array.from(functions), self, total, samples: counted, others };
  }

  /**
   * @param {{selection: Selection, view: string, zoom: number[], named: number, pixels: number, thread: number}} request
   */
  boxes({ selection, view, zoom, named, pixels, thread }) {
    const { derived, weights } = this.weighed(selection), { tree } = derived;
    if (view === "flame") return { boxes: fromRoot(tree, weights, zoom, pixels) };
    if (view === "icicle") {
      const merged = new Merged(tree, this.frames, weights, true);
      return { boxes: merged.boxes(merged.leaves(), -2, weights.all, zoom, pixels) };
    }
    if (view === "order") {
      const choice = { ...selection, threads: [thread] };
      const ranges = this.samples.ranges(choice);
      const [from, to] = selection.time ?? [0, this.meta.length];
      return { boxes: inOrder(this.samples, derived, ranges, this.samples.cpuMask(choice), from, to, pixels) };
    }
    const callers = new Merged(tree, this.frames, weights, true), up = callers.of(named);
    const callees = new Merged(tree, this.frames, weights, false), down = callees.of(named);
    return {
      callers: callers.boxes(up.total ? callers.next(up) : [], up.frame, up.total, [], pixels),
      boxes: callees.boxes(down.total ? callees.next(down) : [], down.frame, down.total, zoom, pixels),
    };
  }

  /**
   * @param {{selection: Selection, view: string, named: number, open: string[], closed: string[]}} request
   * @returns {import("./layout.js").Rows}
   */
  rows({ selection, view, named, open, closed }) {
    const { derived: { tree }, weights } = this.weighed(selection);
    const upward = view === "inverted" || view === "callers";
    const merged = new Merged(tree, this.frames, weights, upward);
    /** @type {import("./layout.js").Group[]} */
    let groups;
    if (view === "inverted") groups = merged.leaves();
    else if (view === "tree") {
      groups = merged.next({ frame: -2, nodes: [0], weights: [weights.all], total: weights.all });
    } else groups = [merged.of(named)].filter(group => group.total);
    const opened = new Set(open), shut = new Set(closed);
    // The hottest way is open until it divides.
    return rowsOf(merged, groups, (path, share, hottest) =>
      opened.has(path) || !shut.has(path) && hottest && !upward && share > 0.5 && path.length < 2000);
  }

  /**
   * Samples and weight of the lines on which stacks end in a function. What a step has merged into it lies on no line of it.
   * @param {{selection: Selection, named: number}} request
   */
  lines({ selection, named }) {
    const { stacks, lines, frame } = this.samples.columns, { functionOf } = this.frames;
    const { tree, map } = this.derived(selection.steps);
    const { samples, weights } = this.samples.ofStacks(selection);
    /** @type {Map<number, {line: number, samples: number, weight: number}>} */
    const found = new Map();
    let all = 0;
    for (let stack = 0; stack < lines.length; stack++) {
      const node = map[stacks[stack]];
      if (!samples[stack] || node <= 0 || functionOf[frame[stacks[stack]]] !== named || functionOf[tree.frame[node]] !== named) continue;
      all += weights[stack];
      if (!lines[stack]) continue;
      const known = found.get(lines[stack]);
      if (known) {
        known.samples += samples[stack];
        known.weight += weights[stack];
      } else found.set(lines[stack], { line: lines[stack] - 1, samples: samples[stack], weight: weights[stack] });
    }
    return { all, lines: [...found.values()] };
  }

  /**
   * Samples and weight of the instructions at which stacks end: in the code of a function, whatever was inlined into it, and in the code
   * of others that it was inlined into. What a step has merged into a caller lies at no instruction.
   * @param {{selection: Selection, named: number}} request
   */
  instructions({ selection, named }) {
    const { stacks, instructions, frame } = this.samples.columns, { functionOf } = this.frames;
    const { tree, map } = this.derived(selection.steps), ranges = this.meta.code?.ranges ?? [];
    const { samples, weights } = this.samples.ofStacks(selection);
    const rangeOf = new Int32Array(ranges.reduce((sum, { count }) => sum + count, 1));
    ranges.reduce((first, { count }, range) => rangeOf.fill(range, first, first + count) && first + count, 1);
    /** @type {Map<number, {instruction: number, samples: number, weight: number}>} */
    const found = new Map();
    let all = 0;
    for (let stack = 0; stack < instructions.length; stack++) {
      const node = map[stacks[stack]], ends = functionOf[frame[stacks[stack]]];
      if (!samples[stack] || node <= 0 || functionOf[tree.frame[node]] !== ends) continue;
      const instruction = instructions[stack], isIn = instruction > 0 && ranges[rangeOf[instruction]].function === named;
      if (!isIn && ends !== named) continue;
      all += weights[stack];
      if (!instruction) continue;
      const known = found.get(instruction);
      if (known) {
        known.samples += samples[stack];
        known.weight += weights[stack];
      } else found.set(instruction, { instruction: instruction - 1, samples: samples[stack], weight: weights[stack] });
    }
    return { all, instructions: [...found.values()] };
  }

  /**
   * Weight in columns of time, by kind of the innermost frame, and of that what has a function that is pointed out.
   * @param {{event: number, from: number, to: number, columns: number, lanes: number[][], byCpu: boolean, threads: number[]|null,
   *   steps: import("./tree.js").Step[], named: number, search: string}} request
   */
  lanes({ event, from, to, columns, lanes, byCpu, threads, steps, named, search }) {
    const { time, stack, cpu, weight, stacks } = this.samples.columns;
    const { map } = this.derived(steps);
    const hasSteps = steps.length > 0;
    const weighted = this.meta.events[event].weighted;
    const kinds = this.stackKinds, kept = new Uint8Array(stacks.length);
    const pointed = this.pointedOut(steps, named, search);
    for (let at = 0; at < stacks.length; at++) kept[at] = !hasSteps || map[stacks[at]] >= 0 ? 1 : 0;
    const results = lanes.map(() => ({ kinds: new Float32Array(columns * LANE_KINDS), pointed: pointed && new Float32Array(columns) }));
    const laneOf = new Map();
    lanes.forEach((members, lane) => { for (const member of members) laneOf.set(member, [...laneOf.get(member) ?? [], lane]); });
    const scale = columns / (to - from);
    for (const range of this.samples.ranges({ event, time: [from, to], threads: byCpu ? threads : null, cpus: null })) {
      const rows = byCpu ? null : laneOf.get(range.thread);
      if (!byCpu && !rows) continue;
      for (const lane of rows ?? [-1]) {
        let result = lane >= 0 ? results[lane] : results[0];
        for (let at = range.first; at < range.last; at++) {
          const chosen = stack[at];
          if (!kept[chosen]) continue;
          if (byCpu) {
            const row = laneOf.get(cpu[at]);
            if (!row) continue;
            result = results[row[0]];
          }
          const column = ((time[at] - from) * scale) | 0, amount = weighted ? weight[at] : 1;
          result.kinds[column * LANE_KINDS + kinds[chosen]] += amount;
          if (pointed && pointed[chosen] && result.pointed) result.pointed[column] += amount;
        }
      }
    }
    return { lanes: results.map((result, lane) => ({ ...result, waits: byCpu ? null : this.waits(lanes[lane], from, to, columns) })) };
  }

  /**
   * Shares of columns of time in which threads were ready to run, and blocked, in turns; `null` where nobody knows.
   * @param {number[]} threads @param {number} from @param {number} to @param {number} columns
   */
  waits(threads, from, to, columns) {
    const { waits } = this.samples.columns, set = new Set(threads);
    if (!waits.length) return null;
    const shares = new Float32Array(columns * 2), scale = columns / (to - from);
    for (const { thread, from: starts, to: ends, ready } of waits) {
      if (!set.has(thread)) continue;
      let first = 0, last = ends.length;
      while (first < last) {
        const middle = (first + last) >>> 1;
        if (ends[middle] <= from) first = middle + 1;
        else last = middle;
      }
      for (let at = first; at < starts.length && starts[at] < to; at++) {
        const left = Math.max(0, (starts[at] - from) * scale), right = Math.min(columns, (ends[at] - from) * scale);
        for (let column = Math.floor(left); column < right; column++) {
          shares[column * 2 + 1 - ready[at]] += (Math.min(right, column + 1) - Math.max(left, column)) / threads.length;
        }
      }
    }
    return shares;
  }

  /** Stacks that have a function. @param {import("./tree.js").Step[]} steps @param {number} named @param {string} search */
  pointedOut(steps, named, search) {
    if (named < 0 && !search) return null;
    return this.kept("pointed", [named, search, steps], () => {
      const { tree, map } = this.derived(steps), { stacks } = this.samples.columns;
      let set = this.frames.matching(search || "\0");
      if (named >= 0) {
        set = new Uint8Array(set.length);
        set[named] = 1;
      }
      const within = nodesWith(tree, this.frames, set), pointed = new Uint8Array(stacks.length);
      stacks.forEach((node, stack) => { pointed[stack] = map[node] >= 0 ? within[map[node]] : 0; });
      return pointed;
    });
  }

  /** Weight by second and by part of a second. @param {{selection: Selection, from: number, seconds: number, parts: number}} request */
  heat({ selection, from, seconds, parts }) {
    const { time, stack, cpu, weight, stacks } = this.samples.columns;
    const { map } = this.derived(selection.steps);
    const weighted = this.meta.events[selection.event].weighted;
    const mask = this.samples.cpuMask(selection), second = 1e6 / this.meta.unit;
    const cells = new Float32Array(seconds * parts);
    const to = Math.min(from + seconds * second, this.meta.length);
    for (const { first, last } of this.samples.ranges({ ...selection, time: [from, to] })) {
      for (let at = first; at < last; at++) {
        if (mask && !mask[cpu[at]] || map[stacks[stack[at]]] < 0) continue;
        const offset = (time[at] - from) / second, column = Math.floor(offset);
        cells[column * parts + Math.floor((offset - column) * parts)] += weighted ? weight[at] : 1;
      }
    }
    return { cells };
  }
}

/** @param {Float64Array} values */
function sum(values) {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

/** Serves the page from within a worker. */
export function serve() {
  /** @type {any} */
  let engine = null;
  self.onmessage = async ({ data: { id, ask, request } }) => {
    try {
      if (ask === "open") engine = await Engine.open(request);
      const answer = ask === "open" ? true : engine[ask](request);
      self.postMessage({ id, answer });
    } catch (error) {
      self.postMessage({ id, error: String(error instanceof Error ? error.message : error) });
    }
  };
}
