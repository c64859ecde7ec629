// The data of the page: unpacks the blocks that the exporter wrote. Their layout is described in `view/blocks.rs`.

/**
 * @typedef {object} EventInfo
 * @property {string} name
 * @property {string} noun What is counted: "samples", or the event where samples differ in what they stand for.
 * @property {boolean} weighted Whether samples carry weights of their own.
 * @property {number} nanoseconds What a sample of a clock stands for; 0 for other events.
 * @property {boolean} time Whether samples are pieces of the time of threads.
 * @property {boolean} cpus Whether samples say on which CPU they were taken.
 * @property {number} [of] Of a part of an event: the event that has its samples. The part has those off the CPU.
 * @property {number} samples
 */
/**
 * @typedef {object} Meta
 * @property {number} version
 * @property {string} title
 * @property {string} recording What it is called, for commands.
 * @property {string[]} facts
 * @property {string[]} truth
 * @property {number} origin Absolute time of unit 0, in microseconds of the recording's clock.
 * @property {number} unit Microseconds of one unit of time.
 * @property {number} length Units from the first to behind the last sample.
 * @property {boolean} timed Whether samples say when they were taken.
 * @property {number} cpus One more than the highest CPU number; 0 where samples do not say.
 * @property {EventInfo[]} events
 * @property {{name: string, pid: number}[]} processes
 * @property {{process: number, name: string, tid: number, pool: string, start: number, side: number}[]} threads With the time of the first sample, in units; the side is 0 but after a change.
 * @property {[number, number, number, number][]} segments Event, thread, length, and samples, which are more where some were merged: in the
 *   order of the columns.
 * @property {string[]} names
 * @property {string[]} modules The last may be that of `start`.
 * @property {{module: number, parts: number[][]}|null} start What folds starts: the module that their frame is shown as; frames with their parts in a start.
 * @property {number[]} mine Whether a module is the user's own code.
 * @property {string[]} packages What functions in the user's own modules are of that are not the user's.
 * @property {{name: number[], module: number[], cuts: (string|number)[], package: number[]}} functions With numbers of `packages` from 1, 0 for none; all are none where there is no list. Names are packed as differences.
 * @property {{function: number[], kind: number[], colour: number[]}} frames Functions are packed as differences.
 * @property {[number, number][]} [unrecorded] From, to (units) where switches, and so waits, were not recorded; with `waits`.
 * @property {[number, number, number, number][]} gaps From, to (units), records lost in between (0 where the kernel throttled the event), and the side.
 * @property {{lines: string[], path: [number, number, number, number][]}} [waiting] Who made threads wait, in lines; and the critical path: from,
 * to (units), lane, and 0 where its thread ran, 1 where it was ready for a CPU, 2 where it was blocked. Absent where that is not known.
 * @property {[number, number][]} [waits] Thread, and how many waits it has; absent where switches were not recorded.
 * @property {{name: string, tid: number|null, thread: number|null}[]} [wakers] Who ended waits, with the number of the thread's lane where it has one;
 *   absent where wakings were not recorded.
 * @property {string[]} [sources] Paths of source files; absent in pages without source, like the two that follow.
 * @property {{file: number[], line: number[]}} [lines] The lines that stacks end on; stacks count them from 1.
 * @property {[number, number, string[]][]} [texts] File, number of the first line, lines.
 * @property {Code} [code] Absent in pages without instructions.
 * @property {{same: number[], grew: number[][], shrank: number[][], chance: number}} marks Red, green and blue of frames that changed, from the
 *   least change to the greatest, and the standard deviations of counting samples that a change must exceed to have a colour.
 * @property {Sides} [sides] Of a page that compares two recordings: its events are the one before and the one after.
 */

/**
 * @typedef {object} Code Instructions of all ranges, one range behind the other.
 * @property {{function: number, name: string, module: string, start: string, count: number, missing: string|null}[]} ranges Pieces of
 *   functions: -1 for a function whose frames have no samples, address of the first instruction in hexadecimal.
 * @property {number[]} lengths Bytes of each instruction.
 * @property {string[]} texts
 * @property {number[]} jumps Where each jumps to within its range: how many instructions on; 0 for those that do not.
 * @property {number[]} places Number of its source line in `labels`, from 1; 0 where it is not known.
 * @property {[string, string][]} labels File and line, and the line's text, empty where it was not found.
 */

/**
 * @typedef {object} Sides
 * @property {{name: string, title: string, origin: number}[]} names With the times of the first samples, in microseconds of each recording's clock.
 * @property {number} factor By which everything changed; 1 where that may be chance. Differences are beyond it.
 * @property {number[]} means Weight of a sample on average.
 * @property {[number, number|null, number|null, string][]} changes Function, the interval of the factor by which it changed, and what became of it.
 */

/**
 * @typedef {object} Columns
 * @property {Int32Array} parent Of each node of the tree of stacks, which lies in preorder.
 * @property {Int32Array} frame
 * @property {Int32Array} stacks Node of each stack, in the order of the tree.
 * @property {Int32Array} lines Line of each stack, from 1; 0 where it is not known. Empty in pages without source.
 * @property {Int32Array} instructions Instruction of each stack, from 1; 0 where its code is not in the page. Empty in pages without code.
 * @property {Uint32Array} time Units since the origin, ascending within a segment.
 * @property {Uint16Array|Uint32Array} stack Number in `stacks`.
 * @property {Waits[]} waits
 * @property {Uint16Array} cpu Empty where samples do not say.
 * @property {Float64Array} weight Empty where no event is weighted.
 * @property {Uint32Array} count How many samples each stands for; empty where it is one.
 */

/** When a thread was off the CPU, and who ended that: a number of `meta.wakers`, from 1. @typedef {{thread: number, from: Uint32Array, to: Uint32Array, runnable: Uint8Array, waker: Uint16Array}} Waits */

/** Kinds of frames, as the exporter numbers them. */
export const KIND = { user: 0, kernel: 1, inlined: 2, generated: 3, nameless: 4, truncated: 5, root: 6, unsampled: 7, runnable: 8, blocked: 9, waiting: 10, unknown: 11 };

/** Whether a frame is the state of a thread that was off the CPU. @param {number} kind */
export const isOff = kind => kind >= KIND.runnable && kind <= KIND.waiting;

/** @param {string} text Base64 of a zlib stream. @param {string} name Of the block. */
export async function unpack(text, name) {
  try {
    return await inflated(text);
  } catch (error) {
    const why = error instanceof RangeError ? "there is not enough memory" : "the page is damaged, or was cut";
    throw new Error(`cannot unpack the data (${name}): ${why}`);
  }
}

/** @param {string} text */
async function inflated(text) {
  const from = /** @type {any} */ (Uint8Array).fromBase64;
  let bytes;
  if (from) bytes = from.call(Uint8Array, text);
  else {
    const binary = atob(text.trim());
    bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {string} text @returns {Promise<Meta>} */
export async function unpackMeta(text) {
  if (!text) throw new Error("the page carries no data: it was cut");
  const meta = JSON.parse(new TextDecoder().decode(await unpack(text, "meta")));
  if (meta.version !== 1) throw new Error(`the data is of version ${meta.version}, this page reads version 1`);
  for (const numbers of [meta.functions.name, meta.frames.function]) {
    for (let at = 1; at < numbers.length; at++) numbers[at] += numbers[at - 1];
  }
  return meta;
}

/** Reads variable-length integers (LEB128), as many as there are. */
class Integers {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  next() {
    const { bytes } = this;
    let byte = bytes[this.at++];
    if (byte < 0x80) return byte;
    let value = byte & 0x7f, scale = 0x80;
    do {
      if (this.at >= bytes.length) throw new Error("the data ends early");
      byte = bytes[this.at++];
      value += (byte & 0x7f) * scale;
      scale *= 0x80;
    } while (byte >= 0x80);
    return value;
  }
  signed() {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
  get ended() {
    return this.at >= this.bytes.length;
  }
}

/** @param {Record<string, string>} blocks @param {Meta} meta @returns {Promise<Columns>} */
export async function unpackColumns(blocks, meta) {
  const names = ["nodes", "stacks", "times", "samples", "cpus", "weights", "lines", "waits", "instructions", "counts", "wakers"];
  const unpacked = await Promise.all(names.map(name => name in blocks ? unpack(blocks[name], name) : new Uint8Array()));
  const [nodes, stackNodes, times, samples, cpus, weights, stackLines, spans, ends, counts, enders] = unpacked.map(bytes => new Integers(bytes));
  const nodeCount = nodes.next();
  const parent = new Int32Array(nodeCount), frame = new Int32Array(nodeCount);
  for (let node = 1; node < nodeCount; node++) {
    let above = node - 1;
    for (let levels = nodes.next(); levels > 0 && above > 0; levels--) above = parent[above];
    parent[node] = above;
  }
  for (let node = 1; node < nodeCount; node++) frame[node] = nodes.next();
  const stacks = new Int32Array(stackNodes.next());
  for (let stack = 0, node = 0; stack < stacks.length; stack++) stacks[stack] = node += stackNodes.next();
  const lines = new Int32Array("lines" in blocks ? stacks.length : 0);
  for (let stack = 0; stack < lines.length; stack++) lines[stack] = stackLines.next();
  const instructions = new Int32Array("instructions" in blocks ? stacks.length : 0);
  for (let stack = 0; stack < instructions.length; stack++) instructions[stack] = ends.next();
  const count = meta.segments.reduce((sum, segment) => sum + segment[2], 0);
  const time = new Uint32Array(meta.timed ? count : 0);
  const stack = stacks.length <= 0x10000 ? new Uint16Array(count) : new Uint32Array(count);
  const cpu = new Uint16Array(meta.cpus ? count : 0);
  const weight = new Float64Array(meta.events.some(event => event.weighted) ? count : 0);
  const merged = new Uint32Array("counts" in blocks ? count : 0);
  for (let sample = 0; sample < merged.length; sample++) merged[sample] = counts.next() + 1;
  let at = 0;
  for (const [event, , length] of meta.segments) {
    const weighted = meta.events[event].weighted;
    for (let end = at + length, now = 0, delta = 0, ending = 0, where = 0, last = 0; at < end; at++) {
      stack[at] = ending += samples.signed();
      if (meta.timed) time[at] = now += delta = Math.max(0, delta + times.signed());
      if (meta.cpus) cpu[at] = where += cpus.signed();
      if (weight.length) weight[at] = weighted ? last += weights.signed() : 1;
    }
  }
  const waits = (meta.waits ?? []).map(([thread, count]) => {
    const from = new Uint32Array(count), to = new Uint32Array(count), runnable = new Uint8Array(count), waker = new Uint16Array(count);
    for (let at = 0, end = 0; at < count; at++) {
      from[at] = end += spans.next();
      const length = spans.next();
      runnable[at] = length % 2;
      to[at] = end += Math.floor(length / 2);
      if (!runnable[at] && "wakers" in blocks) waker[at] = enders.next();
    }
    return { thread, from, to, runnable, waker };
  });
  for (const column of [nodes, stackNodes, times, samples, cpus, weights, stackLines, spans, ends, counts, enders]) {
    if (!column.ended || column.at > column.bytes.length) throw new Error("the data is damaged");
  }
  return { parent, frame, stacks, lines, instructions, time, stack, cpu, weight, count: merged, waits };
}
