// Draws lanes: what each did in columns of time, its name, and what is missing.
import { LANE_KINDS } from "./engine.js";
import { columns } from "./words.js";
import { themes } from "./colours.js";
import { LEVELS } from "./lanelist.js";

export const RULER = 22, LANE = 22;
/** Height of what threads waited for. */
const STRIP = 5;
/** Blocked threads are paler in strips: most are blocked nearly always. */
const PALE = 0.5;

/** What the engine knows of a lane. @typedef {{kinds: Float32Array, pointed: Float32Array|null, waits: Float32Array|null}} Activity */
/** What the engine knows of some lanes, the first of which has number `first`. @typedef {{request: any, first: number, lanes: Activity[], counters: Float32Array[]}} Activities */
/**
 * @typedef {object} Plot Where time lies.
 * @property {number} labels Width of what is left of it.
 * @property {number} plot Its width.
 * @property {(time: number) => number} x
 * @property {string} sans
 * @property {string} small
 */

/** Where columns of time lie that were asked for. @param {Plot} area @param {{from: number, to: number, columns: number}} request */
function columnsOf({ labels, plot, x }, { from, to, columns: count }) {
  const start = x(from), each = x(from + (to - from) / count) - start;
  return { start, each, begin: Math.max(0, Math.floor((labels - start) / each)), end: Math.min(count, Math.ceil((labels + plot - start) / each)) };
}

/** The greatest sum of a column, by level of lanes: all lanes of a level have one scale, so that their heights can be compared. @param {Activities} activities @param {import("./lanelist.js").Lane[]} lanes */
export function scales(activities, lanes) {
  const most = new Float64Array(LEVELS);
  activities.lanes.forEach(({ kinds }, at) => {
    const level = lanes[activities.first + at]?.level;
    if (level === undefined) return;
    for (let column = 0; column < kinds.length; column += LANE_KINDS) {
      let sum = 0;
      for (let kind = 0; kind < LANE_KINDS; kind++) sum += kinds[column + kind];
      if (sum > most[level]) most[level] = sum;
    }
  });
  return most;
}

/** @param {CanvasRenderingContext2D} context @param {Plot} area @param {Activity} data @param {{from: number, to: number, columns: number}} request @param {number} y @param {number} most */
export function drawActivity(context, area, data, request, y, most) {
  const theme = themes.current, { start, each, begin, end } = columnsOf(area, request);
  const scale = (LANE - 3 - (data.waits ? STRIP + 1 : 0)) / (most || 1), bottom = y + LANE - 1;
  const heights = new Float32Array(request.columns);
  for (let kind = 0; kind < LANE_KINDS; kind++) {
    context.fillStyle = theme.kinds[kind];
    for (let column = begin; column < end; column++) {
      const amount = data.kinds[column * LANE_KINDS + kind] * scale;
      if (!amount) continue;
      heights[column] += amount;
      context.fillRect(start + column * each, bottom - heights[column], Math.max(each - 0.25, 0.5), amount);
    }
  }
  if (data.waits) {
    // What a thread did while it did not run, in a strip of its own: runnable, blocked.
    const alpha = context.globalAlpha;
    for (let state = 0; state < 2; state++) {
      context.fillStyle = theme.kinds[4 + state];
      context.globalAlpha = state ? alpha * PALE : alpha;
      for (let column = begin; column < end; column++) {
        const part = data.waits[column * 2 + state];
        if (part < 0.02) continue;
        const below = state ? data.waits[column * 2] : 0;
        const left = Math.floor(start + column * each), right = Math.ceil(start + (column + 1) * each);
        context.fillRect(left, y + 1 + below * STRIP, right - left, part * STRIP);
      }
    }
    context.globalAlpha = alpha;
  }
  if (data.pointed) {
    context.fillStyle = theme.focus;
    for (let column = begin; column < end; column++) {
      const amount = data.pointed[column] * scale;
      if (amount) context.fillRect(start + column * each, bottom - amount, Math.max(each - 0.25, 0.75), amount);
    }
  }
}

/** A counter of the machine as a line over what is below it. @param {CanvasRenderingContext2D} context @param {Plot} area @param {Float32Array} values @param {{from: number, to: number, columns: number}} request @param {number} y */
export function drawCounter(context, area, values, request, y) {
  const theme = themes.current, { start, each, begin, end } = columnsOf(area, request);
  const most = values.reduce((most, value) => Math.max(most, value), 0) || 1;
  for (let column = begin; column < end; column++) {
    const height = values[column] / most * (LANE - 4);
    context.fillStyle = theme.line;
    context.fillRect(start + column * each, y + LANE - 1 - height, each + 0.25, height);
    context.fillStyle = theme.muted;
    if (height) context.fillRect(start + column * each, y + LANE - 1 - height, each + 0.25, 1);
  }
}

/** The critical path: what its threads did, one after the other. @param {CanvasRenderingContext2D} context @param {Plot} area @param {[number, number, number, number][]} path @param {number} y */
export function drawPath(context, { labels, plot, x }, path, y) {
  const theme = themes.current;
  let before = -1;
  for (const [from, to, lane, doing] of path) {
    const left = Math.max(x(from), labels), right = Math.min(Math.max(x(to), x(from) + 1), labels + plot);
    if (right <= left) continue;
    context.fillStyle = theme.kinds[doing ? 3 + doing : 0];
    context.fillRect(left, y + 3, right - left, LANE - 8);
    context.fillStyle = theme.text;
    if (lane !== before) context.fillRect(left, y + 1, 1, LANE - 3);
    before = lane;
  }
}

/**
 * The name of a lane and, at the end, a detail.
 * @param {CanvasRenderingContext2D} context @param {Plot} area @param {{label: string, detail: string, level: number, open: boolean|null}} lane
 * @param {number} y
 */
export function drawLabel(context, { labels, sans, small }, { label: name, detail, level, open }, y) {
  const theme = themes.current, indent = 8 + level * 14, room = labels - indent - 20;
  context.fillStyle = theme.back;
  context.fillRect(0, y, labels, LANE);
  context.fillStyle = theme.muted;
  context.font = small;
  if (open !== null) context.fillText(open ? "▾" : "▸", indent, y + LANE / 2);
  const wide = context.measureText(detail).width;
  context.font = sans;
  const letters = Math.floor(room / 6.6);
  const label = columns(name) > letters ? `${name.slice(0, Math.max(letters - 1, 3))}…` : name;
  context.fillStyle = theme.text;
  context.fillText(label, indent + 12, y + LANE / 2, room);
  if (Math.min(context.measureText(label).width, room) + wide + 10 < room) {
    context.font = small;
    context.fillStyle = theme.muted;
    context.fillText(detail, labels - wide - 8, y + LANE / 2);
  }
}
