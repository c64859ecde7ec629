// Lanes: what each thread, or CPU, did when. Selects time, and threads.
import { element, prepare, soon } from "./dom.js";
import { KIND } from "./format.js";
import { LANE_KINDS } from "./engine.js";
import { columns, counted, grouped, share } from "./words.js";
import { themes } from "./colours.js";
import { lanesOfCpus, lanesOfThreads, LEVELS } from "./lanelist.js";

const RULER = 22, LANE = 22, COLUMN = 2;
/** Samples of a busy thread that a column has, where there is time for them: fewer make a comb. */
const FEW = 10;
/** Height of what threads waited for. */
const STRIP = 5;

export class Lanes {
  /**
   * @param {import("./format.js").Meta} meta @param {import("./words.js").Words} words @param {import("./state.js").Store} store
   * @param {import("./client.js").Client} client @param {{fail: (error: Error) => void, say: (text: string) => void, tip: (lines: string[], x: number, y: number) => void}} page
   */
  constructor(meta, words, store, client, page) {
    this.meta = meta;
    this.words = words;
    this.store = store;
    this.client = client;
    this.page = page;
    this.canvas = element("canvas", {});
    this.spacer = element("div", { class: "spacer" }, this.canvas);
    this.scroller = element("div", {
      class: "lanes", tabindex: "0", role: "application",
      "aria-label": "Activity over time. Left and right move the mark, with Shift they select time; up and down go from lane to lane, Enter selects one.",
    }, this.spacer);
    /** @type {Set<string>} */
    this.toggled = new Set();
    /** @type {import("./lanelist.js").Lane[]} */
    this.lanes = [];
    /** @type {{request: any, first: number, lanes: {kinds: Float32Array, pointed: Float32Array|null, waits: Float32Array|null}[]}|null} */
    this.activity = null;
    /** @type {{from: number, seconds: number, parts: number, cells: Float32Array}|null} */
    this.heat = null;
    /** Heights of the columns of the lane that is drawn. */
    this.heights = new Float32Array();
    this.row = 0;
    this.mark = -1;
    /** @type {{x: number, from: number, pan: [number, number]|null, moved: boolean, y: number}|null} */
    this.drag = null;
    /** @type {Map<number, {x: number, y: number}>} */
    this.touches = new Map();
    this.redraw = () => this.draw();
    this.refresh = () => this.ask();
    this.scroller.addEventListener("scroll", () => { soon(this.refresh); soon(this.redraw); });
    this.scroller.addEventListener("keydown", event => this.key(event));
    this.scroller.addEventListener("focus", this.redraw);
    this.scroller.addEventListener("blur", this.redraw);
    this.canvas.addEventListener("pointerdown", event => this.down(event));
    this.canvas.addEventListener("pointermove", event => this.move(event));
    this.canvas.addEventListener("pointerup", event => this.up(event));
    this.canvas.addEventListener("pointercancel", event => { this.touches.delete(event.pointerId); this.drag = null; });
    this.canvas.addEventListener("pointerleave", () => { this.mark = -1; this.page.tip([], 0, 0); soon(this.redraw); });
    this.canvas.addEventListener("dblclick", event => { if (event.offsetX > this.labels) this.zoomToSelection(); });
    this.scroller.addEventListener("wheel", event => this.wheel(event), { passive: false });
    // Kept, because asking for a width costs as much as drawing a column.
    this.labels = 0;
    this.plot = 40;
    const resized = new ResizeObserver(() => { this.measure(); soon(this.refresh); soon(this.redraw); });
    resized.observe(this.scroller);
    resized.observe(this.spacer);
    themes.listeners.push(() => soon(this.redraw));
    this.list();
  }

  measure() {
    this.labels = Math.min(210, Math.floor(this.scroller.clientWidth * 0.32));
    this.plot = Math.max(this.spacer.clientWidth - this.labels, 40);
  }
  /** The time that is shown. @returns {[number, number]} */
  get window() {
    return this.store.state.window ?? [0, Math.max(this.meta.length, 1)];
  }
  get hasHeat() {
    return this.store.state.lanes === "heat";
  }

  /** Makes the list of lanes. */
  list() {
    const { meta, store: { state } } = this;
    this.lanes = state.lanes === "cpus" ? lanesOfCpus(meta) : lanesOfThreads(meta, state.event, this.toggled);
    this.row = Math.min(this.row, Math.max(this.lanes.length - 1, 0));
  }

  /** Height that all lanes need. */
  get wanted() {
    return this.hasHeat ? 150 : RULER + this.lanes.length * LANE + 4;
  }

  /** @param {import("./state.js").State} state @param {import("./state.js").State} old */
  changed(state, old) {
    if (state.event !== old.event || state.lanes !== old.lanes) {
      this.list();
      this.activity = null;
    }
    clearTimeout(this.waiting);
    // What is typed is shown in the lanes when there is a pause: the figures come first.
    if (state.search !== old.search) this.waiting = setTimeout(this.refresh, 150);
    else this.ask();
    soon(this.redraw);
  }

  /** Lanes in view: the first, and behind the last. @returns {[number, number]} */
  get visible() {
    const top = this.scroller.scrollTop, height = this.scroller.clientHeight;
    return [Math.max(0, Math.floor(top / LANE) - 2), Math.min(this.lanes.length, Math.ceil((top + height) / LANE) + 2)];
  }

  /** Asks for what is to be drawn. */
  ask() {
    const { state } = this.store, { meta } = this;
    this.spacer.style.height = `${this.hasHeat ? 0 : RULER + this.lanes.length * LANE + 4}px`;
    if (!meta.timed) return;
    this.measure();
    if (this.hasHeat) return this.askHeat();
    const [from, to] = this.window, [first, last] = this.visible;
    const request = {
      event: state.event, from, to, columns: this.columns(to - from), byCpu: state.lanes === "cpus",
      lanes: this.lanes.slice(first, last).map(lane => lane.members),
      threads: state.threads, steps: state.steps, named: state.named, search: state.search,
    };
    if (this.activity && JSON.stringify(this.activity.request) === JSON.stringify(request)) return;
    this.client.latest("lanes", "lanes", request, ({ lanes }) => {
      this.activity = { request, first, lanes };
      soon(this.redraw);
    }, this.page.fail);
  }

  /** Columns of a window: as many as can be seen, but wider where a column would have fewer than some samples of a busy thread. @param {number} length */
  columns(length) {
    const { nanoseconds } = this.meta.events[this.store.state.event];
    const most = Math.max(1, Math.floor(this.plot / COLUMN));
    const filled = nanoseconds ? length * this.meta.unit * 1e3 / (nanoseconds * FEW) : most;
    return Math.floor(Math.max(1, Math.min(most, Math.max(filled, most / 3))));
  }

  askHeat() {
    const { state } = this.store, second = 1e6 / this.meta.unit;
    const window = this.window, from = Math.floor(window[0] / second) * second;
    const seconds = Math.max(1, Math.min(Math.ceil((window[1] - from) / second), 4000)), parts = 40;
    const { event, threads, cpus, steps } = state;
    const request = { selection: { event, time: null, threads, cpus, steps, search: "" }, from, seconds, parts };
    this.client.latest("lanes", "heat", request, ({ cells }) => {
      this.heat = { from, seconds, parts, cells };
      soon(this.redraw);
    }, this.page.fail);
  }

  /** @param {number} time */
  x(time) {
    const [from, to] = this.window;
    return this.labels + (time - from) / (to - from) * this.plot;
  }
  /** A time that is stored so. @param {number} x */
  time(x) {
    const [from, to] = this.window;
    const time = Math.round(from + (x - this.labels) / this.plot * (to - from));
    return Math.max(0, Math.min(this.meta.length, time));
  }

  draw() {
    const width = Math.max(this.spacer.clientWidth, 80), height = this.scroller.clientHeight;
    const context = prepare(this.canvas, width, height);
    if (!context) return;
    const theme = themes.current, { state } = this.store;
    const fonts = getComputedStyle(document.documentElement);
    const sans = `12px ${fonts.getPropertyValue("--sans")}`, small = `11px ${fonts.getPropertyValue("--sans")}`;
    context.textBaseline = "middle";
    context.direction = "ltr";
    if (this.hasHeat) this.drawHeat(context, height);
    else this.drawLanes(context, width, height, sans, small);
    // What is not selected lies behind a veil.
    if (state.time) {
      const [left, right] = state.time.map(time => Math.max(this.labels, Math.min(width, this.x(time))));
      context.fillStyle = theme.veil;
      context.fillRect(this.labels, RULER, left - this.labels, height);
      context.fillRect(right, RULER, width - right, height);
      context.fillStyle = theme.focus;
      context.fillRect(left, RULER - 4, right - left, 3);
      context.fillRect(left - 0.5, RULER - 4, 1, height);
      context.fillRect(right - 0.5, RULER - 4, 1, height);
    }
    this.drawRuler(context, width, small);
    if (this.mark >= 0 && this.mark >= this.window[0] && this.mark <= this.window[1]) {
      context.fillStyle = theme.text;
      context.fillRect(Math.round(this.x(this.mark)), RULER - 6, 1, height);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {string} font */
  drawRuler(context, width, font) {
    const theme = themes.current, [from, to] = this.window;
    context.fillStyle = theme.surface;
    context.fillRect(0, 0, width, RULER - 4);
    context.fillStyle = theme.muted;
    context.font = font;
    if (!this.meta.timed) {
      context.fillText("These samples do not say when they were taken.", 8, RULER / 2 - 1);
      return;
    }
    const units = 1e6 / this.meta.unit, least = (to - from) / this.plot * 90;
    let step = 10 ** Math.floor(Math.log10(least / units)) * units;
    for (const factor of [2, 2.5, 2]) if (step < least) step *= factor;
    step = Math.max(step, 1);
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const x = this.x(time);
      context.fillStyle = theme.line;
      context.fillRect(Math.round(x), RULER - 9, 1, 5);
      context.fillStyle = theme.muted;
      const label = this.words.time(time, step), wide = context.measureText(label).width;
      context.fillText(label, Math.min(x + 3, width - wide - 2), RULER / 2 - 3);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @param {string} sans @param {string} small */
  drawLanes(context, width, height, sans, small) {
    const theme = themes.current, { state } = this.store, { labels, plot } = this;
    const chosen = state.lanes === "cpus" ? state.cpus : state.threads, set = chosen && new Set(chosen);
    const [first, last] = this.visible, top = RULER - this.scroller.scrollTop;
    const { activity } = this;
    // All lanes of a level have one scale, so that their heights can be compared.
    const most = new Float64Array(LEVELS);
    activity?.lanes.forEach((lane, at) => {
      const level = this.lanes[activity.first + at]?.level;
      if (level === undefined) return;
      for (let column = 0; column < lane.kinds.length; column += LANE_KINDS) {
        let sum = 0;
        for (let kind = 0; kind < LANE_KINDS; kind++) sum += lane.kinds[column + kind];
        if (sum > most[level]) most[level] = sum;
      }
    });
    for (let row = first; row < last; row++) {
      const lane = this.lanes[row], y = top + row * LANE;
      const isChosen = !set || lane.members.some(member => set.has(member));
      context.globalAlpha = isChosen ? 1 : 0.35;
      context.fillStyle = theme.line;
      context.fillRect(labels, y + LANE - 1, plot, 1);
      const data = activity?.lanes[row - activity.first];
      if (activity && data) {
        const [from, to] = [activity.request.from, activity.request.to];
        const count = activity.request.columns, step = (to - from) / count, scale = (LANE - 3 - (data.waits ? STRIP + 1 : 0)) / (most[lane.level] || 1);
        const start = this.x(from), each = this.x(from + step) - start, bottom = y + LANE - 1;
        const begin = Math.max(0, Math.floor((labels - start) / each)), end = Math.min(count, Math.ceil((width - start) / each));
        const heights = this.heights.length < count ? this.heights = new Float32Array(count) : this.heights.fill(0);
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
          // What a thread did while it did not run, in a strip of its own.
          for (let state = 0; state < 2; state++) {
            context.fillStyle = theme.waits[state];
            for (let column = begin; column < end; column++) {
              const part = data.waits[column * 2 + state];
              if (part < 0.02) continue;
              const below = state ? data.waits[column * 2] : 0;
              const left = Math.floor(start + column * each), right = Math.ceil(start + (column + 1) * each);
              context.fillRect(left, y + 1 + below * STRIP, right - left, part * STRIP);
            }
          }
        }
        if (data.pointed) {
          context.fillStyle = theme.focus;
          for (let column = begin; column < end; column++) {
            const amount = data.pointed[column] * scale;
            if (amount) context.fillRect(start + column * each, bottom - amount, Math.max(each - 0.25, 0.75), amount);
          }
        }
      }
      context.fillStyle = theme.back;
      context.fillRect(0, y, labels, LANE);
      const indent = 8 + lane.level * 14;
      if (set && isChosen) {
        context.fillStyle = theme.focus;
        context.fillRect(0, y + 1, 3, LANE - 3);
      }
      context.fillStyle = theme.muted;
      context.font = small;
      if (lane.open !== null) context.fillText(lane.open ? "▾" : "▸", indent, y + LANE / 2);
      const detail = lane.detail, wide = context.measureText(detail).width;
      const room = labels - indent - 20;
      context.font = sans;
      const letters = Math.floor(room / 6.6);
      const label = columns(lane.label) > letters ? `${lane.label.slice(0, Math.max(letters - 1, 3))}…` : lane.label;
      context.fillStyle = theme.text;
      context.fillText(label, indent + 12, y + LANE / 2, room);
      const name = Math.min(context.measureText(label).width, room);
      if (name + wide + 10 < room) {
        context.font = small;
        context.fillStyle = theme.muted;
        context.fillText(detail, labels - wide - 8, y + LANE / 2);
      }
      context.globalAlpha = 1;
      if (row === this.row && document.activeElement === this.scroller) {
        context.strokeStyle = theme.focus;
        context.lineWidth = 1.5;
        context.strokeRect(1, y + 0.5, labels - 4, LANE - 2);
      }
    }
    // Where waits are missing.
    context.fillStyle = theme.unrecorded;
    for (const [from, to] of this.unrecorded()) {
      const left = Math.max(this.x(from), labels), right = Math.min(Math.max(this.x(to), left + 1), width);
      if (right > left) context.fillRect(left, RULER, right - left, height);
    }
    // Where samples are missing.
    for (const [from, to] of this.meta.gaps) {
      const left = this.x(from), right = Math.max(this.x(to), left + 2);
      if (right < labels || left > width) continue;
      context.fillStyle = theme.isDark ? "rgba(255,120,90,.35)" : "rgba(190,40,20,.22)";
      context.fillRect(Math.max(left, labels), RULER, right - Math.max(left, labels), height);
    }
    context.fillStyle = theme.line;
    context.fillRect(labels - 1, RULER, 1, height);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} height */
  drawHeat(context, height) {
    const { heat } = this, theme = themes.current;
    if (!heat) return;
    const second = 1e6 / this.meta.unit, rows = height - RULER - 4;
    let most = 0;
    for (const cell of heat.cells) if (cell > most) most = cell;
    for (let column = 0; column < heat.seconds; column++) {
      const left = this.x(heat.from + column * second), right = this.x(heat.from + (column + 1) * second);
      if (right < this.labels) continue;
      for (let part = 0; part < heat.parts; part++) {
        const amount = heat.cells[column * heat.parts + part];
        if (!amount) continue;
        context.globalAlpha = 0.12 + 0.88 * Math.sqrt(amount / most);
        context.fillStyle = theme.kinds[0];
        const y = RULER + rows - (part + 1) * rows / heat.parts;
        const from = Math.max(left, this.labels);
        context.fillRect(from, y, Math.max(right - from - (right - left > 4 ? 1 : 0), 0.5), rows / heat.parts - 0.5);
      }
    }
    context.globalAlpha = 1;
    context.fillStyle = theme.back;
    context.fillRect(0, RULER, this.labels, height);
    context.fillStyle = theme.muted;
    context.font = `11px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
    const labels = ["1 s", "part of", "each second", "0 s"];
    labels.forEach((label, at) => {
      const y = at === 0 ? RULER + 7 : at === 3 ? RULER + rows - 7 : RULER + rows / 2 - 8 + (at - 1) * 15;
      context.fillText(label, this.labels - 8 - context.measureText(label).width, y);
    });
  }

  /** Changes the time that is shown. @param {number} from @param {number} to */
  show(from, to) {
    const all = Math.max(this.meta.length, 1), least = Math.min(all, 20);
    const length = Math.max(least, Math.min(to - from, all));
    const start = Math.round(Math.max(0, Math.min(from, all - length)));
    const end = Math.round(start + length);
    this.store.set({ window: start <= 0 && end >= all ? null : [start, Math.min(end, all)] }, "window");
  }
  /** @param {number} factor @param {number} around */
  zoom(factor, around) {
    const [from, to] = this.window;
    this.show(around - (around - from) * factor, around + (to - around) * factor);
  }
  zoomToSelection() {
    const { time } = this.store.state;
    if (time) this.show(time[0] - (time[1] - time[0]) * 0.05, time[1] + (time[1] - time[0]) * 0.05);
    else this.show(0, this.meta.length);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const [from, to] = this.window, fits = this.scroller.scrollHeight <= this.scroller.clientHeight + 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      const delta = (event.deltaX || event.deltaY) / this.plot * (to - from);
      this.show(from + delta, to + delta);
    } else if (event.ctrlKey || fits || y < RULER || this.hasHeat) {
      this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / (event.ctrlKey ? 100 : 300)))), this.time(Math.max(x, this.labels)));
    } else return;
    event.preventDefault();
  }

  /** @param {number} y */
  laneAt(y) {
    const row = Math.floor((y - RULER + this.scroller.scrollTop) / LANE);
    return y >= RULER && row < this.lanes.length && !this.hasHeat ? row : -1;
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button > 1) return;
    const { offsetX: x, offsetY: y } = event;
    this.touches.set(event.pointerId, { x, y });
    if (x <= this.labels && y >= RULER) {
      const row = this.laneAt(y);
      if (row >= 0) {
        const lane = this.lanes[row];
        this.row = row;
        if (lane.open !== null && x < 26 + lane.level * 14) this.toggle(row);
        else this.choose(row, event.ctrlKey || event.metaKey || event.shiftKey);
      }
      return;
    }
    if (!this.meta.timed) return;
    try {
      this.canvas.setPointerCapture(event.pointerId);
    } catch { /* The pointer is gone. */ }
    this.drag = { x, y, from: this.time(x), pan: event.button === 1 || event.altKey ? this.window : null, moved: false };
  }

  /** @param {PointerEvent} event */
  move(event) {
    const { offsetX: x } = event;
    const touch = this.touches.get(event.pointerId);
    if (touch && this.touches.size === 2) {
      // Two fingers: what is between them stays between them.
      const [one, other] = [...this.touches.values()];
      const before = Math.abs(one.x - other.x), middle = this.time((one.x + other.x) / 2);
      touch.x = x;
      const after = Math.abs([...this.touches.values()][0].x - [...this.touches.values()][1].x);
      if (before > 5 && after > 5) this.zoom(before / after, middle);
      this.drag = null;
      return;
    }
    if (!this.drag) {
      this.mark = x > this.labels && this.meta.timed ? this.time(x) : -1;
      this.hint(event);
      soon(this.redraw);
      return;
    }
    if (Math.abs(x - this.drag.x) > 3) this.drag.moved = true;
    if (!this.drag.moved) return;
    if (this.drag.pan) {
      const [from, to] = this.drag.pan, delta = (this.drag.x - x) / this.plot * (to - from);
      this.show(from + delta, to + delta);
      return;
    }
    const to = this.time(x), { from } = this.drag;
    if (to !== from) this.store.set({ time: [Math.min(from, to), Math.max(from, to)] }, "drag");
  }

  /** @param {PointerEvent} event */
  up(event) {
    this.touches.delete(event.pointerId);
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    this.store.last = "";
    if (!drag.moved && !drag.pan && event.offsetX > this.labels) this.store.set({ time: null });
  }

  /** Says what lies under the pointer. @param {PointerEvent} event */
  hint(event) {
    const row = this.laneAt(event.offsetY);
    const lane = row >= 0 ? this.lanes[row] : null;
    const lines = lane ? [`${lane.label} ${lane.detail}`] : [];
    if (lane?.samples) lines.push(counted(lane.samples, "sample", "samples"));
    if (this.mark >= 0) {
      lines.push(this.words.time(this.mark, (this.window[1] - this.window[0]) / this.plot));
      const waits = lane && this.activity?.lanes[row - this.activity.first]?.waits;
      if (waits && this.activity) {
        const { from, to, columns } = this.activity.request, column = Math.floor((this.mark - from) / (to - from) * columns);
        const [ready, blocked] = [waits[column * 2], waits[column * 2 + 1]];
        if (ready > 0.005) lines.push(`${share(ready, 1)} ready, without a CPU`);
        if (blocked > 0.005) lines.push(`${share(blocked, 1)} blocked`);
      }
      const gap = this.meta.gaps.find(([from, to]) => from <= this.mark && this.mark <= to);
      if (this.unrecorded().some(([from, to]) => from <= this.mark && this.mark <= to)) lines.push("waits were not recorded here");
      if (gap) lines.push(gap[2] ? `${counted(gap[2], "record was", "records were")} lost here` : "the kernel throttled the event here");
    }
    this.page.tip(lines, event.clientX, event.clientY);
  }

  /** @param {number} row */
  toggle(row) {
    const { key } = this.lanes[row];
    if (!this.toggled.delete(key)) this.toggled.add(key);
    this.list();
    this.activity = null;
    this.ask();
    soon(this.redraw);
  }

  /** Selects a lane, or one more. @param {number} row @param {boolean} more */
  choose(row, more) {
    const lane = this.lanes[row], { state } = this.store;
    const key = state.lanes === "cpus" ? "cpus" : "threads";
    const chosen = new Set(more ? state[key] ?? [] : []);
    const had = state[key];
    const same = had && had.length === lane.members.length && lane.members.every(member => had.includes(member));
    if (same && !more) {
      this.store.set({ [key]: null });
      return;
    }
    const has = lane.members.every(member => chosen.has(member));
    for (const member of lane.members) if (has) chosen.delete(member);
    else chosen.add(member);
    this.store.set({ [key]: chosen.size ? [...chosen].sort((one, other) => one - other) : null });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.window, step = Math.max(1, Math.round((to - from) / 50)), { state } = this.store;
    const lane = this.lanes[this.row];
    switch (event.key) {
      case "ArrowLeft": case "ArrowRight": {
        if (!this.meta.timed) return;
        const sign = event.key === "ArrowLeft" ? -1 : 1;
        const mark = this.mark < 0 ? Math.round((from + to) / 2) : this.mark;
        const next = Math.max(0, Math.min(this.meta.length, mark + sign * step));
        if (event.shiftKey) {
          const anchor = state.time ? (state.time[0] === mark ? state.time[1] : state.time[1] === mark ? state.time[0] : mark) : mark;
          if (anchor !== next) this.store.set({ time: [Math.min(anchor, next), Math.max(anchor, next)] }, "keys");
        }
        this.mark = next;
        if (next < from || next > to) this.show(from + sign * step, to + sign * step);
        this.page.say(this.words.time(next, step));
        break;
      }
      case "ArrowUp": case "ArrowDown":
        this.row = Math.max(0, Math.min(this.lanes.length - 1, this.row + (event.key === "ArrowUp" ? -1 : 1)));
        this.scroller.scrollTop = Math.max(Math.min(this.scroller.scrollTop, this.row * LANE),
          RULER + (this.row + 1) * LANE + 4 - this.scroller.clientHeight);
        if (this.lanes[this.row]) this.page.say(`${this.lanes[this.row].label} ${this.lanes[this.row].detail}, ${grouped(this.lanes[this.row].samples)} samples`);
        break;
      case "Enter": if (lane) this.choose(this.row, event.shiftKey); break;
      case " ": if (lane && lane.open !== null) this.toggle(this.row); break;
      case "+": case "=": this.zoom(0.6, this.mark < 0 ? (from + to) / 2 : this.mark); break;
      case "-": this.zoom(1 / 0.6, this.mark < 0 ? (from + to) / 2 : this.mark); break;
      case "Home": this.show(0, to - from); break;
      case "End": this.show(this.meta.length - (to - from), this.meta.length); break;
      default: return;
    }
    event.preventDefault();
    soon(this.redraw);
  }

  /** Where the shown lanes have no waits because none were recorded. */
  unrecorded() {
    return this.activity?.request.byCpu ? [] : this.meta.unrecorded ?? [];
  }

  /** Kinds that occur, for the legend. */
  kinds() {
    const kinds = new Set(this.meta.frames.kind);
    return [
      { label: "user", colour: 0, shown: true },
      { label: "kernel", colour: 1, shown: kinds.has(KIND.kernel) },
      { label: "generated code", colour: 2, shown: kinds.has(KIND.generated) },
      { label: "no name", colour: 3, shown: kinds.has(KIND.nameless) },
      { label: "runnable", colour: 6, shown: kinds.has(KIND.runnable) },
      { label: "blocked", colour: 7, shown: kinds.has(KIND.blocked) },
      { label: "waiting for events", colour: 8, shown: kinds.has(KIND.waiting) },
      { label: "frames off the CPU for 95 % or more", colour: 9, shown: kinds.has(KIND.runnable) || kinds.has(KIND.blocked) || kinds.has(KIND.waiting) },
      { label: "ready, no CPU", colour: 4, shown: Boolean(this.meta.waits) },
      { label: "blocked", colour: 5, shown: Boolean(this.meta.waits) },
      { label: "waits not recorded", colour: 10, shown: Boolean(this.meta.unrecorded?.length) },
    ].filter(kind => kind.shown);
  }
}
