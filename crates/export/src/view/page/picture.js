// A picture of frames on a canvas: flame graphs of every direction, and stacks in the order of time.
import { element, prepare, soon } from "./dom.js";
import { isOff, KIND } from "./format.js";
import { themes } from "./colours.js";

export const ROW = 19;
const INDENT = 4, FONT = 12;

/**
 * @typedef {object} PictureEvents
 * @property {(picture: Picture, box: number) => void} choose A box was clicked.
 * @property {(picture: Picture, box: number, x: number, y: number) => void} point A box is pointed at; -1: none is.
 * @property {(picture: Picture) => void} resized
 */

/** Share of a box's time off the CPU from which on it is coloured so: as in the picture of `prof flame`. */
const OFF_CPU = 0.95;

/**
 * Finds the boxes whose threads were off the CPU nearly all the time: what lies on them ends in states of threads.
 * @param {import("./layout.js").Boxes} boxes @param {import("./words.js").Words} words
 */
function offCpu(boxes, words) {
  const { count, frame, up, width } = boxes;
  const off = new Float64Array(count), hidden = new Float64Array(count), marks = new Uint8Array(count);
  // Boxes come before those that lie on them.
  for (let box = count - 1; box >= 0; box--) {
    const isState = frame[box] >= 0 && isOff(words.kindOf(frame[box]));
    if (isState) off[box] = width[box];
    if (frame[box] === -1) hidden[box] = width[box];
    marks[box] = !isState && frame[box] >= 0 && off[box] > 0 && off[box] >= OFF_CPU * (width[box] - hidden[box]) ? 1 : 0;
    if (box > 0) {
      off[up[box]] += off[box];
      hidden[up[box]] += hidden[box];
    }
  }
  return marks;
}

export class Picture {
  /**
   * @param {string} label @param {import("./words.js").Words} words @param {import("./colours.js").Colours} colours
   * @param {PictureEvents} events
   */
  constructor(label, words, colours, events) {
    this.words = words;
    this.colours = colours;
    this.events = events;
    /** Where time lies, and names of bands left of it: of a picture in the order of time. @type {{area: () => {left: number, width: number}, mark: () => number, labels: string[]}|null} */
    this.time = null;
    /** @type {import("./layout.js").Boxes|null} */
    this.boxes = null;
    /** Boxes that are shown as off the CPU. */
    this.off = new Uint8Array();
    /** The greatest change of a frame. */
    this.greatest = 0;
    /** The side of a comparison that widths are of. */
    this.side = 1;
    this.rows = 1;
    /** Whether the root is at the bottom. */
    this.upward = false;
    /** @type {Uint8Array|null} */
    this.found = null;
    this.named = -1;
    this.pointed = -1;
    this.current = -1;
    this.canvas = element("canvas", {});
    this.spacer = element("div", { class: "spacer" }, this.canvas);
    this.scroller = element("div", {
      class: "picture", tabindex: "0", role: "application", "aria-label": `${label}. Arrow keys go from frame to frame, Enter zooms.`,
    }, this.spacer);
    this.redraw = () => this.draw();
    this.scroller.addEventListener("scroll", () => {
      this.events.point(this, -1, 0, 0);
      soon(this.redraw);
    });
    this.canvas.addEventListener("mousemove", event => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => this.hover(null));
    this.canvas.addEventListener("click", event => {
      const box = this.at(event.offsetX, event.offsetY);
      if (box >= 0 && this.boxes && this.boxes.frame[box] !== -1) {
        this.current = box;
        this.events.choose(this, box);
      }
    });
    this.scroller.addEventListener("keydown", event => this.key(event));
    this.scroller.addEventListener("focus", () => soon(this.redraw));
    this.scroller.addEventListener("blur", () => soon(this.redraw));
    this.width = this.height = 0;
    new ResizeObserver(() => {
      // A picture that showed its root goes on showing it.
      const { clientHeight, scrollHeight, scrollTop } = this.scroller;
      if (this.upward && scrollTop + this.height >= scrollHeight - 2) this.scroller.scrollTop = scrollHeight;
      this.height = clientHeight;
      if (this.pixels !== this.width) {
        this.width = this.pixels;
        this.events.resized(this);
      }
      soon(this.redraw);
    }).observe(this.scroller);
    themes.listeners.push(() => soon(this.redraw));
  }

  /** Where frames lie on the canvas, in pixels. */
  get area() {
    return this.time?.area() ?? { left: 0, width: Math.max(this.spacer.clientWidth, 50) };
  }
  get pixels() {
    return this.area.width;
  }

  /** @param {import("./layout.js").Boxes} boxes */
  show(boxes) {
    const { scroller } = this;
    const atRoot = this.upward ? scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 2 : scroller.scrollTop < 2;
    const isFirst = !this.boxes;
    this.boxes = boxes;
    this.off = offCpu(boxes, this.words);
    this.compare();
    this.pointed = this.current = -1;
    this.rows = 1;
    for (let box = 0; box < boxes.count; box++) if (boxes.depth[box] >= this.rows) this.rows = boxes.depth[box] + 1;
    this.spacer.style.height = `${Math.max(this.rows * ROW + 4, 1)}px`;
    if (isFirst || atRoot) scroller.scrollTop = this.upward ? scroller.scrollHeight : 0;
    this.draw();
  }

  /** Finds the greatest change, by which the others are coloured. */
  compare() {
    const { boxes } = this;
    this.greatest = 0;
    if (boxes) for (let box = 1; box < boxes.count; box++) {
      if (boxes.frame[box] >= 0) this.greatest = Math.max(this.greatest, Math.abs(this.words.change(...this.sides(box))));
    }
    soon(this.redraw);
  }

  /** Weights of a box before and after a change. @param {number} box @returns {[number, number]} */
  sides(box) {
    const [own, other] = [this.boxes?.width[box] ?? 0, this.boxes?.other[box] ?? 0];
    return this.side ? [other, own] : [own, other];
  }

  /** The colour of a box. @param {number} box */
  colour(box) {
    const frame = this.boxes?.frame[box] ?? -1, { colours, words } = this;
    if (words.comparison && frame >= 0 && !this.time) return colours.ofChange(...this.sides(box), this.greatest, words.comparison);
    return this.off[box] ? themes.current.off[words.kindOf(frame) === KIND.kernel ? 1 : 0] : colours.of(frame);
  }

  /** @param {boolean} upward */
  turn(upward) {
    if (this.upward === upward) return;
    this.upward = upward;
    this.toRoot();
  }

  /** Brings the root into view. */
  toRoot() {
    this.scroller.scrollTop = this.upward ? this.scroller.scrollHeight : 0;
    soon(this.redraw);
  }

  /** Height of everything, and where a row begins within the window. */
  geometry() {
    const height = this.scroller.clientHeight, content = Math.max(this.rows * ROW + 4, height);
    const top = this.scroller.scrollTop;
    /** @param {number} depth */
    const y = depth => (this.upward ? content - (depth + 1) * ROW - 2 : depth * ROW + 2) - top;
    return { height, content, y };
  }

  draw() {
    const { boxes, canvas, words, colours, found, named } = this;
    const { left: begin, width } = this.area, { height, y: yOf } = this.geometry();
    const context = prepare(canvas, Math.max(this.spacer.clientWidth, 50), height);
    if (!context || !boxes) return;
    const theme = themes.current;
    context.font = `${FONT}px ${getComputedStyle(document.documentElement).getPropertyValue("--mono")}`;
    context.textBaseline = "middle";
    context.direction = "ltr";
    const letter = context.measureText("0".repeat(50)).width / 50 || 7;
    const scale = width / boxes.total;
    for (let box = 0; box < boxes.count; box++) {
      const y = yOf(boxes.depth[box]);
      if (y < -ROW || y > height || boxes.frame[box] === -3) continue;
      const left = begin + (boxes.x[box] - boxes.origin) * scale, wide = boxes.width[box] * scale;
      const frame = boxes.frame[box];
      const id = frame >= 0 ? words.functionAt(frame) : -1;
      const isFound = found && id >= 0 && found[id];
      context.fillStyle = isFound ? theme.match : this.colour(box);
      const gap = wide > 3 ? 1 : wide > 1.5 ? 0.5 : 0;
      if (found && id >= 0 && !isFound) context.globalAlpha = theme.isDark ? 0.75 : 0.55;
      context.fillRect(left, y, Math.max(wide - gap, 0.4), ROW - 1);
      context.globalAlpha = 1;
      if (frame !== -1 && wide > 3 * letter) {
        const room = Math.floor((wide - 2 * INDENT) / letter);
        const label = frame === -2 ? (room > 2 ? "all" : "") : words.fitted(id, room);
        if (label) {
          context.fillStyle = isFound ? "#1a1613" : colours.letters(frame);
          context.fillText(label, left + INDENT, y + ROW / 2, wide - INDENT);
        }
      }
      if (id >= 0 && id === named) {
        context.strokeStyle = theme.focus;
        context.lineWidth = 1.5;
        if (wide > 2) context.strokeRect(left + 0.75, y + 0.75, Math.max(wide - gap - 1.5, 0.5), ROW - 2.5);
        else context.fillRect(left, y, Math.max(wide, 1), ROW - 1);
      }
    }
    const marked = this.pointed >= 0 ? this.pointed : document.activeElement === this.scroller ? this.current : -1;
    if (marked >= 0 && marked < boxes.count) {
      context.strokeStyle = theme.text;
      context.lineWidth = 1;
      const left = begin + (boxes.x[marked] - boxes.origin) * scale;
      context.strokeRect(left + 0.5, yOf(boxes.depth[marked]) + 0.5, Math.max(boxes.width[marked] * scale - 2, 1), ROW - 2);
    }
    if (this.time) this.drawTime(context, this.time, begin, height);
    this.drawMore(context, begin, scale, height);
  }

  /** Names bands, and marks the time that is pointed at. @param {CanvasRenderingContext2D} context @param {{mark: () => number, labels: string[]}} time @param {number} begin @param {number} height */
  drawTime(context, { mark, labels }, begin, height) {
    const theme = themes.current, { y } = this.geometry();
    context.font = `${FONT}px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
    labels.forEach((label, band) => {
      context.fillStyle = theme.text;
      const row = this.boxes?.rows?.[band];
      if (row !== undefined) context.fillText(label, 0, y(row) + ROW / 2, Math.max(begin - 8, 1));
    });
    const x = mark();
    context.fillStyle = theme.text;
    if (x >= 0) context.fillRect(Math.round(begin + x), 0, 1, height);
  }

  /** Says that stacks go on outside of the window, and marks which. @param {CanvasRenderingContext2D} context @param {number} begin @param {number} scale @param {number} height */
  drawMore(context, begin, scale, height) {
    const { boxes, rows, upward } = this, { y } = this.geometry(), theme = themes.current;
    if (!boxes) return;
    const isOut = (/** @type {number} */ depth) => upward ? y(depth) < -ROW / 2 : y(depth) > height - ROW / 2;
    let first = 0;
    while (first < rows && !isOut(first)) first++;
    if (first >= rows || !first) return;
    context.fillStyle = theme.text;
    const edge = upward ? 1 : height - 1, tip = upward ? 5 : -5;
    let counted = 0;
    for (let box = 0; box < boxes.count; box++) {
      if (boxes.depth[box] !== first || boxes.frame[box] === -1) continue;
      const wide = boxes.width[box] * scale, middle = begin + (boxes.x[box] - boxes.origin) * scale + wide / 2;
      counted++;
      if (wide < 3 || this.time) continue;
      context.beginPath();
      context.moveTo(middle, edge);
      context.lineTo(middle - 5, edge + tip);
      context.lineTo(middle + 5, edge + tip);
      context.fill();
    }
    if (!counted) return;
    context.font = `11px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
    const text = `${upward ? "▲ goes on above" : "▼ goes on below"}: ${rows - first} more ${rows - first === 1 ? "row" : "rows"}`;
    const wide = context.measureText(text).width + 14, top = upward ? 8 : height - 26, left = Math.min(begin + this.pixels, this.spacer.clientWidth) - wide - 6;
    context.fillStyle = theme.surface;
    context.strokeStyle = theme.muted;
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(left, top, wide, 18, 4);
    context.fill();
    context.stroke();
    context.fillStyle = theme.text;
    context.fillText(text, left + 7, top + 10);
  }

  /** The box at a point of the canvas; -1: none. @param {number} x @param {number} y */
  at(x, y) {
    const { boxes } = this;
    if (!boxes) return -1;
    const { y: yOf } = this.geometry(), { left: begin, width } = this.area, scale = width / boxes.total;
    const depth = this.upward ? Math.floor((yOf(0) + ROW - 1 - y) / ROW) : Math.floor((y - yOf(0)) / ROW);
    for (let box = 0; box < boxes.count; box++) {
      if (boxes.depth[box] !== depth || boxes.frame[box] === -3) continue;
      const left = begin + (boxes.x[box] - boxes.origin) * scale;
      if (x >= left && x < left + Math.max(boxes.width[box] * scale, 1)) return box;
    }
    return -1;
  }

  /** @param {MouseEvent|null} event */
  hover(event) {
    const box = event ? this.at(event.offsetX, event.offsetY) : -1;
    if (box !== this.pointed) {
      this.pointed = box;
      soon(this.redraw);
    }
    this.events.point(this, box, event?.clientX ?? 0, event?.clientY ?? 0);
  }

  /** Frames from the root to a box. @param {number} box */
  path(box) {
    /** @type {number[]} */
    const path = [];
    const { boxes } = this;
    if (!boxes) return path;
    for (let at = box; at > 0; at = boxes.up[at]) path.push(boxes.frame[at]);
    return path.reverse();
  }

  /** Goes to a box, and scrolls to it. @param {number} box */
  goTo(box) {
    const { boxes, scroller } = this;
    if (!boxes || box < 0) return;
    this.current = box;
    const { y } = this.geometry(), top = y(boxes.depth[box]);
    if (top < 0) scroller.scrollTop += top - ROW;
    else if (top > scroller.clientHeight - ROW) scroller.scrollTop += top - scroller.clientHeight + 2 * ROW;
    const { left: begin, width } = this.area, scale = width / boxes.total, area = this.canvas.getBoundingClientRect();
    const x = area.left + begin + Math.min((boxes.x[box] - boxes.origin) * scale + 12, this.pixels - 12);
    this.events.point(this, box, x, area.top + y(boxes.depth[box]) + ROW / 2);
    soon(this.redraw);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { boxes } = this;
    if (!boxes || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = Math.max(this.current, 0);
    const outward = this.upward ? "ArrowUp" : "ArrowDown", inward = this.upward ? "ArrowDown" : "ArrowUp";
    let next = -1;
    if (this.current < 0 && event.key.startsWith("Arrow")) next = 0;
    else if (event.key === inward) next = boxes.up[at];
    else if (event.key === outward) {
      for (let box = 0; box < boxes.count; box++) {
        if (box !== at && boxes.depth[box] === boxes.depth[at] + 1 && boxes.up[box] === at && boxes.frame[box] !== -1
          && (next < 0 || boxes.width[box] > boxes.width[next])) next = box;
      }
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const right = event.key === "ArrowRight";
      for (let box = 0; box < boxes.count; box++) {
        if (boxes.depth[box] !== boxes.depth[at] || boxes.frame[box] === -1) continue;
        const distance = right ? boxes.x[box] - boxes.x[at] : boxes.x[at] - boxes.x[box];
        if (distance > 0 && (next < 0 || distance < Math.abs(boxes.x[next] - boxes.x[at]))) next = box;
      }
    } else if (event.key === "Home") next = 0;
    else if (event.key === "Enter" || event.key === " ") {
      this.events.choose(this, at);
      event.preventDefault();
      return;
    } else return;
    event.preventDefault();
    if (next >= 0) this.goTo(next);
  }

  /** Boxes of functions that are searched for, in the order of reading. */
  matches() {
    const { boxes, found, words } = this;
    if (!boxes || !found) return [];
    const matches = [];
    for (let box = 0; box < boxes.count; box++) {
      if (boxes.frame[box] >= 0 && found[words.functionAt(boxes.frame[box])]) matches.push(box);
    }
    return matches.sort((one, other) => boxes.x[one] - boxes.x[other] || boxes.depth[one] - boxes.depth[other]);
  }
}
