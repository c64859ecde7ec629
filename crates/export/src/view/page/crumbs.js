// What is selected: as steps that can be dropped, and in figures.
import { button, copy, element, replaceChildren } from "./dom.js";
import { KIND } from "./format.js";
import { counted, grouped, share, SIDES } from "./words.js";

/** A step in words. @param {import("./tree.js").Step} step @param {import("./words.js").Words} words */
export function stepName(step, words) {
  const name = step.p !== undefined ? step.p : step.f !== undefined ? words.parts(step.f).slice(-2).join("") : step.m !== undefined ? words.meta.modules[step.m] : "";
  const short = name.length > 48 ? `${name.slice(0, 47)}…` : name;
  switch (step.o) {
    case "keep": return `only with ${short}`;
    case "root": return `from ${short} on`;
    case "hide": return `without ${short}`;
    case "merge": return `${short} merged into callers`;
    case "module": return `[${short}] collapsed`;
    case "recursion": return "recursion collapsed";
    case "mine": return "only my code";
    case "threads": return "threads together";
    case "all": return "all frames";
}
  }

/** Modules that are named of those that were left out. */
const NAMED_MODULES = 4;
/** What "only my code" left out. @param {import("./engine.js").Totals} totals */
function hiddenInWords({ hidden, weight }) {
  const named = hidden.slice(0, NAMED_MODULES).map(({ label, weight: own }) => `${share(own, weight)} in ${label}`);
  const more = hidden.length - named.length;
  return `${named.join(", ")}${more > 0 ? ` and ${counted(more, "more module", "more modules")}` : ""}, and gives it to its callers`;
}

/** What compares two times of one recording. @param {import("./state.js").State} state @param {import("./state.js").Store} store @param {import("./words.js").Words} words @param {(text: string) => void} say */
function comparing({ time, timeBefore, threads, cpus, event, steps }, store, words, say) {
  const { meta } = words;
  if (meta.sides) return [];
  if (time && !timeBefore) return [button("Compare with…", "Keeps this time as the one before, to compare it with another of this recording", () => store.set({ timeBefore: time, time: null }))];
  if (!time || !timeBefore) return [];
  const swap = button("⇄", "Swaps before and after", () => store.set({ time: timeBefore, timeBefore: time, zoom: [] }));
  const { time: isTime, of, weighted } = meta.events[event], isWall = meta.events.some(({ of }) => of === event);
  const weight = of !== undefined ? "offcpu" : isWall ? "wall" : weighted ? "period" : "samples";
  if (isTime && of === undefined && !isWall || steps.length) return [swap];
  const also = [...(threads ? [`tid=${threads.map(thread => meta.threads[thread].tid)}`] : []), ...(cpus ? [`cpu=${cpus}`] : []),
    ...(!isTime && meta.events.filter(({ time }) => !time).length > 1 ? [`event=${meta.events[event].name}`] : [])];
  const slice = (/** @type {[number, number]} */ time) => `'${[`time=${words.timeFlag(time).slice(7)}`, ...also].join(" ")}'`;
  const command = `prof diff ${meta.recording || "prof.data"} --weight ${weight} --before ${slice(timeBefore)} --after ${slice(time)}`;
  return [swap, button("Copy as command", command, () => copy(command).then(done => say(done ? "Copied." : "The browser does not allow copying.")))];
}

/** Shows the selection as a way that can be gone back. @param {import("./page.js").Page} page */
export function showCrumbs(page) {
  const { state, store, words, meta, totals, crumbs, figures, lanes, act } = page;
  if (!crumbs || !figures) return;
  /** @type {{label: string, title: string, drop: Partial<import("./state.js").State>}[]} */
  const parts = [];
  /** @param {[number, number]} time @param {number} side @param {string} prefix @param {Partial<import("./state.js").State>} drop */
  const ofTime = (time, side, prefix, drop) => {
    const step = (time[1] - time[0]) / 200 || 1;
    parts.push({ label: `${prefix}${words.time(time[0], step)} – ${words.time(time[1], step)}`, title: words.timeFlag(time, side), drop });
  };
  if (state.timeBefore) ofTime(state.timeBefore, 0, "before: ", { timeBefore: null });
  if (state.time) ofTime(state.time, 1, state.timeBefore || meta.sides ? "after: " : "", { time: null });
  if (state.threads) {
    const [first] = state.threads, { name, tid, process, pool } = meta.threads[first];
    const one = state.threads.length === 1;
    const lane = lanes?.lanes.find(lane => lane.members.length === state.threads?.length && lane.members.every(member => state.threads?.includes(member)));
    const side = meta.sides && new Set(state.threads.map(thread => meta.threads[thread].side)).size === 1 ? `${SIDES[meta.threads[first].side]}: ` : "";
    const label = side + (one ? `${name} ${tid}` : lane ? `${lane.label} (${state.threads.length} threads)` : `${state.threads.length} threads`);
    parts.push({ label, title: one ? `--tid ${tid}` : `${meta.processes[process].name} ${meta.processes[process].pid} ${pool}`, drop: { threads: null } });
}
  if (state.cpus) parts.push({ label: state.cpus.length === 1 ? `CPU ${state.cpus[0]}` : `CPUs ${state.cpus.join(", ")}`, title: `--cpu ${state.cpus.join()}`, drop: { cpus: null } });
  state.steps.forEach((step, at) => parts.push({
    label: stepName(step, words), title: step.f !== undefined ? words.functionName(step.f).slice(0, 2000) : "", drop: { steps: state.steps.filter((_, other) => other !== at), zoom: [] },
  }));
  const all = element("button", {
    type: "button", class: "crumb", title: "Drops the selection", click: () => store.set({ time: null, timeBefore: null, threads: null, cpus: null, steps: [], zoom: [] }),
  }, "All");
  if (!parts.length) all.disabled = true;
  const chips = parts.map(({ label, title, drop }) => {
    const close = element("button", { type: "button", "aria-label": `Drop: ${label}`, title: "Drop", click: () => store.set(drop) }, "✕");
    return element("span", { class: "chip-crumb", title }, element("span", {}, label), close);
  });
  const toggles = [["mine", "Only my code", "Merges libraries, the kernel and the language's own functions into their callers (o)"],
    ["recursion", "Collapse recursion", "Each function once in a stack (r)"],
    ...(meta.start ? [["all", "All frames", "Also those that start programs and threads, which are one: [start]"]] : []),
    ...(!meta.sides && meta.frames.kind.filter(kind => kind === KIND.root).length > 1 ? [["threads", "Merge threads", "Stacks of threads with different names as one"]] : [])].map(([what, label, title]) => {
    const made = button(label, title, () => act(what), "choice");
    made.setAttribute("aria-pressed", String(state.steps.some(step => step.o === what)));
    return made;
  });
  replaceChildren(crumbs, all, ...chips, ...comparing(state, store, words, text => page.say(text)), element("span", { class: "grow" }), ...toggles);
  if (state.timeBefore && !state.time && !meta.sides) {
    figures.replaceChildren(element("b", {}, "Now select the time after: drag over the lanes."));
    return;
  }
  if (!totals) return;
  const event = meta.events[state.event];
  if (totals.other) {
    const own = { weight: totals.weight, samples: totals.samples }, [before, after] = state.event || !meta.sides ? [totals.other, own] : [own, totals.other];
    const amount = (/** @type {{weight: number, samples: number}} */ { weight, samples }) => event.weighted && event.noun !== "samples" ? `${words.amount(weight, state.event)} in ${counted(samples, "sample", "samples")}` : words.amount(weight, state.event);
    if (!meta.sides) {
      figures.textContent = `before: ${amount(before)} · after: ${amount(after)} · figures are shares of each time; frames are as wide as after, what is gone has none`;
      return;
    }
    const factor = words.comparison?.factor ?? 1;
    const beyond = factor === 1 ? "" : ` · everything changed by × ${factor.toFixed(2)}: differences are beyond that`;
    figures.textContent = `before: ${amount(before)} · after: ${amount(after)} · ${words.factor(before.weight, after.weight)}${beyond}`;
    return;
  }
  const isAll = totals.samples === totals.allSamples;
  const [one, many] = event.time ? ["piece of time", "pieces of time"] : ["sample", "samples"];
  const pieces = [
    isAll ? counted(totals.samples, one, many) : `${grouped(totals.samples)} of ${counted(totals.allSamples, one, many)} (${share(totals.weight, totals.all)})`,
    ...(event.nanoseconds ? [`${words.amount(totals.weight, state.event)} of ${event.name}${event.time && meta.threads.length > 1 ? ", of all threads added up" : ""}`] : event.weighted ? [words.amount(totals.weight, state.event)] : [`of ${event.name}`]),
    ...(totals.lost ? [`${counted(totals.lost, "record", "records")} lost meanwhile`] : []),
    ...(totals.cut ? [`${share(totals.cut, totals.samples)} of stacks cut`] : []),
    ...(totals.nameless ? [`${share(totals.nameless, totals.samples)} ended in code without a name`] : []),
    ...(totals.hidden.length ? [`only my code leaves out ${hiddenInWords(totals)}`] : []),
  ];
  figures.textContent = pieces.join(" · ");
}
