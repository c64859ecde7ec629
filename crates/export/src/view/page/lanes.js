// Lanes: what each thread, or CPU, did when. Selects time and threads, and moments.
import { element, prepare, soon } from "./dom.js";
import { isOff, KIND } from "./format.js";
import { counted, grouped, share, short, SIDES } from "./words.js";
import { missing, themes } from "./colours.js";
import { FIRST_OFF, LANE_KINDS } from "./engine.js";
import { Heat } from "./heat.js";
import { lanesOfCpus, lanesOfThreads } from "./lanelist.js";
import { lossesOf, when } from "./losses.js";
import { drawActivity, drawCounter, drawLabel, drawPath, LANE, RULER, scales } from "./lanedraw.js";

const COLUMN = 2;
/** Samples of a busy thread that a column has, where there is time for them: fewer make a comb. */
const FEW = 10;
/** Lines about a time: gaps that overlap would be many. */
const MOST_FACTS = 6;
/** Width of what hides a lane, at the end of its name. */
const HIDE = 22;

export class Lanes {
  /**
   * @param {import("./format.js").Meta} meta @param {import("./words.js").Words} words @param {import("./state.js").Store} store
   * @param {import("./client.js").Client} client @param {{fail: (error: Error) => void, say: (text: string) => void, tip: (lines: string[], x: number, y: number) => void, moved: () => void}} page
   */
  constructor(meta, words, store, client, page) {
    this.meta = meta;
    this.words = words;
    this.store = store;
    this.client = client;
    this.page = page;
    /** @type {import("./moment.js").Moment|null} */
    this.moment = null;
    this.heat = new Heat(meta);
    this.losses = lossesOf(meta);
    this.canvas = element("canvas", {});
    this.spacer = element("div", { class: "spacer" }, this.canvas);
    this.scroller = element("div", {
      class: "lanes", tabindex: "0", role: "application",
      "aria-label": "Activity over time. Left and right go from sample to sample, with Shift they select time; up and down go from lane to lane, Enter selects one, Delete hides one.",
    }, this.spacer);
    /** @type {Set<string>} */
    this.toggled = new Set();
    /** @type {import("./lanelist.js").Lane[]} */
    this.lanes = [];
    /** @type {import("./lanedraw.js").Activities|null} */
    this.activity = null;
    this.row = 0;
    /** The lane whose name is pointed at. */
    this.named = -1;
    this.mark = -1;
    /** @type {{x: number, from: number, pan: [number, number]|null, moved: boolean, row: number}|null} */
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
    this.canvas.addEventListener("pointerleave", () => { this.mark = this.named = -1; this.page.tip([], 0, 0); this.page.moved(); soon(this.redraw); });
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
    const listing = { sort: state.sort, search: state.find, hidden: state.hidden };
    if (meta.sides) {
      this.lanes = SIDES.flatMap((side, event) => lanesOfThreads(meta, event, this.toggled, listing)
        .map(lane => lane.level ? lane : { ...lane, label: `${side} · ${lane.label}` }));
    } else this.lanes = state.lanes === "cpus" ? lanesOfCpus(meta) : lanesOfThreads(meta, state.event, this.toggled, listing);
    this.row = Math.min(this.row, Math.max(this.lanes.length - 1, 0));
  }

  /** Counters of the machine: names, units, and digits. */
  get counters() {
    const { meta, store: { state } } = this;
    if (state.lanes !== "threads" || !meta.timed || meta.sides) return [];
    const ofWaits = meta.waits ? [{ label: "threads runnable", unit: "", digits: 1 }, { label: "switches", unit: " a second", digits: 0 }] : [];
    return meta.events[state.event].nanoseconds && !meta.events[state.event].time || meta.waits ? [{ label: "CPUs busy", unit: "", digits: 1 }, ...ofWaits] : [];
  }
  /** The critical path, where it is a lane above the threads. */
  get path() {
    const { meta, store: { state } } = this;
    return state.lanes === "threads" && meta.timed && !meta.sides ? meta.waiting?.path ?? [] : [];
  }
  /** Rows above the lanes: the counters, and the critical path. */
  get above() {
    return this.counters.length + (this.path.length ? 1 : 0);
  }
  /** The stretch of the critical path at a place. @param {number} x @param {number} y */
  pathAt(x, y) {
    if (!this.path.length || y < RULER || Math.floor((y - this.y(0)) / LANE) !== -1) return null;
    const time = this.time(x);
    return this.path.find(([from, to]) => from <= time && time < to) ?? null;
  }
  /** Height of the lanes with what is above them. */
  get height() {
    // Without a lane there is a line that says why.
    return RULER + (this.above + Math.max(this.lanes.length, 1)) * LANE + 4;
  }
  /** The side of a comparison that a lane is of: its event. @param {number} row */
  sideOf(row) {
    const lane = this.lanes[row];
    return this.meta.sides && lane ? this.meta.threads[lane.members[0]].side : this.store.state.event;
  }
  /** What a lane selects: time of its side; without a lane, of both. @param {number} row @param {[number, number]|null} time @returns {Partial<import("./state.js").State>} */
  selecting(row, time) {
    if (!this.meta.sides) return { time };
    return row < 0 ? { time, timeBefore: time } : this.sideOf(row) ? { time } : { timeBefore: time };
  }
  /** Where a row of lanes begins in the window. @param {number} row */
  y(row) {
    return RULER - this.scroller.scrollTop + (row + this.above) * LANE;
  }

  /** Height that all lanes need. */
  get wanted() {
    return this.hasHeat ? 150 : this.height;
  }

  /** @param {import("./state.js").State} state @param {import("./state.js").State} old */
  changed(state, old) {
    if (["event", "lanes", "sort", "find", "hidden"].some(part => /** @type {any} */ (state)[part] !== /** @type {any} */ (old)[part])) {
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
    const before = this.above;
    return [Math.max(0, Math.floor(top / LANE) - 2 - before), Math.max(0, Math.min(this.lanes.length, Math.ceil((top + height) / LANE) + 2 - before))];
  }

  /** Asks for what is to be drawn. */
  ask() {
    const { state } = this.store, { meta } = this;
    this.spacer.style.height = `${this.hasHeat ? 0 : this.height}px`;
    if (!meta.timed) return;
    this.measure();
    if (this.hasHeat) return this.askHeat();
    const [from, to] = this.window, [first, last] = this.visible;
    const request = {
      events: this.meta.sides ? [0, 1] : [state.event], from, to, columns: this.columns(to - from), byCpu: state.lanes === "cpus", counters: this.counters.length,
      lanes: this.lanes.slice(first, last).map(lane => lane.members),
      threads: state.threads, steps: state.steps, named: state.named, search: state.search,
    };
    if (this.activity && JSON.stringify(this.activity.request) === JSON.stringify(request)) return;
    this.client.latest("lanes", "lanes", request, ({ lanes, counters }) => {
      this.activity = { request, first, lanes, counters };
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
    const request = this.heat.request(this.store.state, this.window);
    this.client.latest("lanes", "heat", request, ({ cells }) => {
      this.heat.shown = { from: request.from, seconds: request.seconds, parts: request.parts, cells };
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
    const theme = themes.current;
    const fonts = getComputedStyle(document.documentElement);
    const family = fonts.getPropertyValue("--sans"), small = `11px ${family}`;
    /** @type {import("./lanedraw.js").Plot} */
    const area = { labels: this.labels, plot: this.plot, x: time => this.x(time), sans: `12px ${family}`, small };
    context.textBaseline = "middle";
    context.direction = "ltr";
    if (this.hasHeat) this.heat.draw(context, { left: this.labels, top: RULER, height: this.heatHeight, x: area.x }, small);
    else this.drawLanes(context, area, width, height);
    this.drawSelection(context, width, height, small);
    this.drawRuler(context, width, small);
    const pinned = this.moment?.shown;
    if (pinned && pinned.time >= this.window[0] && pinned.time <= this.window[1]) {
      const x = Math.round(this.x(pinned.time)), row = this.rowOf(pinned.thread, pinned.cpu);
      context.fillStyle = theme.focus;
      context.fillRect(x - 0.5, RULER - 6, 2, height);
      context.beginPath();
      context.arc(x + 0.5, row < 0 ? RULER - 6 : Math.max(this.y(row) + LANE / 2, RULER), 4, 0, 7);
      context.fill();
    }
    if (this.mark >= 0 && this.mark >= this.window[0] && this.mark <= this.window[1]) {
      context.fillStyle = theme.text;
      context.fillRect(Math.round(this.x(this.mark)), RULER - 6, 1, height);
    }
  }

  /** What is not selected lies behind a veil. @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @param {string} font */
  drawSelection(context, width, height, font) {
    const theme = themes.current, { state } = this.store, { meta, labels } = this;
    /** @param {[number, number]|null} time @param {number} top @param {number} height @param {number} bar Where the bar lies. */
    const veil = (time, top, height, bar) => {
      if (!time) return;
      const [left, right] = time.map(time => Math.max(labels, Math.min(width, this.x(time))));
      context.fillStyle = theme.veil;
      context.fillRect(labels, top, left - labels, height);
      context.fillRect(right, top, width - right, height);
      context.fillStyle = theme.focus;
      context.fillRect(left, bar, right - left, 3);
      context.fillRect(left - 0.5, bar, 1, height + top - bar);
      context.fillRect(right - 0.5, bar, 1, height + top - bar);
    };
    if (!meta.sides) {
      if (!state.timeBefore) return veil(state.time, RULER, height, RULER - 4);
      // What is compared, and a veil between.
      const times = /** @type {[[number, number]|null, string][]} */ ([[state.timeBefore, SIDES[0]], [state.time, SIDES[1]]]).filter(([time]) => time)
        .map(([time, label]) => ({ left: Math.max(labels, this.x(time?.[0] ?? 0)), right: Math.min(width, this.x(time?.[1] ?? 0)), label }));
      let end = labels;
      context.fillStyle = theme.veil;
      for (const { left, right } of [...times].sort((one, other) => one.left - other.left)) {
        if (left > end) context.fillRect(end, RULER, left - end, height);
        end = Math.max(end, right);
      }
      context.fillRect(end, RULER, width - end, height);
      for (const { left, right, label } of times) {
        if (right <= left) continue;
        context.fillStyle = theme.focus;
        context.fillRect(left, RULER - 4, right - left, 3);
        for (const x of [left, right]) context.fillRect(x - 0.5, RULER - 4, 1, height);
        context.font = font;
        const wide = context.measureText(label).width + 8;
        context.fillRect(left, RULER - 1, wide, 14);
        context.fillStyle = theme.back;
        context.fillText(label, left + 4, RULER + 6);
      }
      return;
    }
    SIDES.forEach((_, side) => {
      const first = this.lanes.findIndex((_, row) => this.sideOf(row) === side), last = this.lanes.findLastIndex((_, row) => this.sideOf(row) === side);
      if (first >= 0) veil(side ? state.time : state.timeBefore, this.y(first), (last + 1 - first) * LANE, this.y(first));
    });
  }

  get heatHeight() {
    return this.scroller.clientHeight - RULER - 4;
  }

  /** The lane of a thread or of its CPU; the innermost that is listed; -1: none. @param {number} thread @param {number} cpu */
  rowOf(thread, cpu) {
    return this.lanes.findLastIndex(({ members }) => members.includes(this.store.state.lanes === "cpus" ? cpu : thread));
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
    context.fillStyle = theme.hatch;
    if (!this.meta.sides) for (const loss of this.losses) {
      const left = Math.max(this.x(loss.from), this.labels);
      context.fillRect(left, RULER - 10, Math.min(Math.max(this.x(loss.to), left + 2), width) - left, 4);
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

  /** @param {CanvasRenderingContext2D} context @param {import("./lanedraw.js").Plot} area @param {number} width @param {number} height */
  drawLanes(context, area, width, height) {
    const theme = themes.current, { state } = this.store, { labels, plot, activity, counters } = this;
    const chosen = state.lanes === "cpus" ? state.cpus : state.threads, set = chosen && new Set(chosen);
    const [first, last] = this.visible, most = activity && scales(activity, this.lanes);
    counters.forEach(({ label, unit, digits }, at) => {
      const y = this.y(at - this.above), values = activity?.counters[at];
      context.fillStyle = theme.line;
      context.fillRect(labels, y + LANE - 1, plot, 1);
      const greatest = values?.reduce((most, value) => Math.max(most, value), 0) ?? 0;
      if (activity && values) drawCounter(context, area, values, activity.request, y);
      drawLabel(context, area, { label, detail: `up to ${digits ? greatest.toFixed(digits) : short(greatest)}${unit}`, level: 0, open: null }, y);
    });
    if (this.path.length) {
      drawPath(context, area, this.path, this.y(-1));
      drawLabel(context, area, { label: "critical path", detail: "", level: 0, open: null }, this.y(-1));
    }
    for (let row = first; row < last; row++) {
      const lane = this.lanes[row], y = this.y(row);
      const isChosen = !set || lane.members.some(member => set.has(member));
      context.globalAlpha = isChosen ? 1 : 0.35;
      context.fillStyle = theme.line;
      context.fillRect(labels, y + LANE - 1, plot, 1);
      const data = activity?.lanes[row - activity.first];
      if (activity && data && most) drawActivity(context, area, data, activity.request, y, most[lane.level]);
      const hides = row === this.named && this.canHide;
      drawLabel(context, area, hides ? { ...lane, detail: "✕" } : lane, y);
      if (set && isChosen) {
        context.fillStyle = theme.focus;
        context.fillRect(0, y + 1, 3, LANE - 3);
      }
      context.globalAlpha = 1;
      if (row === this.row && document.activeElement === this.scroller) {
        context.strokeStyle = theme.focus;
        context.lineWidth = 1.5;
        context.strokeRect(1, y + 0.5, labels - 4, LANE - 2);
      }
    }
    if (!this.lanes.length && state.find) {
      context.fillStyle = theme.muted;
      context.fillText(this.nothingFound(), 8, RULER + LANE / 2 + this.above * LANE);
    }
    // Where waits are missing.
    context.fillStyle = theme.unrecorded;
    for (const [from, to] of this.unrecorded()) {
      const left = Math.max(this.x(from), labels), right = Math.min(Math.max(this.x(to), left + 1), width);
      if (right > left) context.fillRect(left, RULER, right - left, height);
    }
    // Where samples are missing: gaps that overlap are one.
    context.fillStyle = missing(context);
    for (const side of this.meta.sides ? [0, 1] : [0]) {
      const rows = this.meta.sides ? this.lanes.flatMap((_, row) => this.sideOf(row) === side ? [this.y(row)] : []) : [RULER];
      const lost = new Uint8Array(Math.ceil(plot) + 2);
      for (const { from, to, side: of } of this.losses) {
        const left = this.x(from) - labels, right = Math.max(this.x(to) - labels, left + 2);
        if (of === side && right > 0 && left < plot) lost.fill(1, Math.max(Math.floor(left), 0), Math.min(Math.ceil(right), lost.length));
      }
      for (let start = lost.indexOf(1); start >= 0;) {
        const end = lost.indexOf(0, start), width = (end < 0 ? lost.length : end) - start;
        for (const y of rows) context.fillRect(labels + start, y, Math.min(width, plot - start), this.meta.sides ? LANE - 1 : height);
        start = end < 0 ? -1 : lost.indexOf(1, end);
      }
    }
    context.fillStyle = theme.line;
    context.fillRect(labels - 1, RULER, 1, height);
  }

  /** Why there is no lane: a thread that only waits has none among samples of the CPU. */
  nothingFound() {
    const { meta, store: { state } } = this, listing = { sort: state.sort, search: state.find, hidden: state.hidden };
    const elsewhere = meta.events.some((_, event) => lanesOfThreads(meta, event, this.toggled, listing).length);
    return `no lane with “${state.find}”${elsewhere ? " here: it has time in Off-CPU and Wall, or samples of another event (w, e)" : ""}`;
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
    const time = this.store.state.time ?? this.store.state.timeBefore;
    if (time) this.show(time[0] - (time[1] - time[0]) * 0.05, time[1] + (time[1] - time[0]) * 0.05);
    else this.show(0, this.meta.length);
  }

  /** Zooms and moves; what scrolls, scrolls first. @param {WheelEvent} event @param {HTMLElement} [scroller] */
  wheel(event, scroller = this.scroller) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const [from, to] = this.window, fits = scroller.scrollHeight <= scroller.clientHeight + 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      const delta = (event.deltaX || event.deltaY) / this.plot * (to - from);
      this.show(from + delta, to + delta);
    } else if (event.ctrlKey || fits || y < RULER || this.hasHeat && scroller === this.scroller) {
      this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / (event.ctrlKey ? 100 : 300)))), this.time(Math.max(x, this.labels)));
    } else return;
    event.preventDefault();
  }

  /** @param {number} y */
  laneAt(y) {
    const row = Math.floor((y - this.y(0)) / LANE);
    return y >= RULER && row >= 0 && row < this.lanes.length && !this.hasHeat ? row : -1;
  }

  /** Whether lanes can be hidden: all but one. */
  get canHide() {
    return this.store.state.lanes === "threads" && this.lanes.length > 1;
  }
  /** @param {number} row */
  hide(row) {
    const lane = this.lanes[row];
    if (lane && this.canHide) this.store.set({ hidden: [...new Set([...this.store.state.hidden ?? [], ...lane.members])].sort((one, other) => one - other) });
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
        else if (event.pointerType === "mouse" && this.canHide && x > this.labels - HIDE) this.hide(row);
        else this.choose(row, event.ctrlKey || event.metaKey || event.shiftKey);
      }
      return;
    }
    if (!this.meta.timed) return;
    try {
      this.canvas.setPointerCapture(event.pointerId);
    } catch { /* The pointer is gone. */ }
    this.drag = { x, row: this.laneAt(y), from: this.time(x), pan: event.button === 1 || event.altKey ? this.window : null, moved: false };
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
      this.named = this.mark < 0 ? this.laneAt(event.offsetY) : -1;
      this.hint(event);
      this.page.moved();
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
    const to = this.time(x), { from, row } = this.drag;
    if (to !== from) this.store.set(this.selecting(row, [Math.min(from, to), Math.max(from, to)]), "drag");
  }

  /** @param {PointerEvent} event */
  up(event) {
    this.touches.delete(event.pointerId);
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    this.store.last = "";
    if (drag.moved || drag.pan || event.offsetX <= this.labels) return;
    const loss = this.lossAt(event.offsetX, event.offsetY);
    if (loss) return this.selectLoss(loss);
    const stretch = this.pathAt(event.offsetX, event.offsetY);
    if (stretch) drag.row = this.rowOf(stretch[2], -1);
    if (drag.row >= 0) this.row = drag.row;
    this.moment?.pinAt(drag.row, this.time(event.offsetX));
  }

  /** How much of the shown time a lane ran and waited, in lines; none where that was not recorded. @param {number} row */
  statesOf(row) {
    const { activity, meta, store: { state } } = this, data = activity?.lanes[row - activity.first];
    if (!activity || !data || !meta.waits || activity.request.byCpu) return [];
    const { columns } = activity.request, sums = [0, 0, 0, 0];
    if (meta.events[state.event].time) {
      data.kinds.forEach((weight, at) => { sums[Math.max(0, at % LANE_KINDS - FIRST_OFF + 1)] += weight; });
    } else if (data.waits && this.lanes[row].members.length === 1) {
      data.waits.forEach((part, at) => { sums[1 + at % 2] += part / columns; });
    }
    const all = meta.events[state.event].time ? sums.reduce((all, sum) => all + sum, 0) : 1;
    const named = ["running", "runnable", "blocked", "waiting for events"].map((name, at) => sums[at] ? `${share(sums[at], all)} ${name}` : "").filter(text => text);
    return named.length ? [`${named.join(", ")}, of the time shown`] : [];
  }

  /** What is known of a time, in lines. @param {number} row @param {number} time */
  factsAt(row, time) {
    const { activity, words } = this, lane = row >= 0 ? this.lanes[row] : null, lines = [words.time(time, (this.window[1] - this.window[0]) / this.plot)];
    if (activity) {
      const { from, to, columns } = activity.request, column = Math.floor((time - from) / (to - from) * columns);
      const waits = lane && activity.lanes[row - activity.first]?.waits;
      if (waits) {
        const [runnable, blocked] = [waits[column * 2], waits[column * 2 + 1]];
        if (runnable > 0.005) lines.push(`${share(runnable, 1)} runnable`);
        if (blocked > 0.005) lines.push(`${share(blocked, 1)} blocked`);
      }
      if (!lane && !this.hasHeat) this.counters.forEach(({ label, unit, digits }, at) => {
        const value = activity.counters[at]?.[column];
        if (value !== undefined) lines.push(`${digits ? value.toFixed(digits) : short(value)} ${label}${unit}`);
      });
    }
    if (this.unrecorded().some(([from, to]) => from <= time && time <= to)) lines.push("waits were not recorded here");
    const side = this.meta.sides ? this.sideOf(row) : 0;
    // As wide as gaps are drawn.
    const near = (this.window[1] - this.window[0]) / this.plot * 2;
    for (const { from, to, records, side: of } of this.losses) {
      if (of !== side || time < from - near || time > to + near) continue;
      lines.push(`${records ? `${counted(records, "record was", "records were")} lost` : "the kernel throttled the event"}, ${when(words, from, to)}`);
      if (lines.length >= MOST_FACTS) break;
    }
    return lines;
  }

  /** The loss that is drawn at a place of the ruler, which has those of all lanes. @param {number} x @param {number} y */
  lossAt(x, y) {
    if (y >= RULER || x <= this.labels || this.meta.sides) return null;
    return this.losses.find(({ from, to }) => x >= this.x(from) - 2 && x <= Math.max(this.x(to), this.x(from) + 2) + 2) ?? null;
  }

  /** @param {import("./losses.js").Loss} loss */
  selectLoss({ from, to, side }) {
    const [first, last] = this.window, time = /** @type {[number, number]} */ ([from, to]);
    this.store.set(this.meta.sides && !side ? { timeBefore: time } : { time });
    if (from < first || to > last) this.show((from + to - last + first) / 2, (from + to + last - first) / 2);
  }

  /** Says what lies under the pointer. @param {PointerEvent} event */
  hint(event) {
    const { offsetX: x, offsetY: y, clientX, clientY } = event, row = this.laneAt(y), lane = row >= 0 ? this.lanes[row] : null;
    if (this.hasHeat && this.mark >= 0) return this.page.tip(this.heatFacts(y), clientX, clientY);
    const lines = lane ? [`${lane.label} ${lane.detail}`] : [], stretch = this.pathAt(x, y), thread = stretch && this.meta.threads[stretch[2]];
    if (stretch && thread) lines.push(`critical path: ${thread.name} ${thread.tid} ${["ran", "was ready for a CPU", "was blocked"][stretch[3]]}`);
    const [one, many] = this.meta.events[this.store.state.event].time ? ["piece of time", "pieces of time"] : ["sample", "samples"];
    if (lane?.samples) lines.push(counted(lane.samples, one, many));
    if (this.mark < 0) {
      lines.push(...this.statesOf(row));
      if (lane && this.canHide && x > this.labels - HIDE) lines.push("click: hides this lane");
      return this.page.tip(lines, clientX, clientY);
    }
    lines.push(...this.factsAt(row, this.mark));
    if (this.lossAt(x, y)) lines.push("click: selects this time");
    this.page.tip(lines, clientX, clientY);
    if (lane) this.moment?.peek(row, this.mark, stack => { if (this.mark >= 0 && !this.drag) this.page.tip([...lines, ...stack], clientX, clientY); });
  }

  /** What is known of the part of a second that is pointed at. @param {number} y */
  heatFacts(y) {
    const { heat, words, meta } = this, part = heat.partAt(this.mark, 1 - (y - RULER) / this.heatHeight);
    if (!part) return [words.time(this.mark, 1)];
    const lost = meta.gaps.filter(([from, to]) => from < part.to && to >= part.from);
    const records = lost.reduce((sum, [, , records]) => sum + records, 0);
    const says = lost.length ? [records ? `${counted(records, "record was", "records were")} lost in or around it` : "the kernel throttled the event here"] : [];
    return [`${words.time(part.from, part.to - part.from)} – ${words.time(part.to, part.to - part.from)}`, ...says];
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
        if (!event.shiftKey && this.moment) {
          this.moment.step(this.row, sign, this.mark);
          break;
        }
        const mark = this.mark < 0 ? Math.round((from + to) / 2) : this.mark;
        const next = Math.max(0, Math.min(this.meta.length, mark + sign * step));
        const time = this.meta.sides && !this.sideOf(this.row) ? state.timeBefore : state.time;
        const anchor = time ? (time[0] === mark ? time[1] : time[1] === mark ? time[0] : mark) : mark;
        if (anchor !== next) this.store.set(this.selecting(this.row, [Math.min(anchor, next), Math.max(anchor, next)]), "keys");
        this.mark = next;
        if (next < from || next > to) this.show(from + sign * step, to + sign * step);
        this.page.say(this.words.time(next, step));
        break;
      }
      case "ArrowUp": case "ArrowDown":
        this.row = Math.max(0, Math.min(this.lanes.length - 1, this.row + (event.key === "ArrowUp" ? -1 : 1)));
        this.scroller.scrollTop = Math.max(Math.min(this.scroller.scrollTop, (this.row + this.above) * LANE),
          RULER + (this.row + 1 + this.above) * LANE + 4 - this.scroller.clientHeight);
        if (this.lanes[this.row]) this.page.say(`${this.lanes[this.row].label} ${this.lanes[this.row].detail}, ${grouped(this.lanes[this.row].samples)} samples`);
        break;
      case "Delete": this.hide(this.row); break;
      case "Enter": if (lane) this.choose(this.row, event.shiftKey); break;
      case " ": if (lane && lane.open !== null) this.toggle(this.row); break;
      default: if (!this.zoomKey(event.key)) return;
    }
    event.preventDefault();
    soon(this.redraw);
  }

  /** Zooms and moves by a key. Returns whether it is such a key. @param {string} key */
  zoomKey(key) {
    const [from, to] = this.window, around = this.mark >= 0 ? this.mark : this.moment?.shown?.time ?? (from + to) / 2;
    switch (key) {
      case "+": case "=": this.zoom(0.6, around); break;
      case "-": this.zoom(1 / 0.6, around); break;
      case "Home": this.show(0, to - from); break;
      case "End": this.show(this.meta.length - (to - from), this.meta.length); break;
      default: return false;
    }
    return true;
  }

  /** Where the shown lanes have no waits because none were recorded. */
  unrecorded() {
    return this.activity?.request.byCpu ? [] : this.meta.unrecorded ?? [];
  }

  /** What colours mean that occur, for the legend. */
  kinds() {
    const { meta } = this, kinds = new Set(meta.frames.kind), hasOff = [...kinds].some(isOff);
    return [
      { label: "user", colour: "kind0", shown: true },
      { label: "kernel", colour: "kind1", shown: kinds.has(KIND.kernel) },
      { label: "generated code", colour: "kind2", shown: kinds.has(KIND.generated) },
      { label: "no name", colour: "kind3", shown: kinds.has(KIND.nameless) },
      { label: "runnable", colour: "kind4", shown: kinds.has(KIND.runnable) || Boolean(meta.waits) },
      { label: "blocked", colour: "kind5", shown: kinds.has(KIND.blocked) || Boolean(meta.waits) },
      { label: "waiting for events", colour: "kind6", shown: kinds.has(KIND.waiting) },
      { label: "frames off the CPU for 95 % or more", colour: "off", shown: hasOff },
      { label: "waits not recorded", colour: "unrecorded", shown: Boolean(meta.unrecorded?.length) },
    ].filter(kind => kind.shown);
  }
}
