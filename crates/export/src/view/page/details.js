// The function that is pointed out.
import { button, element, replaceChildren } from "./dom.js";
import { viewsOf } from "./state.js";
import { counted, share, SIDES } from "./words.js";

/** Shows the function that is pointed out, with what can be done to it. @param {import("./page.js").Page} page */
export function showNamed({ state, words, totals, named: place, side, meta, act, extent }) {
  if (!place) return;
  const { named } = state;
  const table = side?.table;
  const key = JSON.stringify([named, totals?.weight, totals?.all, state.event, Boolean(table), extent]);
  if (place.dataset.shows === key) return;
  place.dataset.shows = key;
  if (named < 0) {
    place.replaceChildren(element("p", { class: "muted" }, "Click a frame or a row for its figures and what can be done with it. ? lists all keys."));
    return;
}
  const name = words.functionName(named), module = words.moduleOf(named);
  const weight = totals?.weight ?? 0;
  const self = table?.self[named] ?? 0, total = table?.total[named] ?? 0;
  const figures = [`total ${words.amount(total, state.event)}, ${share(total, weight)}`, `self ${words.amount(self, state.event)}, ${share(self, weight)}`];
  if (table?.sides) {
    const change = words.change(table.sides[0].total[named], table.sides[1].total[named]);
    figures.splice(0, 2, ...table.sides.map(({ self, total }, side) => `${SIDES[side]}: total ${words.amount(total[named], state.event)}, self ${words.amount(self[named], state.event)}`), `total ${words.signed(change, state.event)}`);
  } else if (totals && totals.all !== totals.weight) figures.push(`total ${share(total, totals.all)} of all`);
  if (table && !table.sides && meta.events[state.event].nanoseconds) figures.push(counted(table.samples[named], "sample", "samples"));
  if (extent) figures.unshift(`${extent.map(time => words.time(time, (extent[1] - extent[0]) / 1000)).join(" to ")}`);
  const actions = [["keep", "Keep only", "k"], ["hide", "Hide", "h"], ["root", "Root here", "b"], ["merge", "Merge into caller", "m"],
    ...(module ? [["module", "Collapse module", "c"]] : []), ["sandwich", "Sandwich", "s"], ...[["source", "Source", ""], ["assembly", "Assembly", ""], ["waits", "Waits", ""]].filter(([view]) => viewsOf(meta).includes(view)), ["copy", "Copy name", "y"]]
    .map(([what, label, key]) => button(label, key ? `${label} (${key})` : label, () => act(what)));
  replaceChildren(place,
    element("div", { class: "name" }, element("b", { title: name.slice(0, 4000) }, name.length > 1000 ? `${name.slice(0, 1000)}…` : name), ...(module ? [element("span", { class: "muted" }, module)] : [])),
    element("div", { class: "numbers", title: figures.join(" · ") }, figures.join(" · ")), element("div", { class: "actions" }, ...actions));
}
