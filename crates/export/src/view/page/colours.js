// Colours: one family, the same as in the picture of `prof flame`.
import { preferences } from "./dom.js";
import { KIND } from "./format.js";

/** @typedef {{text: string, muted: string, line: string, back: string, surface: string, focus: string, veil: string, all: string, root: string, match: string, narrow: string, kinds: string[], waits: string[], unrecorded: string, off: string[], isDark: boolean}} Theme */

/** Of user code, kernel, generated code, what has no name, and of threads that are runnable, blocked, and waiting for events. */
const KINDS = ["#d5603f", "#eeb02f", "#62bd62", "#b4aea5", "#b284ce", "#488cd6", "#c4e2f6"];
const DARK_KINDS = ["#d06a4b", "#d9a235", "#58a758", "#8b857c", "#9f74bc", "#3d79bb", "#7f9db3"];

/** Of threads that are ready to run, and that are blocked. */
const WAITS = ["#8a4fb0", "#a9c2d8"];
const DARK_WAITS = ["#b98ad6", "#4f6a82"];

/** Of frames of user code and of the kernel that are off the CPU nearly all the time. */
const OFF = ["#a0b0cf", "#bccae8"];
const DARK_OFF = ["#8592ac", "#9eabc6"];

/** @type {Theme} */
const LIGHT = { text: "#26221d", muted: "#6a6258", line: "#e3ddd3", back: "#ffffff", surface: "#f7f4ef", focus: "#1f63cf",
  veil: "rgba(255,255,255,.68)", all: "#ded8cb", root: "#e8d3bb", match: "#f48cf4", narrow: "#ece7de", kinds: KINDS, waits: WAITS, unrecorded: "rgba(90,80,60,.12)", off: OFF, isDark: false };
/** @type {Theme} */
const DARK = { text: "#ece7df", muted: "#aaa195", line: "#3b362f", back: "#1c1a17", surface: "#25221e", focus: "#7db0ff",
  veil: "rgba(28,26,23,.66)", all: "#5a554c", root: "#6f5b48", match: "#d67bd6", narrow: "#332f29", kinds: DARK_KINDS, waits: DARK_WAITS, unrecorded: "rgba(200,190,170,.16)", off: DARK_OFF, isDark: true };

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

export class Colours {
  /** @param {import("./format.js").Meta} meta */
  constructor(meta) {
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
  /** The colour of letters on a frame. @param {number} frame */
  letters(frame) {
    return frame === -2 || this.roots[frame] ? themes.current.text : "#1a1613";
  }
}
