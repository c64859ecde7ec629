// Answers what the page asks of the samples. Runs in a worker; in the page itself where there can be none.
import { isOff, KIND, unpackColumns, unpackMeta } from "./format.js";
import { derive, Frames, leftOut, pattern, standard, treeOf } from "./tree.js";
import { nodesWith, Placed, Samples, Weights } from "./weigh.js";
import { fromRoot, Merged, rowsOf } from "./layout.js";
import { inOrder } from "./order.js";
import { Ended } from "./ended.js";

/** @typedef {import("./weigh.js").Choice & {steps: import("./tree.js").Step[], search: string, other?: import("./weigh.js").Choice}} Selection `other` is the other side of a comparison. */
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
 * @property {{samples: number, weight: number}|null} other Of the other side of a comparison.
 * @property {{label: string, weight: number}[]} hidden What "only my code" left out, the most first: its weight is its callers'.
 */
/**
 * @typedef {object} Table
 * @property {Int32Array} functions Those that occur, by self.
 * @property {Float64Array} self By function.
 * @property {Float64Array} total
 * @property {Float64Array} samples Samples that have the function.
 * @property {{event: number, all: number, self: Float64Array, total: Float64Array}[]} others Further events.
 * @property {{self: Float64Array, total: Float64Array}[]|null} sides Of a comparison: before and after.
 */

/** Kinds that lanes tell apart. */
export const LANE_KINDS = 7;
/** The first of those that are off the CPU: runnable, blocked, waiting. */
export const FIRST_OFF = 4;
/** @param {number} kind */
const laneKind = kind => kind === KIND.kernel ? 1 : kind === KIND.generated ? 2 : isOff(kind) ? kind - KIND.runnable + FIRST_OFF : kind >= KIND.nameless ? 3 : 0;

export class Engine {
  /** @param {import("./format.js").Meta} meta @param {import("./format.js").Columns} columns */
  constructor(meta, columns) {
    this.meta = meta;
    this.frames = new Frames(meta);
    this.base = treeOf(columns.parent, columns.frame);
    /** @type {Record<string, Map<string, any>>} */
    this.caches = {};
    this.stackKinds = new Uint8Array(columns.stacks.length);
    const off = new Uint8Array(columns.stacks.length);
    columns.stacks.forEach((node, stack) => {
      const kind = this.frames.kind[columns.frame[node]];
      this.stackKinds[stack] = laneKind(kind);
      off[stack] = kind >= KIND.runnable ? 1 : 0;
    });
    this.samples = new Samples(columns, meta, off);
    this.ended = new Ended(meta, this.frames, this.samples);
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

  /** Weights on the other side of a comparison; `null` where nothing is compared. @param {Selection} selection */
  other(selection) {
    return selection.other ? this.weighed({ ...selection, ...selection.other }).weights : null;
  }

  /** The side of a comparison that a selection is of: 0 is before. @param {Selection} selection */
  sideOf({ event }) {
    return this.meta.sides ? event : 1;
  }

  /** Which stacks an event has that steps do not leave out. @param {number} event @param {import("./tree.js").Step[]} steps */
  admitted(event, steps) {
    return this.kept("admitted", [event, steps], () => {
      const { map } = this.derived(steps), { off, columns: { stacks } } = this.samples;
      const isPart = this.meta.events[event].of !== undefined;
      return Uint8Array.from(stacks, (node, stack) => map[node] >= 0 && (!isPart || off[stack]) ? 1 : 0);
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
    /** @type {Totals} */
    const totals = {
      samples: samples.all, weight: weights.all, all: all.weight, allSamples: all.samples,
      ...this.doubts(selection), lost, matched, error, found, hidden: this.hidden(selection), other: null,
    };
    if (selection.other) {
      const { weights, samples } = this.weighed({ ...selection, ...selection.other });
      totals.other = { weight: weights.all, samples: samples.all };
    }
    return { totals, table: table ? this.table(selection) : null };
  }

  /** What "only my code" left out, by where it was spent. @param {Selection} selection */
  hidden(selection) {
    if (!selection.steps.some(({ o }) => o === "mine")) return [];
    const { frames, meta, samples: { columns: { stacks, frame } } } = this, left = leftOut(frames, { o: "mine" });
    const { weights } = this.samples.ofStacks(selection);
    /** @type {Map<string, number>} */
    const sums = new Map();
    stacks.forEach((node, stack) => {
      const own = frame[node];
      if (!weights[stack] || !left[own]) return;
      const named = frames.functionOf[own], module = frames.moduleOf[named];
      const label = frames.kind[own] === KIND.kernel ? "the kernel" : standard(meta, frames, named) || (module >= 0 ? meta.modules[module] : "code without a module");
      sums.set(label, (sums.get(label) ?? 0) + weights[stack]);
    });
    return [...sums].map(([label, weight]) => ({ label, weight })).sort((one, other) => other.weight - one.weight);
  }

  /** @param {Selection} selection @returns {Table} */
  table(selection) {
    const { weights, samples } = this.weighed(selection);
    const { self, total } = weights.ofFunctions();
    const counted = samples === weights ? total : samples.ofFunctions().total;
    const other = this.other(selection)?.ofFunctions();
    const sides = other ? this.sideOf(selection) ? [other, { self, total }] : [{ self, total }, other] : null;
    const functions = [];
    for (let id = 0; id < total.length; id++) if (total[id] || other?.total[id]) functions.push(id);
    functions.sort((one, other) => self[other] - self[one] || total[other] - total[one] || one - other);
    if (sides) return { functions: Int32Array.from(functions), self, total, samples: counted, others: [], sides };
    const others = this.meta.events.flatMap((info, event) => {
      if (event === selection.event || !info.samples) return [];
      const { weights } = this.weighed({ ...selection, event });
      return [{ event, all: weights.all, ...weights.ofFunctions() }];
    });
    return { functions: Int32Array.from(functions), self, total, samples: counted, others, sides };
  }

  /**
   * @param {{selection: Selection, view: string, zoom: number[], named: number, pixels: number, bands: number[], window: [number, number]}} request
   *   `bands` are threads, `window` the time that is as wide as the picture.
   */
  boxes({ selection, view, zoom, named, pixels, bands, window: [from, to] }) {
    const { derived, weights } = this.weighed(selection), { tree } = derived, others = this.other(selection);
    if (view === "flame") return { boxes: fromRoot(tree, weights, zoom, pixels, others) };
    if (view === "order") {
      const ranges = bands.map(thread => {
        const { event, time } = selection.other && this.meta.sides && this.meta.threads[thread].side === selection.other.event ? selection.other : selection;
        const [first, last] = time ?? [0, this.meta.length];
        return this.samples.ranges({ event, time: [Math.max(first, from), Math.min(last, to)], threads: [thread], cpus: null });
      });
      const choice = { admits: this.admitted(selection.event, selection.steps), cpus: this.samples.cpuMask(selection), isTime: this.meta.events[selection.event].time };
      return { boxes: inOrder(this.samples, derived, ranges, choice, from, to, pixels) };
    }
    const callers = new Merged(tree, this.frames, weights, true, others), up = callers.of(named);
    const callees = new Merged(tree, this.frames, weights, false, others), down = callees.of(named);
    return {
      callers: callers.boxes(up.total ? callers.next(up) : [], up.frame, up, [], pixels),
      boxes: callees.boxes(down.total ? callees.next(down) : [], down.frame, down, zoom, pixels),
    };
  }

  /**
   * @param {{selection: Selection, view: string, named: number, open: string[], closed: string[]}} request
   * @returns {import("./layout.js").Rows}
   */
  rows({ selection, view, named, open, closed }) {
    const { derived: { tree }, weights } = this.weighed(selection), others = this.other(selection);
    const upward = view === "inverted" || view === "callers";
    const merged = new Merged(tree, this.frames, weights, upward, others);
    /** @type {import("./layout.js").Group[]} */
    let groups;
    if (view === "inverted") groups = merged.leaves();
    else if (view === "tree") {
      groups = merged.next({ frame: -2, nodes: [0], weights: [weights.all], total: weights.all, others: [others?.all ?? 0], other: others?.all ?? 0 });
    } else groups = [merged.of(named)].filter(group => group.total);
    const opened = new Set(open), shut = new Set(closed);
    // What changed beyond what changed everywhere.
    const all = others?.all && weights.all ? weights.all / others.all : 1, isAfter = this.sideOf(selection), factor = this.meta.sides?.factor ?? all;
    const change = (/** @type {number} */ weight, /** @type {number} */ other) => isAfter ? weight - other * factor : other - weight * factor;
    // The hottest way is open until it divides.
    // What changed most comes first in a comparison.
    return rowsOf(merged, groups, (path, share, hottest) => opened.has(path) || !shut.has(path) && hottest && !upward && share > 0.5 && path.length < 2000,
      others ? group => Math.abs(change(group.total, group.other)) : group => group.total);
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
   * @param {{events: number[], from: number, to: number, columns: number, lanes: number[][], byCpu: boolean, counters: number, threads: number[]|null,
   *   steps: import("./tree.js").Step[], named: number, search: string}} request
   */
  lanes({ events, from, to, columns, lanes, byCpu, counters, threads, steps, named, search }) {
    const { time, stack, cpu } = this.samples.columns, [event] = events, amountOf = this.samples.amounts(event);
    const { of } = this.meta.events[event];
    const kinds = this.stackKinds, kept = this.admitted(event, steps);
    const pointed = this.pointedOut(steps, named, search);
    const results = lanes.map(() => ({ kinds: new Float32Array(columns * LANE_KINDS), pointed: pointed && new Float32Array(columns) }));
    const laneOf = new Map();
    lanes.forEach((members, lane) => { for (const member of members) laneOf.set(member, [...laneOf.get(member) ?? [], lane]); });
    const scale = columns / (to - from);
    // Pieces of time lie around their time: one from outside may reach into the window.
    const { samples, meta } = this, { time: isTime } = meta.events[event], longest = isTime ? this.longestHalf(event) : 0;
    const ranges = events.flatMap(event => this.samples.ranges({ event, time: [Math.max(from - longest, 0), to + longest], threads: byCpu ? threads : null, cpus: null }));
    for (const range of ranges) {
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
          const amount = amountOf(at), half = isTime ? samples.half(at) : 0;
          const begin = Math.max((time[at] - half - from) * scale, 0), end = Math.min((time[at] + half - from) * scale, columns);
          const last = Math.min(half ? Math.ceil(end) - 1 : Math.floor(begin), columns - 1), all = 2 * half * scale;
          for (let column = Math.floor(begin); column <= last; column++) {
            const part = half ? amount * (Math.min(end, column + 1) - Math.max(begin, column)) / all : amount;
            result.kinds[column * LANE_KINDS + kinds[chosen]] += part;
            if (pointed && pointed[chosen] && result.pointed) result.pointed[column] += part;
          }
        }
      }
    }
    // Time off the CPU is in the lanes already.
    const hasWaits = !byCpu && of === undefined && !this.meta.events.some(part => part.of === event);
    return {
      lanes: results.map((result, lane) => ({ ...result, waits: hasWaits ? this.waits(lanes[lane], from, to, columns) : null })),
      counters: this.counters(event, from, to, columns).slice(0, counters),
    };
  }

  /**
   * From the first to the last sample with a function on its stack; `null` where there is none.
   * @param {{selection: Selection, named: number}} request @returns {[number, number]|null}
   */
  extent({ selection, named }) {
    const { time, stack, cpu } = this.samples.columns, { event, steps } = selection;
    const kept = this.admitted(event, steps), within = this.pointedOut(steps, named, ""), mask = this.samples.cpuMask(selection);
    if (!within || !this.meta.timed) return null;
    let from = Infinity, to = -Infinity;
    for (const { first, last } of this.samples.ranges(selection)) {
      for (let at = first; at < last; at++) {
        if (!kept[stack[at]] || !within[stack[at]] || mask && !mask[cpu[at]]) continue;
        if (time[at] < from) from = time[at];
        if (time[at] > to) to = time[at];
      }
    }
    return from <= to ? [from, to] : null;
  }

  /** Half the length of an event's longest piece of time, in units. @param {number} event */
  longestHalf(event) {
    return this.kept("longest", event, () => {
      let longest = 0;
      for (const { first, last } of this.samples.ranges({ event, time: null, threads: null, cpus: null })) {
        for (let at = first; at < last; at++) longest = Math.max(longest, this.samples.half(at));
      }
      return Math.ceil(longest);
    });
  }

  /** By column of time: CPUs that were busy, threads that were runnable, switches a second. @param {number} event @param {number} from @param {number} to @param {number} columns */
  counters(event, from, to, columns) {
    const { events, threads, unit } = this.meta, { time } = this.samples.columns;
    return this.kept("counters", [event, from, to, columns], () => {
      const busy = new Float32Array(columns), switches = new Float32Array(columns), scale = columns / (to - from);
      // What was sampled says how busy the CPUs were, whatever else is shown.
      const clock = events[event].nanoseconds && !events[event].time ? event : events.findIndex(({ nanoseconds, time }) => nanoseconds > 0 && !time);
      const column = (to - from) / columns * unit * 1e3;
      if (clock >= 0) for (const { first, last } of this.samples.ranges({ event: clock, time: [from, to], threads: null, cpus: null })) {
        const { weighted, nanoseconds } = events[clock], amountOf = this.samples.amounts(clock), each = weighted ? 1 : nanoseconds;
        for (let at = first; at < last; at++) busy[((time[at] - from) * scale) | 0] += amountOf(at) * each / column;
      }
      const all = this.waits([...threads.keys()], from, to, columns) ?? new Float32Array();
      const runnable = Float32Array.from(busy, (_, at) => (all[at * 2] ?? 0) * threads.length);
      for (const { from: starts } of this.samples.columns.waits) {
        for (const start of starts) if (start >= from && start < to) switches[((start - from) * scale) | 0] += 1e9 / column;
      }
      return [busy, runnable, switches];
    });
  }

  /**
   * The sample of some threads or CPUs that is nearest to a time, or the one before or after a sample, with its stack.
   * @param {{selection: Selection, members: number[]|null, byCpu: boolean, time: number, sample: number, by: number}} request
   * @returns {import("./moment.js").Stack|null}
   */
  moment({ selection, members, byCpu, time, sample, by }) {
    const { samples, ended } = this, { columns } = samples, { steps } = selection;
    // What a thread does that is off the CPU, samples of the CPU do not say.
    const only = !byCpu && !by && members?.length === 1 ? ended.waits.get(members[0]) : undefined;
    const event = only && ended.event >= 0 && Ended.at(only, time) >= 0 ? ended.event : selection.event;
    let found = sample;
    if (sample < 0 || by) {
      const kept = this.admitted(event, steps), cpus = samples.cpuMask({ event, time: null, threads: null, cpus: byCpu ? members : selection.cpus });
      const admits = (/** @type {number} */ at) => kept[columns.stack[at]] && (!cpus || cpus[columns.cpu[at]]);
      found = -1;
      // Pieces of time lie around their time.
      const half = (/** @type {number} */ at) => this.meta.events[event].time ? samples.half(at) : 0;
      const distance = (/** @type {number} */ at) => Math.max(Math.abs(columns.time[at] - time) - (by ? 0 : half(at)), 0);
      for (const { first, last } of samples.ranges({ event, time: null, threads: byCpu ? selection.threads : members, cpus: null })) {
        let after = samples.firstAt(first, last, time), before = after - 1;
        // Samples of one time go on in the order of their numbers.
        while (by && after < last && columns.time[after] === time && after <= sample) after++;
        before = by ? after - 1 : before;
        while (by && before >= first && columns.time[before] === time && before >= sample) before--;
        while (after < last && !admits(after)) after++;
        while (before >= first && !admits(before)) before--;
        for (const at of [by <= 0 && before >= first ? before : -1, by >= 0 && after < last ? after : -1]) {
          if (at < 0) continue;
          const nearer = found < 0 ? -1 : distance(at) - distance(found) || (by < 0 ? found - at : at - found);
          if (nearer < 0) found = at;
        }
      }
    }
    const segment = samples.segments.find(({ start, end }) => found >= start && found < end);
    if (!segment) return null;
    const { tree, map } = this.derived(steps), frames = [], at = columns.time[found];
    for (let node = map[columns.stacks[columns.stack[found]]]; node > 0; node = tree.parent[node]) frames.push(tree.frame[node]);
    const waits = ended.waits.get(segment.thread), last = waits ? Ended.at(waits, sample < 0 ? time : at) : -1;
    return {
      sample: found, event: segment.event, thread: segment.thread, cpu: columns.cpu[found] ?? -1, time: at, weight: columns.weight[found] ?? 1, count: columns.count[found] ?? 1, frames,
      wait: waits && last >= 0 ? {
        runnable: waits.runnable[last] === 1, from: waits.from[last], to: waits.to[last], waker: waits.waker[last],
        meanwhile: this.ended.meanwhile(waits.waker[last], [[waits.from[last], waits.to[last]]]),
      } : null,
    };
  }

  /**
   * The waits of a selection, or those with a function on the stack where it has any; `null` where the page does not know where threads waited.
   * @param {{selection: Selection, named: number}} request @returns {import("./ended.js").Endings|null}
   */
  endings({ selection, named }) {
    const { ended, meta } = this;
    if (ended.event < 0 || !meta.waits) return null;
    const kept = this.admitted(ended.event, selection.steps), within = this.pointedOut(selection.steps, named, "");
    const ofNamed = within && ended.endings(selection, stack => kept[stack] === 1 && within[stack] === 1);
    if (ofNamed?.places.length) return { ...ofNamed, isOfNamed: true };
    return { ...ended.endings(selection, stack => kept[stack] === 1), isOfNamed: false };
  }

  /**
   * Shares of columns of time in which threads were runnable, and blocked, in turns; `null` where nobody knows.
   * @param {number[]} threads @param {number} from @param {number} to @param {number} columns
   */
  waits(threads, from, to, columns) {
    const { waits } = this.samples.columns, set = new Set(threads);
    if (!waits.length) return null;
    const shares = new Float32Array(columns * 2), scale = columns / (to - from);
    for (const { thread, from: starts, to: ends, runnable } of waits) {
      if (!set.has(thread)) continue;
      for (let at = firstAbove(ends, from); at < starts.length && starts[at] < to; at++) {
        const left = Math.max(0, (starts[at] - from) * scale), right = Math.min(columns, (ends[at] - from) * scale);
        for (let column = Math.floor(left); column < right; column++) {
          shares[column * 2 + 1 - runnable[at]] += (Math.min(right, column + 1) - Math.max(left, column)) / threads.length;
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
    const { time, stack, cpu } = this.samples.columns, kept = this.admitted(selection.event, selection.steps);
    const amountOf = this.samples.amounts(selection.event);
    const mask = this.samples.cpuMask(selection), second = 1e6 / this.meta.unit;
    const cells = new Float32Array(seconds * parts);
    const to = Math.min(from + seconds * second, this.meta.length);
    for (const { first, last } of this.samples.ranges({ ...selection, time: [from, to] })) {
      for (let at = first; at < last; at++) {
        if (mask && !mask[cpu[at]] || !kept[stack[at]]) continue;
        const offset = (time[at] - from) / second, column = Math.floor(offset);
        cells[column * parts + Math.floor((offset - column) * parts)] += amountOf(at);
      }
    }
    return { cells };
  }
}

/** The first of some ascending numbers that is above a limit. @param {Uint32Array} numbers @param {number} limit */
function firstAbove(numbers, limit) {
  let first = 0, end = numbers.length;
  while (first < end) {
    const middle = (first + end) >>> 1;
    if (numbers[middle] <= limit) first = middle + 1;
    else end = middle;
  }
  return first;
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
