// The page: puts the panels together and keeps them in step with the state.
import { button, copy, element, preferences, soon } from "./dom.js";
import { defaultEvent, fromFragment, Store, toFragment, viewsOf } from "./state.js";
import { counted, grouped, share, SIDES, Words } from "./words.js";
import { Colours, rgb, themes } from "./colours.js";
import { Lanes } from "./lanes.js";
import { Losses } from "./losses.js";
import { Moment } from "./moment.js";
import { Picture } from "./picture.js";
import { FunctionTable, WIDE_SIDES } from "./functions.js";
import { CallTree } from "./calltree.js";
import { SourceView } from "./source.js";
import { AssemblyView } from "./assembly.js";
import { WaitsView } from "./waits.js";
import { helpDialog } from "./help.js";
import { shareDialog } from "./share.js";
import { onKey } from "./keys.js";
import { showCrumbs } from "./crumbs.js";
import { showNamed } from "./details.js";

/** @type {[string, string, string][]} */
const TABS = [
  ["flame", "Flame graph", "Stacks from the root, equal ones merged"],
  ["order", "Time order", "The stacks of threads in the order of time, on the axis of the lanes"],
  ["tree", "Call tree", "Stacks from the root, as rows"],
  ["inverted", "Inverted tree", "From where samples were taken to their callers, as rows"],
  ["sandwich", "Sandwich", "Callers of one function above, what it calls below"],
  ["functions", "Functions", "All functions with their figures"],
  ["source", "Source", "Lines of the function pointed out, with their samples"],
  ["assembly", "Assembly", "Instructions of the function pointed out, with their samples"],
  ["waits", "Waits", "What threads waited for, who ended that, and what those did meanwhile: who held the lock"],
];

/** Threads that are shown in the order of time at most. */
const MOST_BANDS = 16;

/** What tells the steps apart that Back and Forward walk. @param {import("./state.js").State} state */
const stepOf = state => toFragment({ ...state, named: -1, window: null, pin: -1 });

export class Page {
  /** @param {import("./format.js").Meta} meta @param {import("./client.js").Client} client @param {import("./share.js").Loaded} loaded @param {(error: unknown) => void} fail */
  constructor(meta, client, loaded, fail) {
    this.meta = meta;
    this.client = client;
    this.words = new Words(meta);
    this.colours = new Colours(meta);
    // A file that was saved to be shared says how it opens.
    this.addressed = () => fromFragment(location.hash || document.documentElement.dataset.opens || "", meta);
    this.store = new Store(this.addressed());
    this.share = shareDialog(loaded, this.store);
    /** @type {import("./engine.js").Totals|null} */
    this.totals = null;
    /** The time from the first to the last sample of the function that is pointed out. @type {[number, number]|null} */
    this.extent = null;
    this.match = -1;
    /** What the tables of functions show. */
    this.listed = "";
    this.upward = preferences.get("roots", "bottom") === "bottom";
    this.fail = fail;
    /** The step of the history that the page is at. */
    this.saved = stepOf(this.state);
    this.build();
    this.store.listeners.push((state, old) => this.changed(state, old));
  }

  get state() {
    return this.store.state;
  }

  build() {
    const { meta, words, colours, store } = this;
    this.live = element("output", { class: "unseen", "aria-live": "polite" });
    this.tip = element("div", { class: "tip", role: "tooltip", hidden: true });
    this.help = helpDialog();
    this.lanes = new Lanes(meta, words, store, this.client, {
      fail: this.fail, say: text => this.say(text), tip: (lines, x, y) => this.showTip(lines, x, y),
      moved: () => { if (this.main?.time) soon(this.main.redraw); },
    });
    const { lanes } = this;
    this.losses = new Losses(meta, words, lanes);
    this.moment = lanes.moment = new Moment(meta, words, colours, store, this.client, lanes, {
      fail: this.fail, say: text => this.say(text), changed: () => { soon(lanes.redraw); if (this.main) soon(this.main.redraw); },
    });
    const events = {
      /** @param {Picture} picture @param {number} box */
      choose: (picture, box) => this.choose(picture, box),
      /** @param {Picture} picture @param {number} box @param {number} x @param {number} y */
      point: (picture, box, x, y) => this.point(picture, box, x, y),
      resized: () => soon(this.refreshView),
    };
    this.main = new Picture("Flame graph", words, colours, events);
    const { main: picture } = this;
    picture.scroller.addEventListener("wheel", event => { if (picture.time) lanes.wheel(event, picture.scroller); }, { passive: false });
    picture.scroller.addEventListener("keydown", event => { if (picture.time && lanes.zoomKey(event.key)) event.preventDefault(); });
    this.timeOfMain = {
      /** The same pixels as in the lanes. */
      area: () => ({ left: Math.max(0, lanes.canvas.getBoundingClientRect().left + lanes.labels - picture.canvas.getBoundingClientRect().left), width: lanes.plot }),
      mark: () => lanes.mark >= 0 ? lanes.x(lanes.mark) - lanes.labels : lanes.moment?.shown ? lanes.x(lanes.moment.shown.time) - lanes.labels : -1,
      /** @type {string[]} */
      labels: [],
    };
    this.callers = new Picture("Callers", words, colours, events);
    this.callees = new Picture("Callees", words, colours, events);
    this.callers.upward = true;
    const openSandwich = (/** @type {number} */ named) => store.set({ named, view: "sandwich", zoom: [] });
    this.table = new FunctionTable(words, store, openSandwich);
    this.side = new FunctionTable(words, store, openSandwich);
    const refresh = () => this.askView();
    this.tree = new CallTree("Call tree", "tree", words, colours, store, refresh, openSandwich);
    this.invertedTree = new CallTree("Inverted call tree", "inverted", words, colours, store, refresh, openSandwich);
    this.source = new SourceView(meta, words);
    this.assembly = new AssemblyView(meta, words);
    this.waits = new WaitsView(meta, words, store);

    // What was recorded.
    this.eventChoice = element("select", { "aria-label": "Event", change: () => this.showEvent(Number(this.eventChoice?.value)) },
      ...meta.events.map((event, at) => element("option", { value: String(at) }, `${event.name} · ${grouped(event.samples)}`)));
    this.widths = meta.sides ? SIDES.map((side, event) => {
      const made = button(side, `Widths of frames are those ${side} the change`, () => store.set({ event, zoom: [] }), "choice");
      made.dataset.event = String(event);
      return made;
    }) : [];
    this.weights = this.timeWeights().map(([label, title, event]) => {
      const made = button(label, `${title} (w)`, () => this.showEvent(event), "choice");
      made.dataset.event = String(event);
      return made;
    });
    this.undo = button("↶", "Undo (Ctrl Z)", () => store.undo(), "plain");
    this.redo = button("↷", "Redo (Ctrl Y)", () => store.redo(), "plain");
    const tools = element("div", { class: "tools" }, ...(this.weights.length ? [element("div", { class: "group", role: "group", "aria-label": "Time" }, ...this.weights)] : []),
      ...(meta.events.filter(event => !event.time).length > 1 && !meta.sides ? [this.eventChoice] : []), this.undo, this.redo,
      button("Share", "How somebody else sees what you see", () => this.share.show()),
      button("◐", "Light or dark (d)", () => themes.next(), "plain"), button("?", "Help: keys (?)", () => this.help?.showModal(), "plain"));
    const header = element("header", { class: "top" },
      element("div", { class: "what" }, element("h1", { title: meta.title }, meta.title), element("p", { class: "facts" }, meta.facts.join(" · "))),
      tools, ...(meta.truth.length ? [this.truth(meta.truth)] : []));

    // Time.
    this.modes = [["threads", "Threads"], ...(meta.cpus > 1 && !meta.sides ? [["cpus", "CPUs"]] : []), ...(meta.timed && !meta.sides ? [["heat", "Heat map"]] : [])]
      .map(([mode, label]) => {
        const made = button(label, `Lanes: ${label} (t)`, () => store.set({ lanes: mode }), "choice");
        made.dataset.mode = mode;
        return made;
      });
    this.zoomIn = button("Zoom in", "Shows the selected time only (z)", () => this.lanes?.zoomToSelection());
    this.zoomOut = button("All time", "Shows all time again", () => store.set({ window: null }));
    const meaning = (/** @type {string} */ label, /** @type {string} */ colour) => element("span", {}, element("i", { class: colour }), label);
    this.pointed = meaning("the function pointed out", "pointed");
    const legend = element("span", { class: "legend" }, this.pointed, ...this.lanes.kinds().map(({ label, colour }) => meaning(label, colour)));
    this.sort = element("select", { "aria-label": "Order of the lanes", title: "Order of the lanes", change: () => store.set({ sort: /** @type {any} */ (this.sort?.value) }) },
      ...[["time", "by samples"], ["name", "by name"], ["start", "by start"]].map(([value, label]) => element("option", { value }, label)));
    this.find = element("input", { type: "search", class: "find", placeholder: "Lanes", "aria-label": "Search for lanes", spellcheck: "false", autocomplete: "off",
      title: "Only lanes whose thread or process has this in its name or number", input: () => store.set({ find: this.find?.value ?? "" }, "find"),
      keydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Escape") return;
        store.set({ find: "" });
        this.find?.blur();
        event.stopPropagation();
      } });
    this.unhide = button("", "Shows the lanes again that were hidden", () => store.set({ hidden: null }));
    this.ofThreads = element("span", { class: "tools" }, this.sort, this.find, this.unhide);
    const time = element("section", { class: "time", "aria-label": "Activity over time" },
      element("div", { class: "bar" }, element("div", { class: "group", role: "group", "aria-label": "Lanes" }, ...this.modes), legend, this.losses.toggle,
        element("span", { class: "grow" }), this.ofThreads, this.zoomIn, this.zoomOut),
      this.lanes.scroller);
    this.splitter = element("div", { class: "splitter", role: "separator", tabindex: "0", "aria-orientation": "horizontal",
      "aria-label": "Height of the lanes", "aria-valuemin": "60", "aria-valuemax": "2000", "aria-valuenow": "100" });
    time.append(this.splitter);
    this.splitLanes(time);

    // What is selected.
    this.crumbs = element("div", { class: "crumbs" });
    this.figures = element("p", { class: "figures" });
    const selection = element("section", { class: "selection", "aria-label": "Selection" }, this.crumbs, this.figures);

    // Views.
    const shown = viewsOf(meta), views = TABS.filter(([view]) => shown.includes(view));
    this.tabs = views.map(([view, label, title], at) => {
      const tab = element("button", {
        type: "button", role: "tab", id: `tab-${view}`, "aria-controls": "panel", title: `${title} (${(at + 1) % 10})`,
        click: () => store.set({ view, zoom: [] }),
        keydown: (/** @type {KeyboardEvent} */ event) => {
          const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
          if (!step || !this.tabs) return;
          const next = this.tabs[(at + step + this.tabs.length) % this.tabs.length];
          next.focus();
          next.click();
        },
      }, label);
      tab.dataset.view = view;
      return tab;
    });
    this.search = element("input", {
      type: "search", placeholder: "Search: text or /regex/", "aria-label": "Search for functions", spellcheck: "false", autocomplete: "off",
      title: "Part of a name; case counts only where a capital is typed. /…/ is a regular expression. (/)",
      input: () => store.set({ search: this.search?.value ?? "" }, "search"),
      keydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
        else if (event.key === "Escape") {
          store.set({ search: "" });
          this.search?.blur();
        } else return;
        event.preventDefault();
        event.stopPropagation();
      },
    });
    this.matched = element("output", { class: "matched" });
    this.asPattern = button("", "Searches by a regular expression", () => {
      store.set({ search: this.patternOf(this.state.search) });
      this.search?.focus();
    });
    this.searchActions = element("span", { class: "group found" },
      button("↑", "Previous match (N)", () => this.step(-1), "plain"), button("↓", "Next match (n)", () => this.step(1), "plain"),
      button("Keep", "Keep only stacks that match", () => this.addStep({ o: "keep", p: this.state.search }, true)),
      button("Hide", "Hide stacks that match", () => this.addStep({ o: "hide", p: this.state.search }, true)));
    this.flip = button("Roots: bottom", "Roots at the top or at the bottom (f)", () => this.turn());
    this.unzoom = button("Unzoom", "Back to all (Esc)", () => store.set({ zoom: [] }));
    this.threadChoice = element("select", { "aria-label": "Thread whose samples are shown", change: () => store.set({ thread: Number(this.threadChoice?.value) }) });
    const bar = element("div", { class: "bar views" }, element("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, ...this.tabs),
      element("form", { role: "search", submit: (/** @type {Event} */ event) => event.preventDefault() }, this.searchActions, this.matched, this.asPattern, this.search));
    this.note = element("p", { class: "note" });
    this.changeLegend = element("span", { class: "legend" }, ...this.meaningsOfChange());
    this.widthChoice = element("span", { class: "tools" }, element("span", { class: "muted" }, "Widths: "), element("div", { class: "group", role: "group", "aria-label": "Widths" }, ...this.widths));
    this.viewBar = element("div", { class: "bar inner" }, this.note, this.changeLegend, element("span", { class: "grow" }), this.threadChoice,
      ...(meta.sides ? [this.widthChoice] : []), this.unzoom, this.flip);
    this.body = element("div", { class: "body" });
    this.panel = element("div", { class: "panel", id: "panel", role: "tabpanel" }, this.viewBar, this.body);
    this.aside = element("aside", { class: "side", "aria-label": "Functions" }, this.side.list.node);
    const main = element("main", {}, bar, element("div", { class: "panels" }, this.panel, this.aside, this.losses.node, this.moment.node));

    // The function that is pointed out.
    this.named = element("div", { class: "named" });
    const footer = element("footer", { class: "details" }, this.named);

    const still = document.getElementById("still");
    document.body.replaceChildren(header, time, selection, main, footer, this.live, this.tip, this.help, this.share.dialog);
    if (still) document.body.append(element("section", { class: "unseen", "aria-label": "Hottest functions" }, ...still.querySelectorAll("table")));
    document.documentElement.classList.add("ready");
    document.addEventListener("keydown", event => onKey(this, event));
    // Narrow windows show some of a bar's buttons.
    document.addEventListener("focusin", ({ target }) => {
      if (target instanceof HTMLButtonElement) target.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    addEventListener("hashchange", () => {
      const state = this.addressed();
      this.saved = stepOf(state);
      if (toFragment(state) !== toFragment(this.state)) store.goTo(state);
    });
    addEventListener("beforeprint", () => { themes.printing = true; themes.choose(); this.drawAll(); });
    addEventListener("afterprint", () => { themes.printing = false; themes.choose(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themes.choose());
    this.wide = matchMedia("(min-width: 1180px)");
    this.wide.addEventListener("change", () => { this.update(); this.askView(); });
    themes.listeners.push(() => soon(this.refreshLists));
    this.fitLanes();
  }

  refreshView = () => this.askView();

  refreshLists = () => {
    for (const list of [this.tree?.list, this.invertedTree?.list, this.side?.list, this.table?.list]) list?.draw();
  };

  drawAll() {
    for (const picture of [this.main, this.callers, this.callees]) if (picture?.scroller.isConnected) picture.draw();
    this.lanes?.draw();
  }

  /** As high as the lanes need, or as the reader wants them. */
  fitLanes() {
    const wish = Number(preferences.get("lanes-height", "0"));
    const most = innerHeight * (wish ? 0.7 : innerWidth < 700 || innerHeight < 700 ? 0.2 : 0.27);
    const height = Math.round(Math.min(wish || Infinity, this.lanes?.wanted ?? 100, most));
    this.lanes?.scroller.style.setProperty("--height", `${Math.max(height, 70)}px`);
    this.splitter?.setAttribute("aria-valuenow", String(Math.max(height, 70)));
  }

  /** @param {HTMLElement} time */
  splitLanes(time) {
    const { splitter } = this;
    if (!splitter) return;
    /** @param {number} height */
    const set = height => {
      preferences.set("lanes-height", String(Math.round(Math.max(60, Math.min(height, innerHeight * 0.7)))));
      this.fitLanes();
    };
    const height = () => this.lanes?.scroller.clientHeight ?? 0;
    splitter.addEventListener("pointerdown", event => {
      const [start, from] = [event.clientY, height()];
      splitter.setPointerCapture(event.pointerId);
      const move = (/** @type {PointerEvent} */ event) => set(from + event.clientY - start);
      splitter.addEventListener("pointermove", move);
      splitter.addEventListener("pointerup", () => splitter.removeEventListener("pointermove", move), { once: true });
    });
    splitter.addEventListener("keydown", event => {
      if (event.key === "ArrowUp" || event.key === "ArrowDown") {
        set(height() + (event.key === "ArrowUp" ? -22 : 22));
        event.preventDefault();
      }
    });
    splitter.addEventListener("dblclick", () => {
      preferences.set("lanes-height", "0");
      this.fitLanes();
    });
    addEventListener("resize", () => this.fitLanes());
    time.classList.toggle("untimed", !this.meta.timed);
  }

  /** @param {string} text */
  say(text) {
    if (this.live) this.live.textContent = text;
  }

  /** What is missing: one line, and the others behind it. @param {string[]} lines */
  truth([first, ...others]) {
    if (!others.length) return element("p", { class: "truth" }, first);
    return element("details", { class: "truth" }, element("summary", {}, first), ...others.map(line => element("p", {}, line)));
  }

  /** @param {string[]} lines @param {number} x @param {number} y */
  showTip(lines, x, y) {
    const { tip } = this;
    if (!tip) return;
    tip.hidden = !lines.length;
    if (!lines.length) return;
    tip.replaceChildren(...lines.map((line, at) => element("div", { class: at ? "" : "name" }, line)));
    const { offsetWidth, offsetHeight } = tip;
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - offsetWidth - 6))}px`;
    tip.style.top = `${y + 18 + offsetHeight > innerHeight ? Math.max(4, y - offsetHeight - 10) : y + 18}px`;
  }

  /** @param {Picture} picture @param {number} box @param {number} x @param {number} y */
  point(picture, box, x, y) {
    const { boxes } = picture;
    if (box < 0 || !boxes) return this.showTip([], 0, 0);
    const frame = boxes.frame[box], { words, state, totals } = this;
    const isOrder = picture === this.main && state.view === "order";
    if (frame === -1) {
      this.showTip(["Frames too narrow to see", isOrder ? "" : `${words.amount(boxes.width[box], state.event)}, ${share(boxes.width[box], totals?.weight ?? 0)} of the selection`], x, y);
      return;
    }
    const name = frame === -2 ? "all" : words.frameName(frame);
    const lines = [name.length > 600 ? `${name.slice(0, 600)}…` : name];
    const where = frame >= 0 ? [words.moduleOf(words.functionAt(frame)), words.kindName(frame)].filter(text => text).join(" · ") : "";
    if (where) lines.push(where);
    if (isOrder) {
      const times = [boxes.x[box], boxes.x[box] + boxes.width[box]].map(time => words.time(time, boxes.total / 1000));
      lines.push(`${words.length(boxes.width[box])}: ${times.join(" to ")}`, counted(boxes.self[box], "sample", "samples"));
    } else {
      if (words.comparison) {
        this.showTip([...lines, ...this.factsOfChange(picture, box)], x, y);
        return;
      }
      const weight = this.weightOf(picture, box);
      lines.push(`${words.amount(weight, state.event)} · ${share(weight, totals?.weight ?? 0)} of the selection`);
      if (totals && totals.all !== totals.weight) lines.push(`${share(weight, totals.all)} of all`);
      if (picture === this.main && state.zoom.length && boxes.depth[box] >= state.zoom.length) {
        lines.push(`${share(boxes.width[box], boxes.width[0])} of the zoom into ${words.fitted(words.functionAt(state.zoom[state.zoom.length - 1]), 60)}`);
      }
      if (boxes.self[box]) lines.push(`${words.amount(boxes.self[box], state.event)} in itself`);
    }
    this.showTip(lines, x, y);
    if (document.activeElement === picture.scroller && x) this.say(lines.join(", "));
  }

  /** What a box weighs on both sides of a comparison. @param {Picture} picture @param {number} box */
  factsOfChange(picture, box) {
    const { words, totals, state: { event } } = this, isRoot = picture === this.main && box === 0;
    const own = totals?.weight ?? 0, other = totals?.other?.weight ?? 0, all = event || !this.meta.sides ? [other, own] : [own, other];
    const weights = isRoot ? all : picture.sides(box);
    return [...SIDES.map((side, at) => `${side}: ${words.amount(weights[at], event)} · ${share(weights[at], all[at])}`),
      `difference: ${words.signed(words.change(weights[0], weights[1]), event)} · ${words.factor(weights[0], weights[1])}`];
  }

  /** The colours of changes with their meanings. */
  meaningsOfChange() {
    const { same, grew, shrank } = this.meta.marks;
    return /** @type {[string, number[]][]} */ ([["grew", grew[1]], ["shrank", shrank[1]], ["no change seen", same]]).map(([label, colour]) => {
      const swatch = element("i", {});
      swatch.style.background = rgb(colour);
      return element("span", {}, swatch, label);
    });
  }

  /** What a box weighs: those that lie below what was zoomed into are drawn narrower than they are. @param {Picture} picture @param {number} box */
  weightOf(picture, box) {
    const { boxes } = picture;
    if (!boxes) return 0;
    if (picture === this.main && box === 0) return this.totals?.weight ?? boxes.width[0];
    return boxes.width[box];
  }

  /** @param {Picture} picture @param {number} box */
  choose(picture, box) {
    const { meta } = this, { boxes } = picture;
    if (!boxes) return;
    const frame = boxes.frame[box], named = frame >= 0 ? this.words.functionAt(frame) : this.state.named;
    this.point(picture, -1, 0, 0);
    if (meta.start && frame === meta.frames.kind.length + meta.start.module) return this.act("all");
    if (this.state.view === "order") {
      this.store.set({ named });
      return;
    }
    if (picture === this.callers) {
      if (named >= 0) this.store.set({ named });
      return;
    }
    this.store.set({ named, zoom: picture.path(box) });
  }

  /** Goes to the next function that was searched for. @param {number} by */
  step(by) {
    const { view } = this.state;
    if (view === "tree" || view === "inverted" || view === "functions") {
      const list = view === "functions" ? this.table?.list : view === "tree" ? this.tree?.list : this.invertedTree?.list;
      const found = this.totals?.found, rows = view === "tree" ? this.tree?.rows : this.invertedTree?.rows;
      if (!list || !found || !list.count) return;
      for (let tried = 1; tried <= list.count; tried++) {
        const row = (list.row + by * tried + list.count * 2) % list.count;
        const frame = view === "functions" ? 0 : rows?.frame[row] ?? -1;
        if (view !== "functions" && (frame < 0 || !found[this.words.functionAt(frame)])) continue;
        list.row = row;
        list.reveal(row);
        list.events.chosen(row);
        list.draw();
        return;
      }
      return;
    }
    const picture = view === "sandwich" ? this.callees : this.main, matches = picture?.matches() ?? [];
    if (!picture || !matches.length) return;
    this.match = this.match < 0 ? (by > 0 ? 0 : matches.length - 1) : (this.match + by + matches.length) % matches.length;
    picture.goTo(matches[this.match]);
    if (document.activeElement !== this.search) picture.scroller.focus();
    this.say(`Match ${this.match + 1} of ${matches.length}`);
  }

  /** CPU, off-CPU and wall: labels, what they mean, and their events; none where the recording has no time off the CPU. @returns {[string, string, number][]} */
  timeWeights() {
    const { events } = this.meta, off = events.findIndex(({ of }) => of !== undefined);
    if (off < 0) return [];
    const sampled = events.findIndex(({ time }) => !time);
    return [...(sampled >= 0 ? [/** @type {[string, string, number]} */ (["CPU", `What ran: samples of ${events[defaultEvent(this.meta)].name}`, defaultEvent(this.meta)])] : []),
      ["Off-CPU", "What threads waited for: time runnable or blocked", off], ["Wall", "All time of threads, on the CPU and off it", events[off].of ?? off]];
  }

  /** Shows an event; not all say on which CPU. @param {number} event */
  showEvent(event) {
    this.store.set({ event, ...(this.meta.events[event].cpus ? {} : { cpus: null, ...(this.state.lanes === "cpus" ? { lanes: "threads" } : {}) }) });
  }

  /** Text as a regular expression, where it looks like one and is none yet; else empty. @param {string} text */
  patternOf(text) {
    if (/^\/.+\/$/.test(text)) return "";
    return text.startsWith("/") && text.length > 1 ? `${text}/` : /[\\^$|?*+()[\]{}]|\.\*/.test(text) ? `/${text}/` : "";
  }

  turn() {
    this.upward = !this.upward;
    preferences.set("roots", this.upward ? "bottom" : "top");
    this.update();
  }

  /** @param {import("./tree.js").Step} step @param {boolean} [fromSearch] */
  addStep(step, fromSearch = false) {
    if (fromSearch && !this.state.search) return;
    const { steps } = this.state, has = steps.some(other => JSON.stringify(other) === JSON.stringify(step));
    const once = step.o === "recursion" || step.o === "mine" || step.o === "threads" || step.o === "all";
    if (has && !once) return;
    const next = has ? steps.filter(other => other.o !== step.o) : [...steps, step];
    this.store.set({ steps: next, zoom: [], ...(fromSearch ? { search: "" } : {}) });
  }

  /** Does something to the function that is pointed out. @type {(what: string) => void} */
  act = what => {
    const { named } = this.state;
    if (what === "recursion" || what === "mine" || what === "threads" || what === "all") return this.addStep({ o: what });
    if (named < 0) return this.say("Choose a function first.");
    const module = named < this.words.functions ? this.meta.functions.module[named] : named - this.words.functions;
    switch (what) {
      case "keep": case "hide": case "root": case "merge": this.addStep({ o: what, f: named }); break;
      case "module": if (module >= 0) this.addStep({ o: "module", m: module }); break;
      case "sandwich": this.store.set({ view: "sandwich", zoom: [] }); break;
      case "source": case "assembly": case "waits": this.store.set({ view: what, zoom: [] }); break;
      case "copy": copy(this.words.functionName(named)).then(done => this.say(done ? "Copied." : "The browser does not allow copying.")); break;
    }
  };

  /** @param {import("./state.js").State} state @param {import("./state.js").State} old */
  changed(state, old) {
    this.lanes?.changed(state, old);
    if (["lanes", "event", "sort", "find", "hidden"].some(part => /** @type {any} */ (state)[part] !== /** @type {any} */ (old)[part])) this.fitLanes();
    if (["pin", "event", "steps"].some(part => /** @type {any} */ (state)[part] !== /** @type {any} */ (old)[part])) this.moment?.update();
    else if (state.named !== old.named) this.moment?.draw();
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), 250);
    const key = (/** @type {import("./state.js").State} */ { event, time, timeBefore, threads, cpus, steps, search }) => JSON.stringify([event, time, timeBefore, threads, cpus, steps, search]);
    if (key(state) !== key(old)) this.select();
    if (key(state) !== key(old) || state.named !== old.named) this.askExtent();
    this.match = -1;
    if (["view", "zoom", "thread", "event", "time", "timeBefore", "threads", "cpus", "steps"].some(part => JSON.stringify(/** @type {any} */ (state)[part]) !== JSON.stringify(/** @type {any} */ (old)[part]))
      || state.view === "order" && state.window !== old.window || ["sandwich", "source", "assembly", "waits"].includes(state.view) && state.named !== old.named) this.askView();
    this.update();
  }

  /** Keeps the state in the address. What selects is a step that Back and Forward walk; what is looked at there is not. */
  save() {
    const fragment = toFragment(this.state), step = stepOf(this.state), isStep = this.saved !== step;
    this.saved = step;
    try {
      if (isStep) history.pushState(null, "", `#${fragment}`);
      else history.replaceState(null, "", `#${fragment}`);
    } catch {
      // Some frames and addresses allow no history; the page works without it.
    }
  }

  /** Whether two times of the recording are compared. */
  get isCompared() {
    const { meta, state: { time, timeBefore } } = this;
    return Boolean(!meta.sides && time && timeBefore);
  }

  /** @returns {import("./engine.js").Selection} */
  get selection() {
    const { meta, state: { event, time, timeBefore, threads, cpus, steps, search } } = this;
    const own = { event, time, threads, cpus };
    if (!meta.sides) return { ...own, steps, search, ...(this.isCompared ? { other: { ...own, time: timeBefore } } : {}) };
    // Threads of one side say nothing of the other.
    const of = (/** @type {number} */ side) => {
      const own = threads?.filter(thread => meta.threads[thread].side === side) ?? [];
      return { event: side, time: side ? time : timeBefore, threads: own.length ? own : null, cpus };
    };
    return { ...of(event), steps, search, other: of(1 - event) };
  }

  /** Asks when the function that is pointed out was on the stack. */
  askExtent() {
    this.extent = null;
    if (this.state.named < 0 || this.meta.sides) return;
    this.client.latest("extent", "extent", { selection: this.selection, named: this.state.named }, extent => {
      this.extent = extent;
      this.update();
    }, this.fail);
  }

  /** Weighs what is selected. */
  select() {
    const key = JSON.stringify({ ...this.selection, search: "" });
    this.client.latest("select", "select", { selection: this.selection, table: key !== this.listed }, ({ totals, table }) => {
      this.totals = totals;
      this.words.compare(totals);
      for (const picture of [this.main, this.callers, this.callees]) picture?.compare();
      if (table) this.listed = key;
      // Meanwhile an earlier answer has brought the table of another selection.
      else if (key !== this.listed) this.select();
      this.side?.show(totals, table);
      this.table?.show(totals, table);
      for (const picture of [this.main, this.callers, this.callees]) {
        if (!picture) continue;
        picture.found = totals.found;
        soon(picture.redraw);
      }
      for (const tree of [this.tree, this.invertedTree]) if (tree?.rows) tree.show(tree.rows, totals.weight, totals.found);
      this.update();
    }, this.fail);
  }

  /** Threads that can be shown in the order of time, the busiest first, and those that are. */
  get orderThreads() {
    const { meta, state } = this, source = meta.events[state.event].of ?? state.event;
    const counts = new Float64Array(meta.threads.length), hidden = new Set(state.hidden);
    for (const [event, thread, , samples] of meta.segments) if (meta.sides || event === source) counts[thread] += samples;
    const allowed = (state.threads ?? [...counts.keys()]).filter(thread => counts[thread] && !hidden.has(thread));
    const threads = allowed.sort((one, other) => meta.threads[one].side - meta.threads[other].side || counts[other] - counts[one]);
    return { threads, bands: threads.includes(state.thread) ? [state.thread] : threads.slice(0, MOST_BANDS) };
  }

  /** Asks for what the view shows. */
  askView() {
    const { state, client, selection } = this;
    const { view } = state;
    if (["flame", "order", "sandwich"].includes(view)) {
      if (view === "sandwich" && state.named < 0) return;
      const picture = view === "sandwich" ? this.callees : this.main;
      if (this.main) this.main.time = view === "order" ? this.timeOfMain ?? null : null;
      const request = { selection: { ...selection, search: "" }, view, zoom: state.zoom, named: state.named, pixels: Math.round(picture?.pixels ?? 1000), bands: this.orderThreads.bands, window: this.lanes?.window ?? [0, 1] };
      client.latest("view", "boxes", request, answer => {
        if (this.state.view !== view) return;
        if (this.timeOfMain) this.timeOfMain.labels = request.bands.map(thread => this.words.threadName(thread));
        picture?.show(answer.boxes);
        if (view === "sandwich") this.callers?.show(answer.callers);
        this.answer = answer;
        this.update();
      }, this.fail);
    } else if (view === "tree" || view === "inverted") {
      const tree = view === "tree" ? this.tree : this.invertedTree;
      if (!tree) return;
      const request = { selection: { ...selection, search: "" }, view, named: -1, open: [...tree.open], closed: [...tree.closed] };
      client.latest("view", "rows", request, rows => tree.show(rows, this.totals?.weight ?? 0, this.totals?.found ?? null), this.fail);
    } else if (view === "source") {
      const { named, event } = state;
      if (named < 0) this.source?.explain("Choose a function, in the table of functions or in a picture.");
      else if (this.meta.lines) client.latest("view", "lines", { selection: { ...selection, search: "" }, named }, answer => this.source?.show(named, event, answer), this.fail);
      else client.latest("view", "instructions", { selection: { ...selection, search: "" }, named }, answer => this.source?.showOfInstructions(named, event, answer), this.fail);
    } else if (view === "assembly") {
      const { named, event } = state;
      if (named < 0) this.assembly?.explain("Choose a function, in the table of functions or in a picture.");
      else client.latest("view", "instructions", { selection: { ...selection, search: "" }, named }, answer => this.assembly?.show(named, event, answer), this.fail);
    } else if (view === "waits") {
      const event = this.meta.events.findIndex(({ time, of }) => time && of === undefined);
      client.latest("view", "endings", { selection: { ...selection, search: "" }, named: state.named }, answer => this.waits?.show(answer, event), this.fail);
    }
  }

  /** Brings everything that is not a picture up to date. */
  update() {
    const { state, store, totals } = this;
    for (const tab of this.tabs ?? []) {
      const chosen = tab.dataset.view === state.view;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.panel?.setAttribute("aria-labelledby", `tab-${state.view}`);
    for (const mode of this.modes ?? []) mode.setAttribute("aria-pressed", String(mode.dataset.mode === state.lanes));
    if (this.undo) this.undo.disabled = !store.before.length;
    if (this.redo) this.redo.disabled = !store.after.length;
    if (this.eventChoice) this.eventChoice.value = String(state.event);
    if (this.search && this.search.value !== state.search) this.search.value = state.search;
    if (this.zoomIn) this.zoomIn.disabled = !state.time;
    if (this.zoomOut) this.zoomOut.disabled = !state.window;
    for (const made of [...this.weights ?? [], ...this.widths ?? []]) made.setAttribute("aria-pressed", String(Number(made.dataset.event) === state.event));
    if (this.ofThreads) this.ofThreads.hidden = state.lanes !== "threads";
    if (this.sort) this.sort.value = state.sort;
    if (this.find && this.find.value !== state.find) this.find.value = state.find;
    if (this.unhide) {
      this.unhide.hidden = !state.hidden;
      this.unhide.textContent = `${grouped(state.hidden?.length ?? 0)} hidden: show`;
    }
    if (this.asPattern) {
      const pattern = this.patternOf(state.search);
      this.asPattern.hidden = !pattern;
      this.asPattern.textContent = `as ${pattern.length > 24 ? `${pattern.slice(0, 22)}…/` : pattern}`;
    }
    this.showBody();
    showCrumbs(this);
    if (totals && this.matched && this.searchActions) {
      const isSearching = Boolean(state.search);
      this.matched.textContent = isSearching ? totals.error ? "not a pattern" : share(totals.matched, totals.weight) : "";
      this.matched.title = totals.error;
      this.searchActions.classList.toggle("idle", !isSearching);
      this.searchActions.querySelectorAll("button").forEach(made => { made.disabled = !isSearching; });
    }
    for (const picture of [this.main, this.callers, this.callees]) {
      if (!picture) continue;
      picture.side = this.meta.sides ? state.event : 1;
      if (picture.named !== state.named) {
        picture.named = state.named;
        soon(picture.redraw);
      }
    }
    this.main?.turn(state.view === "order" ? false : this.upward);
    if (this.flip) this.flip.textContent = this.upward ? "Roots: bottom" : "Roots: top";
    this.side?.pointOut();
    this.table?.pointOut();
    this.tree?.list.refresh();
    this.invertedTree?.list.refresh();
    showNamed(this);
    if (this.pointed) this.pointed.hidden = state.named < 0;
    document.body.classList.toggle("narrow-side", !this.wide?.matches || state.view === "functions" || state.view === "order");
    this.table?.setWide(this.panel ? this.panel.clientWidth > (this.words.comparison ? WIDE_SIDES : 760) : true);
  }

  /** Puts the view into the panel. */
  showBody() {
    const { state, body, viewBar, note } = this;
    if (!body || !viewBar || !note) return;
    /** @type {Record<string, (Node|undefined)[]>} */
    const content = {
      flame: [this.main?.scroller], order: [this.main?.scroller],
      tree: [this.tree?.list.node], inverted: [this.invertedTree?.list.node],
      sandwich: state.named < 0 ? [element("p", { class: "empty" }, "Choose a function: in the flame graph, or in the table of functions.")]
        : [this.callers?.scroller, this.named && element("div", { class: "middle", title: this.words.functionName(state.named) }, this.words.functionName(state.named).slice(0, 400)), this.callees?.scroller],
      functions: [this.table?.list.node], source: [this.source?.node], assembly: [this.assembly?.node], waits: [this.waits?.node],
    };
    const wanted = /** @type {Node[]} */ (content[state.view].filter(node => node));
    const key = `${state.view === "flame" || state.view === "order" ? "picture" : state.view}${state.view === "sandwich" ? state.named : ""}`;
    if (body.dataset.shows !== key) {
      body.dataset.shows = key;
      body.replaceChildren(...wanted);
      body.className = `body ${state.view === "sandwich" ? "stacked" : ""}`;
      // What was taken out of the page has forgotten how far it was scrolled.
      for (const picture of [this.main, this.callers, this.callees]) if (picture?.scroller.isConnected) picture.toRoot();
    }
    if (this.main) this.main.scroller.setAttribute("aria-label", `${TABS.find(([view]) => view === state.view)?.[1]}. Arrow keys go from frame to frame, Enter zooms.`);
    if (this.threadChoice) {
      const isOrder = state.view === "order";
      this.threadChoice.hidden = !isOrder;
      if (isOrder) {
        const { threads } = this.orderThreads, key = threads.join();
        if (this.threadChoice.dataset.threads !== key) {
          this.threadChoice.dataset.threads = key;
          this.threadChoice.replaceChildren(...(threads.length > 1 ? [element("option", { value: "-1" }, `${threads.length > MOST_BANDS ? `the ${MOST_BANDS} busiest` : "all"} threads`)] : []),
            ...threads.slice(0, 500).map(id => element("option", { value: String(id) }, this.words.threadName(id))));
        }
        this.threadChoice.value = threads.length > 1 && !threads.includes(state.thread) ? "-1" : String(threads.includes(state.thread) ? state.thread : threads[0] ?? -1);
      }
    }
    const picture = ["flame", "sandwich"].includes(state.view);
    if (this.flip) this.flip.hidden = state.view !== "flame";
    if (this.changeLegend) this.changeLegend.hidden = !picture || !this.words.comparison;
    if (this.widthChoice) this.widthChoice.hidden = !picture;
    if (this.unzoom) {
      this.unzoom.hidden = !picture;
      this.unzoom.disabled = !state.zoom.length;
    }
    const isEmpty = this.totals?.samples === 0;
    viewBar.hidden = !picture && state.view !== "order" && !isEmpty;
    note.classList.toggle("empty", isEmpty);
    if (isEmpty) {
      note.textContent = "No samples are selected. Ctrl Z takes the last step back; All, above, drops the selection.";
      return;
    }
    const boxes = state.view === "sandwich" ? this.callees?.boxes : this.main?.boxes;
    const hidden = boxes?.hidden ?? 0;
    /** @type {any} */
    const answer = this.answer;
    if (state.view === "order") {
      const { all = 0, most = 0 } = answer?.boxes ?? {};
      const merged = most > 1 ? `: a pixel has up to ${grouped(most)}, and shows the stack that most of them share` : "";
      const gaps = this.weights?.length && !this.meta.events[state.event].time ? "no samples; Wall shows what threads did there" : "no samples";
      note.textContent = `${counted(all, "sample", "samples")} on the axis of the lanes${merged}. Gaps: ${gaps}.`;
    } else note.textContent = picture && hidden ? `${counted(hidden, "frame is", "frames are")} too narrow to draw` : "";
  }

}
