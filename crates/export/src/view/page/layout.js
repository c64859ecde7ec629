// Where frames lie: stacks from the root, merged stacks in either direction; rows of call trees.

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
 * @property {Float64Array} other In a comparison, weight on the other side.
 * @property {number} total Weight of the whole picture.
 * @property {number} origin Where the picture begins.
 * @property {number} hidden Boxes too narrow to see, at least.
 * @property {number[]} [rows] Depths at which bands begin: of samples in the order of time.
 * @property {number} [all] Samples in the order of time.
 * @property {number} [most] The most of them that one pixel stands for.
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
    this.other = new Float64Array(this.size);
    this.hidden = 0;
  }
  /** @param {number} frame @param {number} up @param {number} depth @param {number} x @param {number} width @param {number} self @param {number} [other] */
  push(frame, up, depth, x, width, self, other = 0) {
    if (this.count === this.size) this.grow();
    const at = this.count++;
    this.frame[at] = frame;
    this.up[at] = up;
    this.depth[at] = depth;
    this.x[at] = x;
    this.width[at] = width;
    this.self[at] = self;
    this.other[at] = other;
    return at;
  }
  grow() {
    this.size *= 2;
    for (const name of /** @type {const} */ (["frame", "up", "depth"])) {
      const bigger = new Int32Array(this.size);
      bigger.set(this[name]);
      this[name] = bigger;
    }
    for (const name of /** @type {const} */ (["x", "width", "self", "other"])) {
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
      x: this.x.slice(0, count), width: this.width.slice(0, count), self: this.self.slice(0, count), other: this.other.slice(0, count),
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
 * @param {import("./weigh.js").Weights|null} others Weights on the other side of a comparison.
 */
export function fromRoot(tree, weights, zoom, pixels, others) {
  const otherOf = (/** @type {number} */ node) => others?.total(node) ?? 0;
  const { frame, end, depth } = tree;
  const list = new BoxList(), top = nodeAt(tree, zoom, weights);
  const width = weights.total(top), least = width / pixels * 0.6;
  /** @type {number[]} */
  const below = [];
  for (let node = top; node > 0; node = tree.parent[node]) below.push(tree.parent[node]);
  below.reverse().forEach((node, level) => list.push(node ? frame[node] : -2, Math.max(0, level - 1), level, 0, width, weights.self(node), otherOf(node)));
  const cursors = new Float64Array(tree.deepest + 2), boxAt = new Int32Array(cursors.length);
  const filler = new Int32Array(cursors.length).fill(-1);
  const start = depth[top];
  boxAt[start] = list.push(top ? frame[top] : -2, Math.max(0, list.count - 1), start, 0, width, weights.self(top), otherOf(top));
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
    boxAt[level] = list.push(frame[node], up, level, x, weight, weights.self(node), otherOf(node));
    cursors[level + 1] = x;
  }
  return list.done(0, width);
}

/**
 * Nodes that are shown as one, with what each gives.
 * @typedef {{frame: number, nodes: number[], weights: number[], total: number, others: number[], other: number}} Group `others` and `other` are
 *   the weights on the other side of a comparison.
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
  /** @param {number} node @param {number} weight @param {number} other */
  add(node, weight, other) {
    const frame = this.tree.frame[node];
    let slot = this.slots[frame];
    if (slot < 0) {
      slot = this.slots[frame] = this.groups.length;
      this.groups.push({ frame, nodes: [], weights: [], total: 0, others: [], other: 0 });
    }
    const group = this.groups[slot];
    group.nodes.push(node);
    group.weights.push(weight);
    group.total += weight;
    group.others.push(other);
    group.other += other;
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
   * @param {import("./weigh.js").Weights} weights @param {boolean} upward @param {import("./weigh.js").Weights|null} others Weights on the other side of a comparison.
   */
  constructor(tree, frames, weights, upward, others) {
    this.others = others;
    this.tree = tree;
    this.frames = frames;
    this.weights = weights;
    this.upward = upward;
    this.grouping = new Grouping(tree, frames);
  }
  /** Where samples were taken: the innermost frames. @returns {Group[]} */
  leaves() {
    this.weights.eachSelf((node, self) => { if (node) this.grouping.add(node, self, 0); });
    this.others?.eachSelf((node, self) => { if (node) this.grouping.add(node, 0, self); });
    return this.grouping.take();
  }
  /** The outermost nodes of a function, as one group. @param {number} named @returns {Group} */
  of(named) {
    const { tree, frames, weights } = this;
    /** @type {Group} */
    const group = { frame: -2, nodes: [], weights: [], total: 0, others: [], other: 0 };
    const set = new Uint8Array(frames.moduleOf.length);
    set[named] = 1;
    const meant = frames.framesOf(set);
    for (let node = 1; node < tree.frame.length; node++) {
      const total = weights.total(node), other = this.others?.total(node) ?? 0;
      if (!total && !other) node = tree.end[node] - 1;
      else if (meant[tree.frame[node]]) {
        group.frame = tree.frame[node];
        group.nodes.push(node);
        group.weights.push(total);
        group.total += total;
        group.others.push(other);
        group.other += other;
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
        if (tree.parent[node] > 0) this.grouping.add(tree.parent[node], group.weights[at], group.others[at]);
      } else {
        for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) {
          const total = weights.total(child), other = this.others?.total(child) ?? 0;
          if (total || other) this.grouping.add(child, total, other);
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
   * @param {Group[]} groups @param {number} rootFrame @param {{total: number, other: number}} all @param {number[]} zoom @param {number} pixels
   */
  boxes(groups, rootFrame, { total, other }, zoom, pixels) {
    const list = new BoxList();
    let current = groups, at = list.push(rootFrame, 0, 0, 0, total, 0, other), width = total, depth = 0;
    const path = [at];
    for (const frame of zoom) {
      const group = current.find(group => group.frame === frame);
      if (!group) break;
      width = group.total;
      at = list.push(frame, at, ++depth, 0, width, this.selfOf(group), group.other);
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
        if (!group.total) continue;
        if (group.total < least) {
          list.hidden++;
          if (filler >= 0) list.width[filler] += group.total;
          else filler = list.push(-1, job.up, job.depth, x, group.total, 0);
        } else {
          filler = -1;
          const box = list.push(group.frame, job.up, job.depth, x, group.total, this.selfOf(group), group.other);
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
 * @property {number[]} other In a comparison, totals on the other side.
 * @property {boolean[]} open
 * @property {boolean[]} leaf
 */

const MOST_CHILDREN = 100;

/**
 * @param {Merged} merged @param {Group[]} groups @param {(path: string, share: number, only: boolean) => boolean} isOpen
 * @param {(group: Group) => number} size By which rows are sorted.
 * @returns {Rows}
 */
export function rowsOf(merged, groups, isOpen, size) {
  /** @type {Rows} */
  const rows = { frame: [], depth: [], total: [], self: [], other: [], open: [], leaf: [] };
  /** @param {Group[]} groups @param {number} depth @param {string} path @param {number} all */
  const list = (groups, depth, path, all) => {
    groups.sort((one, other) => size(other) - size(one) || one.frame - other.frame);
    groups.slice(0, MOST_CHILDREN).forEach((group, rank) => {
      const own = path ? `${path}.${group.frame}` : `${group.frame}`;
      const self = merged.selfOf(group);
      const leaf = self >= group.total && !merged.next(group).length;
      const open = !leaf && rows.frame.length < 20_000 && isOpen(own, size(group) / all, rank === 0);
      rows.frame.push(group.frame);
      rows.depth.push(depth);
      rows.total.push(group.total);
      rows.self.push(self);
      rows.other.push(group.other);
      rows.open.push(open);
      rows.leaf.push(leaf);
      if (open) list(merged.next(group), depth + 1, own, size(group) || 1);
    });
    if (groups.length > MOST_CHILDREN) {
      rows.frame.push(-1);
      rows.depth.push(depth);
      rows.total.push(groups.length - MOST_CHILDREN);
      rows.self.push(0);
      rows.other.push(0);
      rows.open.push(false);
      rows.leaf.push(true);
    }
  };
  list(groups, 0, "", groups.reduce((sum, group) => sum + size(group), 0) || 1);
  return rows;
}
