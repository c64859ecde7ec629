// Samples in the order of time: a band for each thread, in which a pixel is a stack.
import { BoxList } from "./layout.js";

/** How long a stack is taken to last at most, in the usual distance of samples: a longer time without samples is a gap. */
const LASTS = 1.5;

/**
 * Bands of samples, one below the other: boxes whose x is a time. Box 0 is no frame; the first frames of a band have its first row.
 *
 * Samples that begin within one pixel are merged: from the outermost frame on, the callee that most of them have is drawn, up to where
 * more of them end than go on in one callee. Pieces of time count by their lengths.
 * @param {import("./weigh.js").Samples} samples @param {import("./tree.js").Derived} derived
 * @param {{first: number, last: number}[][]} bands Ranges of samples. @param {{admits: Uint8Array, cpus: Uint8Array|null, isTime: boolean}} choice
 * @param {number} from @param {number} to @param {number} pixels
 */
export function inOrder(samples, { tree, map }, bands, { admits, cpus, isTime }, from, to, pixels) {
  const { columns: { time, stack, stacks, cpu, weight, count: counts } } = samples;
  const list = new BoxList(), root = list.push(-3, 0, 0, from, to - from, 0);
  const pixel = (to - from) / pixels;
  /** Rows at which bands begin. @type {number[]} */
  const rows = [];
  let row = 0, all = 0, most = 0;
  for (const ranges of bands) {
    rows.push(row);
    // A stack is taken to last until the next sample, but not much longer than samples usually lie apart.
    const usual = usualDistance(time, ranges) * LASTS || pixel;
    /** @type {number[]} */
    const openNodes = [];
    /** @type {number[]} */
    const openBoxes = [];
    let until = from, deepest = 1;
    /** @param {number} level @param {number} end */
    const close = (level, end) => {
      while (openNodes.length > level) {
        openNodes.pop();
        const box = openBoxes.pop() ?? 0;
        list.width[box] = end - list.x[box];
      }
    };
    const order = inTime(ranges, time, at => admits[stack[at]] === 1 && (!cpus || cpus[cpu[at]] === 1));
    for (let at = 0; at < order.length;) {
      const first = order[at], column = Math.floor((time[first] - from) / pixel);
      /** @type {Map<number, number>} */
      const nodes = new Map();
      let end = at, last = first, count = 0, amount = 0;
      for (; end < order.length && Math.floor((time[order[end]] - from) / pixel) === column; end++) {
        last = order[end];
        const node = map[stacks[stack[last]]];
        const merged = counts.length ? counts[last] : 1, part = isTime ? weight[last] : merged;
        nodes.set(node, (nodes.get(node) ?? 0) + part);
        count += merged;
        amount += part;
      }
      all += count;
      if (count > most) most = count;
      const path = heaviestPath(tree, nodes, amount);
      // Pieces of time say how long they are, around their time.
      const half = isTime ? samples.half(last) : 0;
      const begin = isTime ? Math.max(time[first] - samples.half(first), from) : time[first];
      const following = end < order.length ? time[order[end]] : to;
      // What is less than a pixel is no gap.
      const joined = begin - until < pixel, start = joined ? Math.max(until, from) : begin;
      let same = 0;
      if (joined) while (same < openNodes.length && same < path.length && openNodes[same] === path[same]) same++;
      close(same, joined ? start : until);
      for (let level = same; level < path.length; level++) {
        openBoxes.push(list.push(tree.frame[path[level]], level ? openBoxes[level - 1] : root, row + level, start, 0, 0));
        openNodes.push(path[level]);
      }
      if (path.length > deepest) deepest = path.length;
      const lasts = isTime ? time[last] + half : Math.min(following, time[last] + usual);
      until = Math.max(Math.min(lasts, to), start + pixel / 4);
      for (const box of openBoxes) list.self[box] += count;
      at = end;
    }
    close(0, until);
    // A free row lies between bands.
    row += deepest + 1;
  }
  return { ...list.done(from, to - from), rows, all, most };
}

/** Samples of some ranges in the order of time. @param {{first: number, last: number}[]} ranges @param {Uint32Array} time @param {(at: number) => boolean} admits */
function inTime(ranges, time, admits) {
  const order = new Uint32Array(ranges.reduce((sum, { first, last }) => sum + last - first, 0));
  let count = 0;
  for (const { first, last } of ranges) for (let at = first; at < last; at++) if (admits(at)) order[count++] = at;
  const kept = order.subarray(0, count);
  return ranges.length > 1 ? kept.sort((one, other) => time[one] - time[other] || one - other) : kept;
}

/** The nodes from the outermost frame on where most of some samples go. @param {import("./tree.js").Tree} tree @param {Map<number, number>} nodes How many samples, or how much time, end at a node. @param {number} all The same of all nodes. */
function heaviestPath(tree, nodes, all) {
  let stacks = [...nodes].map(([node, samples]) => {
    /** @type {number[]} */
    const path = [];
    for (let up = node; up > 0; up = tree.parent[up]) path.push(up);
    return { path: path.reverse(), samples };
  });
  if (stacks.length === 1) return stacks[0].path;
  /** @type {number[]} */
  const heaviest = [];
  for (let left = all; ;) {
    /** @type {Map<number, number>} */
    const callees = new Map();
    let ended = left, best = -1, samplesOfBest = 0;
    for (const { path, samples } of stacks) {
      if (path.length <= heaviest.length) continue;
      const node = path[heaviest.length], sum = (callees.get(node) ?? 0) + samples;
      callees.set(node, sum);
      ended -= samples;
      if (sum > samplesOfBest || sum === samplesOfBest && node < best) [best, samplesOfBest] = [node, sum];
    }
    if (best < 0 || ended > samplesOfBest) return heaviest;
    stacks = stacks.filter(({ path }) => path[heaviest.length] === best);
    heaviest.push(best);
    left = samplesOfBest;
  }
}

/** Median of some distances. @param {Uint32Array} time @param {{first: number, last: number}[]} ranges */
function usualDistance(time, ranges) {
  const distances = [];
  for (const { first, last } of ranges) {
    const step = Math.max(1, Math.floor((last - first) / 500));
    for (let at = first + 1; at < last; at += step) distances.push(time[at] - time[at - 1]);
  }
  distances.sort((one, other) => one - other);
  return distances[distances.length >> 1] || 0;
}
