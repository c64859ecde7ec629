// The heat map: a column for each second, in which parts of the second lie one above the other.
import { missing, themes } from "./colours.js";

/** Parts of a second. */
const PARTS = 40;
/** Seconds of a map. */
const MOST_SECONDS = 4000;

export class Heat {
  /** @param {import("./format.js").Meta} meta */
  constructor(meta) {
    this.second = 1e6 / meta.unit;
    this.gaps = meta.gaps;
    /** @type {{from: number, seconds: number, parts: number, cells: Float32Array}|null} */
    this.shown = null;
  }

  /** What is asked of the engine for a window of time. @param {import("./state.js").State} state @param {[number, number]} window */
  request({ event, threads, cpus, steps }, window) {
    const from = Math.floor(window[0] / this.second) * this.second;
    const seconds = Math.max(1, Math.min(Math.ceil((window[1] - from) / this.second), MOST_SECONDS));
    return { selection: { event, time: null, threads, cpus, steps, search: "" }, from, seconds, parts: PARTS };
  }

  /** The part of time at a point of the map; `null` outside. @param {number} time @param {number} height Share of the height, from the bottom. */
  partAt(time, height) {
    if (height < 0 || height >= 1) return null;
    const start = (Math.floor(time / this.second) + Math.floor(height * PARTS) / PARTS) * this.second;
    return { from: start, to: start + this.second / PARTS };
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {{left: number, top: number, height: number, x: (time: number) => number}} area
   * @param {string} font
   */
  draw(context, { left: begin, top, height: rows, x }, font) {
    const { shown, second } = this, theme = themes.current;
    if (!shown) return;
    let most = 0;
    for (const cell of shown.cells) if (cell > most) most = cell;
    /** @param {number} column Seconds from the first on. @param {number} part */
    const fill = (column, part) => {
      const left = x(shown.from + column * second), right = x(shown.from + (column + 1) * second), from = Math.max(left, begin);
      if (right < begin) return;
      context.fillRect(from, top + rows - (part + 1) * rows / PARTS, Math.max(right - from - (right - left > 4 ? 1 : 0), 0.5), rows / PARTS - 0.5);
    };
    context.fillStyle = theme.kinds[0];
    for (let column = 0; column < shown.seconds; column++) {
      for (let part = 0; part < PARTS; part++) {
        const amount = shown.cells[column * PARTS + part];
        if (!amount) continue;
        context.globalAlpha = 0.12 + 0.88 * Math.sqrt(amount / most);
        fill(column, part);
      }
    }
    context.globalAlpha = 1;
    // Where samples are missing it was not idle.
    context.fillStyle = missing(context);
    const lost = new Uint8Array(shown.seconds * PARTS);
    for (const [from, to] of this.gaps) {
      const first = Math.floor((from - shown.from) / second * PARTS), last = Math.max(Math.floor((to - shown.from) / second * PARTS), first);
      if (last >= 0) lost.fill(1, Math.max(first, 0), last + 1);
    }
    lost.forEach((isLost, part) => { if (isLost) fill(Math.floor(part / PARTS), part % PARTS); });
    context.fillStyle = theme.back;
    context.fillRect(0, top, begin, rows + 8);
    context.fillStyle = theme.muted;
    context.font = font;
    ["1 s", "part of", "each second", "0 s"].forEach((label, at) => {
      const y = at === 0 ? top + 7 : at === 3 ? top + rows - 7 : top + rows / 2 - 8 + (at - 1) * 15;
      context.fillText(label, begin - 8 - context.measureText(label).width, y);
    });
  }
}
