// Colours: one family, the same as in the picture of `prof flame`.
import { element, preferences } from "./dom.js";
import { KIND } from "./format.js";

/** @typedef {{text: string, muted: string, line: string, back: string, surface: string, focus: string, veil: string, all: string, root: string, match: string, narrow: string, kinds: string[], unrecorded: string, lost: string, hatch: string, off: string[], isDark: boolean}} Theme */

/** Of user code, kernel, generated code, what has no name, and of threads that are runnable, blocked, and waiting for events. */
const KINDS = ["#cf5a3c", "#f3cf4d", "#62bd62", "#b4aea5", "#b284ce", "#488cd6", "#c4e2f6"];
const DARK_KINDS = ["#c45f42", "#dcbd4a", "#58a758", "#8b857c", "#9f74bc", "#3d79bb", "#7f9db3"];

/** Of frames of user code and of the kernel that are off the CPU nearly all the time. */
const OFF = ["#a0b0cf", "#bccae8"];
const DARK_OFF = ["#8592ac", "#9eabc6"];

/** @type {Theme} */
const LIGHT = { text: "#26221d", muted: "#6a6258", line: "#e3ddd3", back: "#ffffff", surface: "#f7f4ef", focus: "#1f63cf",
  veil: "rgba(255,255,255,.68)", all: "#ded8cb", root: "#e8d3bb", match: "#f48cf4", narrow: "#ece7de", kinds: KINDS, unrecorded: "rgba(90,80,60,.12)", lost: "rgba(190,40,20,.16)", hatch: "rgba(120,20,10,.75)", off: OFF, isDark: false };
/** @type {Theme} */
const DARK = { text: "#ece7df", muted: "#aaa195", line: "#3b362f", back: "#1c1a17", surface: "#25221e", focus: "#7db0ff",
  veil: "rgba(28,26,23,.66)", all: "#5a554c", root: "#6f5b48", match: "#d67bd6", narrow: "#332f29", kinds: DARK_KINDS, unrecorded: "rgba(200,190,170,.16)", lost: "rgba(255,120,90,.25)", hatch: "rgba(255,190,170,.8)", off: DARK_OFF, isDark: true };

export const themes = {
  current: LIGHT,
  printing: false,
  /** @type {(() => void)[]} */
  listeners: [],
  choose() {
    const wish = preferences.get("theme", "system");
    const dark = !this.printing && (wish === "dark" || wish === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
    this.current = dark ? DARK : LIGHT;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    for (const listener of this.listeners) listener();
  },
  next() {
    preferences.set("theme", this.current.isDark ? "light" : "dark");
    this.choose();
  },
};

/** What fills where samples are missing: hatched, because every plain colour means something else. @param {CanvasRenderingContext2D} context @returns {CanvasPattern|string} */
export function missing(context) {
  const { lost, hatch } = themes.current, size = 6, tile = element("canvas", { width: `${size}`, height: `${size}` }), drawn = tile.getContext("2d");
  if (!drawn) return lost;
  drawn.fillStyle = lost;
  drawn.fillRect(0, 0, size, size);
  drawn.strokeStyle = hatch;
  drawn.beginPath();
  // Its neighbours go on with the line at the corners.
  for (const shift of [-size, 0, size]) {
    drawn.moveTo(shift - 1, size + 1);
    drawn.lineTo(shift + size + 1, -1);
  }
  drawn.stroke();
  return context.createPattern(tile, "repeat") ?? lost;
}

/** @param {number[]} colour */
export const rgb = ([red, green, blue]) => `rgb(${red},${green},${blue})`;

export class Colours {
  /** @param {import("./format.js").Meta} meta */
  constructor(meta) {
    this.marks = meta.marks;
    this.roots = meta.frames.kind.map(kind => kind === KIND.root);
    /** @type {string[]} */
    this.light = meta.frames.colour.map(colour => `#${colour.toString(16).padStart(6, "0")}`);
    this.dark = meta.frames.colour.map(colour => {
      const [red, green, blue] = [colour >> 16, colour >> 8 & 255, colour & 255].map(part => Math.round(part * 0.86));
      return `rgb(${red},${green},${blue})`;
    });
  }
  /** @param {number} frame */
  of(frame) {
    const theme = themes.current;
    if (frame === -2) return theme.all;
    if (frame === -1) return theme.narrow;
    if (this.roots[frame]) return theme.root;
    return (theme.isDark ? this.dark : this.light)[frame] ?? (theme.isDark ? "#b77f63" : "#d99878");
  }
  /** The colour of a change: none where counting samples may explain it. @param {number} before @param {number} after @param {number} greatest The greatest change of a frame. @param {{factor: number, means: number[]}} comparison */
  ofChange(before, after, greatest, { factor, means }) {
    const { chance, ...colours } = this.marks;
    const change = after - before * factor, deviation = Math.sqrt(after * Math.max(means[1], 1) + before * factor * factor * Math.max(means[0], 1));
    if (Math.abs(change) <= chance * deviation) return rgb(colours.same);
    const [least, most] = change > 0 ? colours.grew : colours.shrank, part = Math.min(Math.abs(change) / (greatest || 1), 1);
    return rgb(least.map((value, at) => Math.round(value + (most[at] - value) * part)));
  }
  /** The colour of letters on a frame. @param {number} frame */
  letters(frame) {
    return frame === -2 || this.roots[frame] ? themes.current.text : "#1a1613";
  }
}
