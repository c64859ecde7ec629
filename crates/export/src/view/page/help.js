// What keys do, as a dialog.
import { element } from "./dom.js";

/** @type {[string, [string, string][]][]} */
export const KEYS = [
  ["Everywhere", [
    ["1 … 9, 0", "Views, in the order of their tabs"],
    ["/  or  Ctrl F", "Search; Enter and Shift Enter, or n and N, go from match to match"],
    ["Ctrl Z · Ctrl Y", "Undo, redo: everything can be undone"],
    ["Back · Forward", "The browser's: go through what was selected"],
    ["Esc", "Steps back: unpins, unzooms, clears the search, the time, the lanes"],
    ["f", "Roots at the top or at the bottom"],
    ["t", "Lanes of threads, of CPUs, or a heat map"],
    ["w", "CPU, off-CPU, wall: where waits were recorded"],
    ["e", "Next event"],
    ["d", "Light or dark"],
    ["?", "This help"],
  ]],
  ["The function pointed out", [
    ["k", "Keep only stacks that have it (--keep)"],
    ["h", "Hide stacks that have it"],
    ["b", "Begin stacks at it (--root-at)"],
    ["m", "Merge it into its callers (--hide)"],
    ["c", "Collapse its module to one frame"],
    ["s", "Sandwich: its callers and what it calls"],
    ["y", "Copy its name"],
  ]],
  ["Stacks", [
    ["r", "Collapse recursion"],
    ["o", "Only my code"],
  ]],
  ["Time", [
    ["drag", "Selects time; Esc clears it"],
    ["click", "Pins the stack of a moment; on a name, selects its lane, with Shift one more"],
    ["← →", "Goes from sample to sample"],
    ["wheel, pinch", "Zooms (with many lanes: Ctrl wheel, or over the ruler); Shift wheel or Alt drag moves"],
    ["Shift ← →", "Selects time"],
    ["↑ ↓ · Enter · Space", "Goes from lane to lane, selects one, opens one"],
    ["Delete", "Hides a lane"],
    ["+ − · z", "Zooms; zooms to the selection"],
  ]],
  ["Frames and rows", [
    ["arrows", "Go to the caller, the callee, the neighbour; open and close rows"],
    ["Enter", "Zooms into a frame; opens a row"],
    ["*", "Opens everything below a row by one level"],
  ]],
];

export function helpDialog() {
  const sections = KEYS.map(([title, keys]) => element("section", {}, element("h3", {}, title),
    element("dl", {}, ...keys.flatMap(([key, what]) => [element("dt", {}, key), element("dd", {}, what)]))));
  const close = element("button", { type: "button", class: "plain", "aria-label": "Close", click: () => dialog.close() }, "✕");
  const dialog = element("dialog", { class: "help", "aria-label": "Keys" },
    element("div", { class: "title" }, element("h2", {}, "Keys"), close), element("div", { class: "columns" }, ...sections));
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  return dialog;
}
