// The tree of stacks: changed by the reader's list of steps, weighed for a selection.
import { KIND } from "./format.js";

/**
 * Nodes in preorder, siblings in the order of their frames (which are numbered by name). Node 0 is the root of all.
 * @typedef {object} Tree
 * @property {Int32Array} parent
 * @property {Int32Array} frame
 * @property {Int32Array} end Behind the last node of the subtree.
 * @property {Int32Array} depth
 * @property {number} deepest
 */
/**
 * What the reader did to the stacks. `f` is a function, `m` a module, `p` a pattern.
 * @typedef {{o: "hide"|"keep"|"root"|"merge"|"recursion"|"module"|"mine"|"threads"|"all", f?: number, m?: number, p?: string}} Step
 */
/** @typedef {{tree: Tree, map: Int32Array}} Derived `map`: base node to node of the tree, -1 where its samples are left out. */

/** @param {Int32Array} parent @param {Int32Array} frame @returns {Tree} */
export function treeOf(parent, frame) {
  const count = parent.length;
  const end = new Int32Array(count), depth = new Int32Array(count);
  let deepest = 0;
  for (let node = 1; node < count; node++) {
    depth[node] = depth[parent[node]] + 1;
    if (depth[node] > deepest) deepest = depth[node];
  }
  for (let node = count - 1; node >= 0; node--) {
    if (!end[node]) end[node] = node + 1;
    if (node) end[parent[node]] = Math.max(end[parent[node]], end[node]);
  }
  return { parent, frame, end, depth, deepest };
}

/** What compilers and linkers add to the end of a name: numbers of clones, and versions of symbols. */
const ADDED = /( ?\(?\.(llvm|part|constprop|isra|lto_priv|cold|specialized|localalias)(\.\d{1,20})?\)?| \[clone [^\]]{1,40}\]|::h[0-9a-f]{16}|@@?[A-Z]\w{1,20}_[\w.]{1,20})$/;
/** Longest end of a name that may be added, and how many of these there may be: names can be hostile. */
const LONGEST_ADDED = 64, MOST_ADDED = 4;
/** A name as it stands in the source. @param {string} name */
function asWritten(name) {
  for (let count = 0; count < MOST_ADDED; count++) {
    const added = ADDED.exec(name.slice(-LONGEST_ADDED));
    if (!added) break;
    name = name.slice(0, name.length - added[0].length);
  }
  return name;
}

/**
 * What text asks for: plain text (case counts only where a capital is typed), or `/…/`, a regular expression,
 * of a name as it is shown, or without what compilers add to it.
 * @param {string} text @returns {{test: (name: string) => boolean, error: string}}
 */
export function pattern(text) {
  const expression = /^\/(.+)\/$/.exec(text);
  if (expression) {
    try {
      const compiled = new RegExp(expression[1], "u");
      return {
        test: name => {
          const own = asWritten(name);
          return compiled.test(name) || own !== name && compiled.test(own);
        },
        error: "",
      };
    } catch (error) {
      return { test: () => false, error: String(error instanceof Error ? error.message : error) };
    }
  }
  if (text.toLowerCase() !== text) return { test: name => name.includes(text), error: "" };
  return { test: name => name.toLowerCase().includes(text), error: "" };
}

/** Everything about frames that the changes need. */
export class Frames {
  /** @param {import("./format.js").Meta} meta */
  constructor(meta) {
    this.meta = meta;
    /** Frames behind these are modules that were collapsed; functions behind the last stand for them. */
    this.count = meta.frames.kind.length;
    this.functions = meta.functions.module.length;
    this.functionOf = Int32Array.from([...meta.frames.function, ...meta.modules.map((_, module) => this.functions + module)]);
    this.kind = new Uint8Array(this.functionOf.length);
    this.kind.set(meta.frames.kind);
    /** What each frame has to do with the start of a program or thread. */
    this.parts = new Uint8Array(this.functionOf.length);
    for (const [frame, part] of meta.start?.parts ?? []) this.parts[frame] = part;
    this.moduleOf = Int32Array.from([...meta.functions.module, ...meta.modules.keys()]);
    /** @type {Map<string, Uint8Array>} */
    this.found = new Map();
  }
  /** The frames of some functions. Names of threads are no functions. @param {Uint8Array} functions */
  framesOf(functions) {
    const frames = new Uint8Array(this.functionOf.length);
    for (let frame = 0; frame < frames.length; frame++) {
      frames[frame] = functions[this.functionOf[frame]] && this.kind[frame] !== KIND.root ? 1 : 0;
    }
    return frames;
  }
  /** The functions whose names match. @param {string} text */
  matching(text) {
    const known = this.found.get(text);
    if (known) return known;
    const { test } = pattern(text);
    const { names, modules, functions } = this.meta;
    const found = new Uint8Array(this.functions + modules.length);
    const named = names.map(name => test(name));
    for (let id = 0; id < this.functions; id++) found[id] = named[functions.name[id]] ? 1 : 0;
    modules.forEach((module, id) => { found[this.functions + id] = test(`[${module}]`) ? 1 : 0; });
    if (this.found.size > 50) this.found.clear();
    this.found.set(text, found);
    return found;
  }
  /** The functions that a step is about. @param {Step} step */
  meant(step) {
    if (step.p !== undefined) return this.matching(step.p);
    const meant = new Uint8Array(this.functions + this.meta.modules.length);
    if (step.f !== undefined && step.f < meant.length) meant[step.f] = 1;
    return meant;
  }
}

/** Starts are folded last, so that steps see all frames. @param {Tree} base @param {Frames} frames @param {Step[]} steps @returns {Derived} */
export function derive(base, frames, steps) {
  let tree = base, map = null;
  const { start } = frames.meta, changes = steps.filter(({ o }) => o !== "all").map(step => (/** @type {Tree} */ tree) => changed(tree, frames, step));
  if (start && changes.length === steps.length) changes.push(tree => startsFolded(tree, frames, frames.count + start.module));
  for (const change of changes) {
    const next = change(tree);
    if (map === null) map = next.map;
    else for (let node = 0; node < map.length; node++) if (map[node] >= 0) map[node] = next.map[map[node]];
    tree = next.tree;
  }
  if (map === null) {
    map = new Int32Array(base.parent.length);
    for (let node = 0; node < map.length; node++) map[node] = node;
  }
  return { tree, map };
}

/** @param {Tree} tree @param {Frames} frames @param {Step} step @returns {Derived} */
function changed(tree, frames, step) {
  const { parent, frame } = tree, count = parent.length;
  const map = new Int32Array(count);
  if (step.o === "hide" || step.o === "keep") {
    const meant = frames.framesOf(frames.meant(step)), within = new Uint8Array(count);
    for (let node = 0; node < count; node++) {
      within[node] = node && (within[parent[node]] || meant[frame[node]]) ? 1 : 0;
      map[node] = (within[node] === 1) === (step.o === "keep") ? node : -1;
    }
    return { tree, map };
  }
  if (step.o === "root") return rootedAt(tree, frames, frames.framesOf(frames.meant(step)));
  const left = leftOut(frames, step);
  const { functionOf, moduleOf, kind } = frames;
  const builder = new Builder(count);
  for (let node = 1; node < count; node++) {
    const above = map[parent[node]], own = frame[node];
    if (left[own]) {
      map[node] = above;
      continue;
    }
    let shown = own;
    if (step.o === "module" && moduleOf[functionOf[own]] === step.m && kind[own] !== KIND.root) {
      shown = frames.count + (step.m ?? 0);
      if (above > 0 && builder.frame[above] === shown) {
        map[node] = above;
        continue;
      }
    } else if (step.o === "recursion" && kind[own] !== KIND.root) {
      const named = functionOf[own];
      let up = above;
      while (up > 0 && functionOf[builder.frame[up]] !== named) up = builder.parent[up];
      if (up > 0) {
        map[node] = up;
        continue;
      }
    }
    map[node] = builder.child(above, shown);
  }
  const sorted = builder.sorted(functionOf.length);
  for (let node = 0; node < count; node++) map[node] = sorted.map[map[node]];
  return { tree: sorted.tree, map };
}

/** Stacks from their outermost frame of a set on; those without one go. @param {Tree} tree @param {Frames} frames @param {Uint8Array} meant @returns {Derived} */
function rootedAt({ parent, frame }, frames, meant) {
  const count = parent.length, map = new Int32Array(count), place = new Int32Array(count);
  const builder = new Builder(count), within = new Uint8Array(count);
  for (let node = 1; node < count; node++) {
    const above = parent[node];
    within[node] = within[above] | meant[frame[node]];
    // Names of threads stay below.
    const stays = within[node] || frames.kind[frame[node]] === KIND.root;
    place[node] = stays ? builder.child(place[above], frame[node]) : place[above];
  }
  const sorted = builder.sorted(frames.functionOf.length);
  for (let node = 0; node < count; node++) map[node] = within[node] ? sorted.map[place[node]] : -1;
  return { tree: sorted.tree, map };
}

/** The parts of frames in a start, as the exporter numbers them (`profile::StartPart`). */
const PART = 1, RUNTIME = 2, MAIN = 3;
/** Makes the outermost frames of each thread one frame, as far as they start it and call others. What ends in the start itself keeps its frames. @param {Tree} tree @param {Frames} frames @param {number} start @returns {Derived} */
function startsFolded({ parent, frame }, { kind, parts, functionOf }, start) {
  const count = parent.length, builder = new Builder(2 * count), isThread = (/** @type {number} */ node) => !node || kind[frame[node]] === KIND.root;
  const isRuntimes = new Uint8Array(count), within = new Uint8Array(count).fill(1, 0, 1), thread = new Int32Array(count), map = new Int32Array(count);
  for (let node = 1; node < count; node++) if (parts[frame[node]] === RUNTIME) isRuntimes[parent[node]] = 1;
  for (let node = 1; node < count; node++) {
    const above = parent[node], part = parts[frame[node]];
    within[node] = within[above] && (isThread(node) || part === PART || part === RUNTIME || part === MAIN && isRuntimes[node]) ? 1 : 0;
    const leaves = within[above] && !within[node] && !isThread(above);
    map[node] = builder.child(leaves ? builder.child(thread[above], start) : map[above], frame[node]);
    thread[node] = isThread(node) ? map[node] : thread[above];
  }
  const sorted = builder.sorted(functionOf.length);
  for (let node = 0; node < count; node++) map[node] = sorted.map[map[node]];
  return { tree: sorted.tree, map };
}

/** The frames that a step leaves out, whose samples their callers get. @param {Frames} frames @param {Step} step */
export function leftOut(frames, step) {
  const { meta, kind, functionOf, moduleOf } = frames;
  if (step.o === "merge") return frames.framesOf(frames.meant(step));
  const left = new Uint8Array(functionOf.length);
  for (let frame = 0; frame < left.length; frame++) {
    if (step.o === "threads") left[frame] = kind[frame] === KIND.root ? 1 : 0;
    else if (step.o === "mine") {
      const named = functionOf[frame], module = moduleOf[named];
      const isMine = module >= 0 && meta.mine[module] && kind[frame] !== KIND.kernel && !standard(meta, frames, named);
      left[frame] = isMine || [KIND.root, KIND.truncated].includes(kind[frame]) || kind[frame] >= KIND.unsampled ? 0 : 1;
    }
  }
  return left;
}

/** Functions of others in everybody's programs, by their names: of languages' own libraries, and of packages in the folders of package managers. @type {[RegExp, string][]} */
const OTHERS = [
  [/^([<&*[(]*(mut |const |dyn )?(core|std|alloc|hashbrown|__gnu_cxx)::|__rust|rust_|runtime\.|_Z(N|K)?S)/, "the language's own library"],
  [/^py::.*:(<frozen |\/usr\/(local\/)?lib\/python3\/(?!dist-packages\/)|.*\/lib\/python[0-9.]+\/(?!site-packages\/|dist-packages\/))|^(JS|LazyCompile|Function|Script):.* node:/, "the language's own library"],
  [/\/(site|dist)-packages\/|\/node_modules\//, "packages"],
];
/** What a function belongs to that is compiled into, or interpreted by, everybody's programs; empty for others. @param {import("./format.js").Meta} meta @param {Frames} frames @param {number} named */
export function standard(meta, frames, named) {
  if (named >= frames.functions) return "";
  const name = meta.names[meta.functions.name[named]];
  return meta.packages[meta.functions.package[named] - 1] ?? OTHERS.find(([expression]) => expression.test(name))?.[1] ?? "";
}

/** Makes a tree of callers and frames, each pair once. */
class Builder {
  /** @param {number} most Nodes at most. */
  constructor(most) {
    this.parent = new Int32Array(most);
    this.frame = new Int32Array(most);
    this.count = 1;
    let size = 1024;
    while (size < most * 2) size *= 2;
    this.slots = new Int32Array(size);
    this.mask = size - 1;
  }
  /** @param {number} parent @param {number} frame */
  child(parent, frame) {
    const { slots, mask } = this;
    let slot = Math.imul(Math.imul(parent, 0x9e3779b1) ^ frame, 0x85ebca6b);
    slot = (slot ^ (slot >>> 15)) & mask;
    for (;; slot = (slot + 1) & mask) {
      const node = slots[slot];
      if (!node) {
        slots[slot] = this.count;
        this.parent[this.count] = parent;
        this.frame[this.count] = frame;
        return this.count++;
      }
      if (this.parent[node] === parent && this.frame[node] === frame) return node;
    }
  }
  /** The tree in preorder, with where each node went. @param {number} frameCount @returns {Derived} */
  sorted(frameCount) {
    const { count, parent, frame } = this;
    const starts = new Int32Array(frameCount + 1);
    for (let node = 1; node < count; node++) starts[frame[node] + 1]++;
    for (let at = 0; at < frameCount; at++) starts[at + 1] += starts[at];
    const byFrame = new Int32Array(count - 1);
    for (let node = 1; node < count; node++) byFrame[starts[frame[node]]++] = node;
    // The last of the siblings is put in first.
    const first = new Int32Array(count), next = new Int32Array(count);
    for (let at = count - 2; at >= 0; at--) {
      const node = byFrame[at];
      next[node] = first[parent[node]];
      first[parent[node]] = node;
    }
    const map = new Int32Array(count);
    const newParent = new Int32Array(count), newFrame = new Int32Array(count);
    for (let at = 0, node = 0; ;) {
      map[node] = at;
      newParent[at] = map[parent[node]];
      newFrame[at] = frame[node];
      at++;
      if (first[node]) node = first[node];
      else {
        while (node && !next[node]) node = parent[node];
        if (!node) break;
        node = next[node];
      }
    }
    return { tree: treeOf(newParent, newFrame), map };
  }
}
