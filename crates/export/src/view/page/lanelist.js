// Which lanes there are: threads within pools, processes, and groups of processes; CPUs.
import { defaultEvent } from "./state.js";
import { pattern } from "./tree.js";

/**
 * @typedef {object} Lane
 * @property {string} key
 * @property {string} label
 * @property {string} detail
 * @property {number[]} members Threads, or CPUs.
 * @property {number} samples
 * @property {number} level
 * @property {boolean|null} open `null` where nothing lies below it.
 */
/**
 * @typedef {object} Listing How the reader wants the lanes of threads.
 * @property {"time"|"name"|"start"} sort
 * @property {string} search What the name or the number of a thread or of its process has.
 * @property {number[]|null} hidden Threads without a lane.
 */

/** Levels of lanes: group of processes, process, pool, thread. */
export const LEVELS = 4;

/** Processes of one name that are a group, where each did little. */
const SEVERAL = 4;
/** What is little: a share of all samples. */
const LITTLE = 1 / 50;
/** With so many threads at the most, processes are open at first. */
const FEW_THREADS = 24;

/** @param {import("./format.js").Meta} meta @returns {Lane[]} */
export function lanesOfCpus(meta) {
  return Array.from({ length: meta.cpus }, (_, cpu) => ({ key: `c${cpu}`, label: `CPU ${cpu}`, detail: "", members: [cpu], samples: 0, level: 0, open: null }));
}

/** Puts what has one key together, in the order of the first. @template T @param {T[]} list @param {(one: T) => string} key @returns {T[][]} */
function inGroups(list, key) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const one of list) {
    const group = groups.get(key(one));
    if (group) group.push(one);
    else groups.set(key(one), [one]);
  }
  return [...groups.values()];
}

/**
 * Lanes of what was sampled.
 * @param {import("./format.js").Meta} meta @param {number} event @param {Set<string>} toggled Keys of lanes that are open, or shut, against the rule.
 * @param {Listing} listing @returns {Lane[]}
 */
export function lanesOfThreads(meta, event, toggled, { sort, search, hidden }) {
  /** @type {Lane[]} */
  const lanes = [];
  const samples = new Float64Array(meta.threads.length), ranks = new Float64Array(meta.threads.length);
  // Lanes keep their places where CPU, off-CPU and wall time take turns.
  const source = meta.events[event].of ?? event, ranked = meta.sides ? source : defaultEvent(meta), left = new Set(hidden), { test } = pattern(search);
  for (const [of, thread, , count] of meta.segments) {
    if (of === source) samples[thread] += count;
    if (of === ranked) ranks[thread] += count;
  }
  /** @type {Map<number, number[]>} */
  const processes = new Map();
  let threads = 0;
  meta.threads.forEach(({ process, name, tid }, id) => {
    const of = meta.processes[process];
    if (!samples[id] || left.has(id) || search && ![name, `${tid}`, of.name, `${of.pid}`].some(test)) return;
    threads++;
    const members = processes.get(process);
    if (members) members.push(id);
    else processes.set(process, [id]);
  });
  const few = threads <= FEW_THREADS, all = samples.reduce((sum, count) => sum + count, 0);
  /** @param {number[]} members */
  const sum = members => members.reduce((sum, id) => sum + samples[id], 0);
  const rank = (/** @type {number[]} */ members) => members.reduce((sum, id) => sum + ranks[id], 0);
  const start = (/** @type {number[]} */ members) => members.reduce((first, id) => Math.min(first, meta.threads[id].start), Infinity);
  /** @param {number[]} one @param {number[]} other */
  const compared = (one, other) => {
    const busier = rank(other) - rank(one) || sum(other) - sum(one) || one[0] - other[0];
    if (sort === "name") return name(one).localeCompare(name(other)) || busier;
    return sort === "start" ? start(one) - start(other) || busier : busier;
  };
  /** @param {number[][]} lists */
  const sorted = lists => lists.sort(compared);
  /** @param {number} id @param {number} level */
  const single = (id, level) => {
    const { name, tid } = meta.threads[id];
    lanes.push({ key: `t${id}`, label: name, detail: tid < 0 ? "" : `${tid}`, members: [id], samples: samples[id], level, open: null });
  };
  /** Adds a lane for several threads, and those below it where it is open. @param {string} key @param {boolean} open @param {string} label @param {string} detail @param {number[]} members @param {number} level @param {() => void} below */
  const several = (key, open, label, detail, members, level, below) => {
    open = open !== toggled.has(key);
    lanes.push({ key, label, detail, members, samples: sum(members), level, open });
    if (open) below();
  };
  /** @param {number[]} members @param {number} level */
  const process = (members, level) => {
    if (members.length === 1) return single(members[0], level);
    const { name, pid } = meta.processes[meta.threads[members[0]].process];
    several(`p${pid}.${members[0]}`, few, name, `${pid} · ${members.length} threads`, members, level, () => {
      for (const pool of sorted(inGroups(members, id => meta.threads[id].pool || `${id}`))) {
        if (pool.length === 1) single(pool[0], level + 1);
        else several(`o${pool[0]}`, false, meta.threads[pool[0]].pool, `${pool.length} threads`, pool, level + 1, () => {
          for (const [id] of sorted(pool.map(id => [id]))) single(id, level + 2);
        });
      }
    });
  };
  const name = (/** @type {number[]} */ [first, ...others]) => others.length ? meta.processes[meta.threads[first].process].name : meta.threads[first].name;
  // Processes that did little, of which several have one name, are one lane.
  const same = inGroups([...processes.values()], members => sum(members) <= all * LITTLE ? name(members) : `\0${members[0]}`);
  const found = same.flatMap(group => group.length < SEVERAL ? group.map(members => [members]) : [group]);
  const lots = found.map(group => ({ group, members: group.flat() }));
  for (const { group, members } of lots.sort((one, other) => compared(one.members, other.members))) {
    if (group.length === 1) process(members, 0);
    else several(`g${members[0]}`, false, name(group[0]), `${group.length} processes`, members, 0, () => {
      for (const members of sorted(group)) process(members, 1);
    });
  }
  return lanes;
}
