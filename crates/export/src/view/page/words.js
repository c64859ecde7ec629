// Numbers and names as a person reads them.
import { KIND } from "./format.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** @param {number} value */
export const grouped = value => whole.format(value);

/** @param {number} count @param {string} one @param {string} many */
export const counted = (count, one, many) => `${grouped(count)} ${count === 1 ? one : many}`;

/** A share in per cent, always of the same width where it matters. @param {number} part @param {number} all */
export function share(part, all) {
  if (!all) return "–";
  const percent = part / all * 100;
  if (percent > 0 && percent < 0.005) return "<0.01 %";
  return `${percent.toFixed(percent !== 0 && percent < 1 ? 2 : 1)} %`;
}

/** The sides of a comparison. */
export const SIDES = ["before", "after"];

/** A length of time. @param {number} nanoseconds */
export function duration(nanoseconds) {
  const absolute = Math.abs(nanoseconds);
  if (absolute >= 60e9) return `${Math.floor(nanoseconds / 60e9)} min ${((nanoseconds % 60e9) / 1e9).toFixed(1)} s`;
  if (absolute >= 1e9) return `${(nanoseconds / 1e9).toFixed(2)} s`;
  if (absolute >= 1e6) return `${(nanoseconds / 1e6).toFixed(absolute >= 1e8 ? 0 : 1)} ms`;
  return `${(nanoseconds / 1e3).toFixed(0)} µs`;
}

/** A large number in few letters. @param {number} value */
export function short(value) {
  for (const [size, letter] of /** @type {[number, string][]} */ ([[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])) {
    if (value >= size) return `${(value / (letter === "k" ? 1e3 : size)).toFixed(letter === "k" ? 1 : 2)} ${letter}`;
  }
  return grouped(value);
}

/** Speaks of one recording. */
export class Words {
  /** @param {import("./format.js").Meta} meta */
  constructor(meta) {
    this.meta = meta;
    this.functions = meta.functions.name.length;
    this.frames = meta.frames.kind.length;
    /** @type {Map<number, string[]>} */
    this.parsed = new Map();
    /** What is compared: the factor by which everything changed, and the weight of a sample on average on both sides. @type {{factor: number, means: number[]}|null} */
    this.comparison = meta.sides ?? null;
  }

  /** Compares two times of one recording, or nothing. Differences are beyond that of all, so that they are those of shares. @param {import("./engine.js").Totals|null} totals After, with what was before. */
  compare(totals) {
    if (this.meta.sides) return;
    const before = totals?.other, mean = (/** @type {{weight: number, samples: number}} */ { weight, samples }) => weight / (samples || 1);
    this.comparison = totals && before ? { factor: before.weight && totals.weight ? totals.weight / before.weight : 1, means: [mean(before), mean(totals)] } : null;
  }

  /** The unit of weights of an event, for headings. @param {number} event */
  unit(event) {
    const { nanoseconds, noun } = this.meta.events[event];
    return nanoseconds ? "ms" : noun;
  }
  /** A weight for a table with that heading. @param {number} weight @param {number} event */
  cell(weight, event) {
    const { nanoseconds, weighted } = this.meta.events[event];
    if (nanoseconds) {
      const ms = weight * (weighted ? 1 : nanoseconds) / 1e6;
      return ms >= 100 || ms === 0 ? grouped(ms) : ms.toFixed(1);
    }
    return weighted ? short(weight) : grouped(weight);
  }
  /** A weight with its noun. @param {number} weight @param {number} event */
  amount(weight, event) {
    const { nanoseconds, weighted, noun } = this.meta.events[event];
    if (nanoseconds) return duration(weight * (weighted ? 1 : nanoseconds));
    if (weighted) return `${short(weight)} ${noun}`;
    return counted(weight, "sample", "samples");
  }
  /** A time within the recording, in seconds, as fine as a step needs. @param {number} units @param {number} [step] Units. */
  time(units, step = 1) {
    const { unit } = this.meta, seconds = units * unit / 1e6, fine = step * unit / 1e6;
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(fine) - 1e-9)));
    return `${seconds.toFixed(digits)} s`;
  }
  /** What changed, beyond what changed everywhere: after, less before. @param {number} before @param {number} after */
  change(before, after) {
    return after - before * (this.comparison?.factor ?? 1);
  }
  /** A change with its sign. @param {number} change @param {number} event */
  signed(change, event) {
    return `${change < 0 ? "−" : "+"}${this.amount(Math.abs(change), event)}`;
  }
  /** By what something changed, as a factor. @param {number} before @param {number} after */
  factor(before, after) {
    return before ? after ? `× ${(after / before).toFixed(2)}` : "gone" : after ? "new" : "–";
  }
  /** A length of time in words. @param {number} units */
  length(units) {
    return duration(units * this.meta.unit * 1e3);
  }
  /** A thread with its number, and in a comparison its side. @param {number} thread */
  threadName(thread) {
    const { name, tid, side } = this.meta.threads[thread];
    return `${this.meta.sides ? `${SIDES[side]}: ` : ""}${name}${tid < 0 ? "" : ` ${tid}`}`;
  }
  /** The same time as `--time` takes it, on the recorder's clock. @param {[number, number]} time @param {number} [side] Of a comparison. */
  timeFlag([from, to], side = 0) {
    // Both ends of --time are included; ours is not. Microseconds and above are kept apart: numbers are not that exact.
    const { unit, sides } = this.meta, origin = sides?.names[side].origin ?? this.meta.origin;
    /** @param {number} micro */
    const seconds = micro => `${Math.floor(micro / 1e6)}.${String(micro % 1e6).padStart(6, "0")}`;
    return `--time @${seconds(origin + from * unit)},@${seconds(origin + to * unit - 1)}999`;
  }

  /** The name of a function; modules that were collapsed are numbered behind the functions. @param {number} named */
  functionName(named) {
    const { names, modules, functions } = this.meta;
    return named < this.functions ? names[functions.name[named]] : `[${modules[named - this.functions]}]`;
  }
  /** @param {number} named */
  moduleOf(named) {
    const { modules, functions } = this.meta;
    if (named >= this.functions) return modules[named - this.functions];
    const module = functions.module[named];
    return module < 0 ? "" : modules[module];
  }
  /** @param {number} frame */
  functionAt(frame) {
    return frame < this.frames ? this.meta.frames.function[frame] : this.functions + frame - this.frames;
  }
  /** @param {number} frame */
  kindOf(frame) {
    return frame < this.frames ? this.meta.frames.kind[frame] : KIND.user;
  }
  /** @param {number} frame -2 is the root. */
  frameName(frame) {
    return frame === -2 ? "all" : this.functionName(this.functionAt(frame));
  }
  /** Where a frame ran, in words. @param {number} frame */
  kindName(frame) {
    if (frame < 0) return "";
    return ["", "kernel", "inlined", "generated code", "no name", "stack cut", "", "not sampled", "runnable", "blocked", "waiting for events", "switches not recorded"][this.kindOf(frame)];
  }

  /** The parts of a function's name, of which a narrow frame shows the last. @param {number} named */
  parts(named) {
    let parts = this.parsed.get(named);
    if (!parts) {
      const name = this.functionName(named).slice(0, 4000);
      const cuts = named < this.functions ? this.meta.functions.cuts[named] : 0;
      if (typeof cuts !== "string") parts = [name];
      else {
        const ranges = cuts.split(" ").map(part => part.split(",").map(range => range.split("-").map(Number)));
        const flat = ranges.flat();
        flat.forEach((range, at) => range[1] ??= at + 1 < flat.length ? flat[at + 1][0] : name.length);
        parts = ranges.map(part => part.map(([from, to]) => name.slice(from, to)).join(""));
      }
      this.parsed.set(named, parts);
    }
    return parts;
  }
  /** As much of a function's name as fits into some columns of letters: all, class and method, the method, its beginning. @param {number} named @param {number} room */
  fitted(named, room) {
    if (room < 2) return "";
    const parts = this.parts(named);
    let label = "";
    for (const first of [0, -2, -1]) {
      label = parts.slice(first).join("");
      if (columns(label) <= room) return label;
    }
    if (room < 4) return "";
    let cut = label.slice(0, room);
    while (columns(cut) >= room) cut = [...cut].slice(0, -1).join("");
    return `${cut}…`;
  }
}

/** Columns that letters take in a font of fixed width. @param {string} text */
export function columns(text) {
  if (/^[\0-\u10ff]*$/.test(text)) return text.length;
  let columns = 0;
  for (const letter of text) columns += letter < "\u1100" ? 1 : 2;
  return columns;
}
