// Where frames lie: stacks from the root, merged stacks in either direction, stacks in the order of time; rows of call trees.

/**
 * Boxes of a picture, callers before what they call. Box 0 is the root. A box with frame -1 stands for boxes too narrow to see.
 * @typedef {object} Boxes
 * @property {number} count
 * @property {Int32Array} frame
 * @property {Int32Array} up The box that it lies on.
 * @property {Int32Array} depth
 * @property {Float64Array} x In the unit of the total.
 * @property {Float64Array} width
 * @property {Float64Array} self
 * @property {number} total Weight of the whole picture.
 * @property {number} origin Where the picture begins.
 * @property {number} hidden Boxes too narrow to see, at least.
 */

export class BoxList {
  constructor() {
    this.size = 1024;
    this.count = 0;
    this.frame = new Int32Array(this.size);
    this.up = new Int32Array(this.size);
    this.depth = new Int32Array(this.size);
    this.x = new Float64Array(this.size);
    this.width = new Float64Array(this.size);
    this.self = new Float64Array(this.size);
    this.hidden = 0;
  }
  /** @param {number} frame @param {number} up @param {number} depth @param {number} x @param {number} width @param {number} self */
  push(frame, up, depth, x, width, self) {
    if (this.count === this.size) this.grow();
    const at = this.count++;
    this.frame[at] = frame;
    this.up[at] = up;
    this.depth[at] = depth;
    this.x[at] = x;
    this.width[at] = width;
    this.self[at] = self;
    return at;
  }
  grow() {
    this.size *= 2;
    for (const name of /** @type {const} */ (["frame", "up", "depth"])) {
      const bigger = new Int32Array(this.size);
      bigger.set(this[name]);
      this[name] = bigger;
    }
    for (const name of /** @type {const} */ (["x", "width", "self"])) {
      const bigger = new Float64Array(this.size);
      bigger.set(this[name]);
      this[name] = bigger;
    }
  }
  /** @param {number} origin @param {number} total @returns {Boxes} */
  done(origin, total) {
    const { count } = this;
    return {
      count, total, origin, hidden: this.hidden,
      frame: this.frame.slice(0, count), up: this.up.slice(0, count), depth: this.depth.slice(0, count),
      x: this.x.slice(0, count), width: this.width.slice(0, count), self: this.self.slice(0, count),
    };
  }
}

/** The child of a node with this frame; -1 where there is none. @param {import("./tree.js").Tree} tree @param {number} node @param {number} frame */
export function childOf(tree, node, frame) {
  for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) if (tree.frame[child] === frame) return child;
  return -1;
}

/** A node by the frames on the way to it: as far as it is there. @param {import("./tree.js").Tree} tree @param {number[]} path @param {import("./weigh.js").Weights} weights */
export function nodeAt(tree, path, weights) {
  let node = 0;
  for (const frame of path) {
    const child = childOf(tree, node, frame);
    if (child < 0 || !weights.total(child)) break;
    node = child;
  }
  return node;
}

/**
 * Stacks from the root. What `zoom` leads to is as wide as the picture; what is below it, too.
 * @param {import("./tree.js").Tree} tree @param {import("./weigh.js").Weights} weights @param {number[]} zoom @param {number} pixels
 */
export function fromRoot(tree, weights, zoom, pixels) {
  const { frame, end, depth } = tree;
  const list = new BoxList(), top = nodeAt(tree, zoom, weights);
  const width = weights.total(top), least = width / pixels * 0.6;
  /** @type {number[]} */
  const below = [];
  for (let node = top; node > 0; node = tree.parent[node]) below.push(tree.parent[node]);
  below.reverse().forEach((node, level) => list.push(node ? frame[node] : -2, Math.max(0, level - 1), level, 0, width, weights.self(node)));
  const cursors = new Float64Array(tree.deepest + 2), boxAt = new Int32Array(cursors.length);
  const filler = new Int32Array(cursors.length).fill(-1);
  const start = depth[top];
  boxAt[start] = list.push(top ? frame[top] : -2, Math.max(0, list.count - 1), start, 0, width, weights.self(top));
  cursors[start + 1] = 0;
  for (let node = top + 1; node < end[top]; node++) {
    const weight = weights.total(node);
    if (weight === 0) {
      node = end[node] - 1;
      continue;
    }
    const level = depth[node], x = cursors[level];
    cursors[level] += weight;
    const up = boxAt[level - 1];
    if (weight < least) {
      list.hidden++;
      // Neighbours that are too narrow share a box.
      const last = filler[level];
      if (last >= 0 && list.up[last] === up && list.x[last] + list.width[last] === x) list.width[last] += weight;
      else filler[level] = list.push(-1, up, level, x, weight, 0);
      node = end[node] - 1;
      continue;
    }
    boxAt[level] = list.push(frame[node], up, level, x, weight, weights.self(node));
    cursors[level + 1] = x;
  }
  return list.done(0, width);
}

/**
 * Nodes that are shown as one, with what each gives.
 * @typedef {{frame: number, nodes: number[], weights: number[], total: number}} Group
 */

/** Puts nodes into groups by frame. */
class Grouping {
  /** @param {import("./tree.js").Tree} tree @param {import("./tree.js").Frames} frames */
  constructor(tree, frames) {
    this.tree = tree;
    this.slots = new Int32Array(frames.functionOf.length).fill(-1);
    /** @type {Group[]} */
    this.groups = [];
  }
  /** @param {number} node @param {number} weight */
  add(node, weight) {
    const frame = this.tree.frame[node];
    let slot = this.slots[frame];
    if (slot < 0) {
      slot = this.slots[frame] = this.groups.length;
      this.groups.push({ frame, nodes: [], weights: [], total: 0 });
    }
    const group = this.groups[slot];
    group.nodes.push(node);
    group.weights.push(weight);
    group.total += weight;
  }
  take() {
    const { groups } = this;
    this.groups = [];
    for (const { frame } of groups) this.slots[frame] = -1;
    return groups;
  }
}

/** Stacks merged from given nodes, to their callers or to what they call. */
export class Merged {
  /**
   * @param {import("./tree.js").Tree} tree @param {import("./tree.js").Frames} frames
   * @param {import("./weigh.js").Weights} weights @param {boolean} upward
   */
  constructor(tree, frames, weights, upward) {
    this.tree = tree;
    this.frames = frames;
    this.weights = weights;
    this.upward = upward;
    this.grouping = new Grouping(tree, frames);
  }
  /** Where samples were taken: the innermost frames. @returns {Group[]} */
  leaves() {
    this.weights.eachSelf((node, self) => { if (node) this.grouping.add(node, self); });
    return this.grouping.take();
  }
  /** The outermost nodes of a function, as one group. @param {number} named @returns {Group} */
  of(named) {
    const { tree, frames, weights } = this;
    /** @type {Group} */
    const group = { frame: -2, nodes: [], weights: [], total: 0 };
    const set = new Uint8Array(frames.moduleOf.length);
    set[named] = 1;
    const meant = frames.framesOf(set);
    for (let node = 1; node < tree.frame.length; node++) {
      const total = weights.total(node);
      if (!total) node = tree.end[node] - 1;
      else if (meant[tree.frame[node]]) {
        group.frame = tree.frame[node];
        group.nodes.push(node);
        group.weights.push(total);
        group.total += total;
        node = tree.end[node] - 1;
      }
    }
    return group;
  }
  /** @param {Group} group @returns {Group[]} */
  next(group) {
    const { tree, weights } = this;
    group.nodes.forEach((node, at) => {
      if (this.upward) {
        if (tree.parent[node] > 0) this.grouping.add(tree.parent[node], group.weights[at]);
      } else {
        for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) {
          const total = weights.total(child);
          if (total) this.grouping.add(child, total);
        }
      }
    });
    return this.grouping.take();
  }
  /** What a group has that none of the next groups has. @param {Group} group */
  selfOf(group) {
    let sum = 0;
    group.nodes.forEach((node, at) => {
      if (!this.upward) sum += this.weights.self(node);
      else if (this.tree.parent[node] === 0) sum += group.weights[at];
    });
    return sum;
  }
  /**
   * The picture of groups that lie on `root`, or of what `zoom` leads to.
   * @param {Group[]} groups @param {number} rootFrame @param {number} total @param {number[]} zoom @param {number} pixels
   */
  boxes(groups, rootFrame, total, zoom, pixels) {
    const list = new BoxList();
    let current = groups, at = list.push(rootFrame, 0, 0, 0, total, 0), width = total, depth = 0;
    const path = [at];
    for (const frame of zoom) {
      const group = current.find(group => group.frame === frame);
      if (!group) break;
      width = group.total;
      at = list.push(frame, at, ++depth, 0, width, this.selfOf(group));
      path.push(at);
      current = this.next(group);
    }
    for (const box of path) list.width[box] = width;
    const least = width / pixels * 0.6;
    /** @type {{groups: Group[], up: number, x: number, depth: number}[]} */
    const open = [{ groups: current, up: at, x: 0, depth: depth + 1 }];
    for (let job = open.shift(); job; job = open.shift()) {
      let { x } = job, filler = -1;
      job.groups.sort((one, other) => one.frame - other.frame);
      for (const group of job.groups) {
        if (group.total < least) {
          list.hidden++;
          if (filler >= 0) list.width[filler] += group.total;
          else filler = list.push(-1, job.up, job.depth, x, group.total, 0);
        } else {
          filler = -1;
          const box = list.push(group.frame, job.up, job.depth, x, group.total, this.selfOf(group));
          const next = this.next(group);
          if (next.length) open.push({ groups: next, up: box, x, depth: job.depth + 1 });
        }
        x += group.total;
      }
    }
    return list.done(0, width);
  }
}

/**
 * Rows of a call tree, as far as it is open.
 * @typedef {object} Rows
 * @property {number[]} frame -1: `total` rows were left out.
 * @property {number[]} depth
 * @property {number[]} total
 * @property {number[]} self
 * @property {boolean[]} open
 * @property {boolean[]} leaf
 */

const MOST_CHILDREN = 100;

/**
 * @param {Merged} merged @param {Group[]} groups @param {(path: string, share: number, only: boolean) => boolean} isOpen
 * @returns {Rows}
 */
export function rowsOf(merged, groups, isOpen) {
  /** @type {Rows} */
  const rows = { frame: [], depth: [], total: [], self: [], open: [], leaf: [] };
  /** @param {Group[]} groups @param {number} depth @param {string} path @param {number} all */
  const list = (groups, depth, path, all) => {
    groups.sort((one, other) => other.total - one.total || one.frame - other.frame);
    groups.slice(0, MOST_CHILDREN).forEach((group, rank) => {
      const own = path ? `${path}.${group.frame}` : `${group.frame}`;
      const self = merged.selfOf(group);
      const leaf = self >= group.total;
      const open = !leaf && rows.frame.length < 20_000 && isOpen(own, group.total / all, rank === 0);
      rows.frame.push(group.frame);
      rows.depth.push(depth);
      rows.total.push(group.total);
      rows.self.push(self);
      rows.open.push(open);
      rows.leaf.push(leaf);
      if (open) list(merged.next(group), depth + 1, own, group.total);
    });
    if (groups.length > MOST_CHILDREN) {
      rows.frame.push(-1);
      rows.depth.push(depth);
      rows.total.push(groups.length - MOST_CHILDREN);
      rows.self.push(0);
      rows.open.push(false);
      rows.leaf.push(true);
    }
  };
  list(groups, 0, "", groups.reduce((sum, group) => sum + group.total, 0) || 1);
  return rows;
}

/**
 * Samples of one thread in the order of time: boxes whose x is a time.
 * @param {import("./weigh.js").Samples} samples @param {import("./tree.js").Derived} derived
 * @param {{first: number, last: number}[]} ranges @param {Uint8Array|null} cpus @param {number} from @param {number} to @param {number} pixels
 */
export function inOrder(samples, { tree, map }, ranges, cpus, from, to, pixels) {
  const { time, stack, stacks, cpu } = samples.columns;
  const list = new BoxList(), root = list.push(-2, 0, 0, from, to - from, 0);
  // Of samples that fall onto one pixel the last is drawn.
  const pixel = (to - from) / pixels;
  /** @type {number[]} */
  const openNodes = [];
  /** @type {number[]} */
  const openBoxes = [];
  let shown = 0, all = 0, until = from, drawn = -Infinity;
  /** @param {number} level @param {number} end */
  const close = (level, end) => {
    while (openNodes.length > level) {
      openNodes.pop();
      const box = openBoxes.pop() ?? 0;
      list.width[box] = end - list.x[box];
    }
  };
  // A stack is taken to last until the next sample, but not much longer than samples usually lie apart.
  const usual = usualDistance(time, ranges) * 1.5 || pixel;
  for (const { first, last } of ranges) {
    for (let at = first; at < last; at++) {
      if (cpus && !cpus[cpu[at]]) continue;
      const node = map[stacks[stack[at]]];
      if (node < 0) continue;
      all++;
      const now = time[at], following = at + 1 < last ? time[at + 1] : to;
      if (at + 1 < last && following - drawn < pixel) continue;
      shown++;
      drawn = now;
      /** @type {number[]} */
      const path = [];
      for (let up = node; up > 0; up = tree.parent[up]) path.push(up);
      path.reverse();
      // What is less than a pixel is no gap.
      const joined = now - until < pixel, start = joined ? Math.max(until, from) : now;
      let same = 0;
      if (joined) while (same < openNodes.length && same < path.length && openNodes[same] === path[same]) same++;
      close(same, joined ? start : until);
      for (let level = same; level < path.length; level++) {
        openBoxes.push(list.push(tree.frame[path[level]], level ? openBoxes[level - 1] : root, level + 1, start, 0, 0));
        openNodes.push(path[level]);
      }
      until = Math.max(Math.min(following, now + usual, to), start + pixel / 4);
      for (const box of openBoxes) list.self[box]++;
    }
    close(0, until);
  }
  return { ...list.done(from, to - from), shown, all };
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
