// Makes a page of the picture: the frames scroll, what is around them stays in view. Which frames are shown follows the
// rules of folding.rs, with the width and the height of the window.
(() => {
"use strict";
const XHTML = "http://www.w3.org/1999/xhtml";
const ROW = 16, MARGIN = 10, INDENT = 3;
const SEEN = 1, TOWER = 6; // pixels
const LEAST_LETTERS = 5; // of a name that is cut
const HINT = "Point at a frame for its name. Click to zoom.";
const picture = document.currentScript.ownerSVGElement;
const svg = picture.querySelector("#frames");
const text = id => picture.querySelector(id).textContent;
const option = name => svg.getAttribute("fg:" + name);
const inverted = option("inverted") === "true", fluid = option("fluid") === "true", least = +option("least");
const isWholeDocument = document.documentElement === picture;

// The frames, each with the one below it.
const frames = [...svg.querySelectorAll("g")].map(g => {
  const rect = g.querySelector("rect"), info = g.querySelector("title").textContent;
  const name = info.replace(/ \([^(]*\)$/, "");
  const number = attribute => +rect.getAttribute(attribute);
  const outs = (g.getAttribute("fg:o") || "").split(" ").filter(out => out).map(out => out.split("+").map(Number));
  return { g, rect, info, name, outs, label: g.querySelector("text"), cuts: g.getAttribute("fg:n"),
    x: number("fg:x"), w: number("fg:w"), y: number("y"), depth: 0, below: null, shown: true, parts: null };
});
const all = frames.reduce((all, frame) => frame.w > all.w || frame.w === all.w && (frame.y > all.y) !== inverted ? frame : all);
const levels = [];
for (const frame of frames) {
  frame.depth = Math.round(Math.abs(frame.y - all.y) / ROW);
  (levels[frame.depth] ||= []).push(frame);
}
levels.forEach((level, depth) => {
  level.sort((a, b) => a.x - b.x || b.w - a.w);
  let at = 0;
  for (const frame of depth ? level : []) {
    const lower = levels[depth - 1];
    while (at < lower.length - 1 && lower[at].x + lower[at].w <= frame.x) at++;
    frame.below = lower[at];
  }
});

// The page.
function element(name, attributes, ...children) {
  const node = document.createElementNS(XHTML, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  node.append(...children);
  return node;
}
const title = element("h1", { id: "title" }, text("#title"));
const subtitle = element("p", { id: "subtitle" }, text("#subtitle"));
const note = element("p", { id: "note" });
const meanings = [...picture.querySelectorAll("#legend rect")].map(square => element("span", {},
  element("i", { style: `background: ${square.getAttribute("fill")}` }), square.nextElementSibling.textContent));
const legend = meanings.length ? [element("p", { id: "legend" }, ...meanings)] : [];
const search = element("input", { id: "search", type: "search", placeholder: "Search (Ctrl-F)", autocomplete: "off",
  spellcheck: "false", "aria-label": "Search for functions",
  title: "Part of a name. Upper and lower case are told apart where a capital is typed. Enter: the next match." });
const matched = element("output", { id: "matched" });
const unzoom = element("button", { id: "unzoom", type: "button", hidden: "", title: "Escape" }, "Reset zoom");
const details = element("output", { id: "details" });
const header = element("header", { class: "bar" }, element("div", {}, title, subtitle, ...legend, note),
  element("form", { role: "search" }, unzoom, matched, search));
const more = element("p", { id: "more", hidden: "" });
const main = element("main", inverted ? { class: "inverted" } : {});
const footer = element("footer", { class: "bar" }, details);
const styles = picture.querySelector("style");
if (isWholeDocument) {
  const head = element("head", {}, element("title", {}, title.textContent),
    element("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }), styles);
  const body = element("body", { class: "page" }, header, main, footer);
  document.replaceChild(element("html", {}, head, body), picture);
} else {
  picture.replaceWith(element("div", {}, styles, header, main, footer));
}
main.append(...inverted ? [svg, more] : [more, svg]);
// What scrolls: of a page of ours the frames alone, so that it begins at their roots without being scrolled itself.
const scroller = isWholeDocument ? main : document.scrollingElement;
svg.setAttribute("tabindex", "0");
svg.setAttribute("role", "application");
svg.setAttribute("aria-label", "Flame graph. Arrow keys go from frame to frame, Enter zooms, Escape goes back.");
for (const attribute of ["x", "y"]) svg.removeAttribute(attribute);
const marks = svg.querySelector("#folded"), found = marks.cloneNode();
found.id = "found";
svg.append(found);

// Letters are as wide as each other.
const letter = (() => {
  const sample = all.label.cloneNode();
  sample.textContent = "0".repeat(50);
  svg.append(sample);
  const width = sample.getComputedTextLength() / 50;
  sample.remove();
  return width || 7.2;
})();

// Names: all parts, the last two (class and method), the last one, or else the beginning of that.
function parts(frame) {
  if (!frame.parts) {
    const ranges = (frame.cuts || "0").split(" ").map(part => part.split(",").map(range => range.split("-").map(Number)));
    const flat = ranges.flat();
    flat.forEach((range, at) => range[1] ??= at + 1 < flat.length ? flat[at + 1][0] : frame.name.length);
    frame.parts = ranges.map(part => part.map(range => frame.name.slice(...range)).join(""));
  }
  return frame.parts;
}
const columns = label => [...label].reduce((sum, letter) => sum + (letter < "\u1100" ? 1 : 2), 0);
function fitted(frame, room) {
  if (room < 1) return "";
  let label = "";
  for (const first of [0, -2, -1]) {
    label = parts(frame).slice(first).join("");
    if (columns(label) <= room) return label;
  }
  if (room < LEAST_LETTERS) return "";
  const letters = [...label].slice(0, room - 1);
  while (columns(letters) >= room) letters.pop();
  return letters.join("") + "…";
}

let zoomed = all, current = null, terms = "", matches = [], next = 0, folded = 0;

function place(frame, shown, x, w, width) {
  const { g, rect } = frame;
  frame.shown = shown;
  g.setAttribute("class", (shown ? "" : "n ") + (frame.depth < zoomed.depth ? "below " : "")
    + (frame.match ? "match " : "") + (frame === current ? "current" : ""));
  if (!shown) return;
  rect.setAttribute("x", (x / width * 100).toFixed(4) + "%");
  rect.setAttribute("width", (w / width * 100).toFixed(4) + "%");
  const label = fitted(frame, Math.floor((w - 2 * INDENT) / letter));
  if (label && !frame.label) {
    frame.label = all.label.cloneNode();
    frame.label.setAttribute("y", frame.y + 11.5);
    g.append(frame.label);
  }
  if (frame.label) {
    frame.label.setAttribute("x", x + INDENT);
    frame.label.textContent = label;
  }
}

// Shows what is to be seen of the frame that fills the width.
function draw() {
  const width = fluid ? Math.max(main.clientWidth - 2 * MARGIN, 100) : +svg.getAttribute("width");
  const scale = width / zoomed.w, end = zoomed.x + zoomed.w;
  const within = frame => frame.x >= zoomed.x && frame.x + frame.w <= end;
  const heightOf = pixels => levels.findLastIndex((level, depth) =>
    depth >= zoomed.depth && level.some(frame => within(frame) && frame.w * scale >= pixels)) + 1;
  const window_rows = Math.floor((innerHeight - header.offsetHeight - footer.offsetHeight - 20) / ROW);
  const rows = Math.max(zoomed.depth + 1, Math.min(heightOf(SEEN), Math.max(heightOf(TOWER), window_rows)));
  const top = inverted ? all.y : all.y - (rows - 1) * ROW;
  svg.setAttribute("viewBox", `0 ${top} ${width} ${rows * ROW}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", rows * ROW);
  if (!fluid && !isWholeDocument) main.style.width = width + "px";

  const stretches = { d: "", found: "" };
  const mark = (frame, from, to, hit) => {
    const y = inverted ? frame.y + ROW : frame.y - 1.5;
    const [start, end] = [from, to].map(x => (x - zoomed.x) * scale);
    stretches[hit ? "found" : "d"] += `M${start.toFixed(1)} ${y}H${Math.max(end, start + 2).toFixed(1)}`;
  };
  folded = 0;
  let outs = false;
  for (const [depth, level] of levels.entries()) {
    let open = null;
    const close = () => { if (open) mark(open.below, open.start, open.end, open.hit); open = null; };
    for (const frame of level) {
      if (depth < zoomed.depth) {
        place(frame, frame.x <= zoomed.x && frame.x + frame.w >= end, 0, width, width);
        continue;
      }
      const w = frame.w * scale;
      const inside = within(frame) && (depth > zoomed.depth || frame === zoomed);
      const shown = inside && (frame === zoomed || frame.below.shown && w >= SEEN && depth < rows);
      place(frame, shown, (frame.x - zoomed.x) * scale, w, width);
      if (inside && !shown) {
        folded++;
        if (!frame.below.shown) continue;
        if (open && (open.below !== frame.below || (frame.x - open.end) * scale >= SEEN)) close();
        open ||= { below: frame.below, start: frame.x, end: 0, hit: false };
        open.end = frame.x + frame.w;
        open.hit ||= frame.hit;
      } else if (shown) {
        for (const [x, w] of frame.outs) mark(frame, x, x + w, false);
        outs ||= frame.outs.length > 0;
      }
    }
    close();
  }
  marks.setAttribute("d", stretches.d);
  found.setAttribute("d", stretches.found);
  unzoom.hidden = zoomed === all;
  const notes = [];
  if (folded) notes.push(folded === 1 ? "1 frame too narrow to see is folded (zoom in)"
    : `${folded.toLocaleString("en")} frames too narrow to see are folded (zoom in)`);
  if (outs) notes.push(`frames narrower than ${least} % are left out`);
  tell_more();
  note.replaceChildren(...notes.length ? [element("b", {}, "┅┅"), " " + notes.join("; ")] : []);
}

// Says that stacks go on outside of the window.
function tell_more() {
  const hidden = inverted ? scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop : scroller.scrollTop;
  const rows = Math.ceil((hidden - MARGIN) / ROW);
  more.hidden = rows < 1;
  more.textContent = `${inverted ? "▼ stacks go on below" : "▲ stacks go on above"}: ${rows} more ${rows === 1 ? "row" : "rows"}`;
}

// Keeps a frame where it is on the screen while the picture changes.
function redraw(frame) {
  const before = frame.g.getBoundingClientRect();
  draw();
  const after = frame.g.getBoundingClientRect();
  scroller.scrollBy(0, after.top - before.top);
  reveal(frame);
}
function reveal(frame) {
  const box = frame.rect.getBoundingClientRect();
  const top = header.getBoundingClientRect().bottom + 4, bottom = footer.getBoundingClientRect().top - 4;
  if (box.top < top) scroller.scrollBy(0, box.top - top);
  else if (box.bottom > bottom) scroller.scrollBy(0, box.bottom - bottom);
}

function point(frame) {
  current?.g.classList.remove("current");
  current = frame;
  current?.g.classList.add("current");
  const outs = frame ? frame.outs.reduce((sum, [, w]) => sum + w, 0) : 0;
  const beside = outs ? ` – of these ${outs.toLocaleString("en")} in frames narrower than ${least} %, left out` : "";
  details.replaceChildren(frame ? frame.info.replace(/ \(1 samples,/, " (1 sample,") + beside : element("i", {}, HINT));
}
function zoom(frame) {
  if (frame === zoomed) return;
  zoomed = frame;
  count();
  redraw(frame);
  remember();
}

// Search: plain text; a capital makes it tell upper from lower case.
function find(term) {
  terms = term;
  const exact = /\p{Lu}/u.test(term);
  const wanted = exact ? term : term.toLowerCase();
  for (const frame of frames) {
    frame.match = term !== "" && (exact ? frame.name : frame.name.toLowerCase()).includes(wanted);
    frame.hit = frame.match;
  }
  for (const level of levels.slice(1).reverse()) for (const frame of level) frame.below.hit ||= frame.hit;
  count();
  draw();
  remember();
}
// The share of what is on the screen that lies in frames that match.
function count() {
  let sum = 0;
  matches = [];
  for (const level of levels.slice(zoomed.depth)) for (const frame of level) {
    const covered = frame !== zoomed && frame.depth > zoomed.depth && frame.below.covered;
    frame.covered = covered || frame.match;
    if (frame.match && !covered && frame.x >= zoomed.x && frame.x + frame.w <= zoomed.x + zoomed.w) {
      sum += frame.w;
      matches.push(frame);
    }
  }
  matches.sort((a, b) => b.w - a.w);
  next = 0;
  const share = 100 * sum / zoomed.w;
  const digits = share === 100 || share === 0 ? 0 : share < 0.1 ? 2 : 1;
  matched.textContent = terms === "" ? "" : `Matched: ${share.toFixed(digits)}%${zoomed === all ? "" : " of the zoom"}`;
}
function show_match(step) {
  const shown = matches.filter(frame => frame.shown);
  if (!shown.length) return;
  next = (next + step + shown.length) % shown.length;
  const frame = shown[(next - 1 + shown.length) % shown.length];
  point(frame);
  reveal(frame);
}

// What is shown is kept in the address, so that it can be reloaded and sent to others.
function remember() {
  const query = new URLSearchParams();
  if (zoomed !== all) { query.set("x", zoomed.x); query.set("y", zoomed.y); }
  if (terms) query.set("s", terms);
  try {
    if (isWholeDocument) history.replaceState(null, "", "?" + query);
  } catch { /* Some browsers refuse it for files. */ }
}

const frame_of = new Map(frames.map(frame => [frame.g, frame]));
const target = event => frame_of.get(event.target.closest?.("#frames > g"));
svg.addEventListener("mouseover", event => point(target(event) || null));
svg.addEventListener("mouseleave", () => point(null));
svg.addEventListener("click", event => { const frame = target(event); if (frame) { zoom(frame); point(frame); } });
unzoom.addEventListener("click", () => zoom(all));
let waiting = 0;
search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => find(search.value), 100); });
search.closest("form").addEventListener("submit", event => event.preventDefault());
addEventListener("keydown", event => {
  const { key } = event, in_search = document.activeElement === search;
  if (key === "F3" || (event.ctrlKey || event.metaKey) && key.toLowerCase() === "f" || key === "/" && !in_search) {
    search.focus();
    search.select();
  } else if (key === "Escape") {
    if (terms || search.value) { search.value = ""; find(""); } else zoom(all);
  } else if (key === "Enter" && in_search) {
    clearTimeout(waiting);
    if (search.value !== terms) find(search.value);
    show_match(event.shiftKey ? -1 : 1);
  } else if (document.activeElement === svg && step(key)) {
    // Done.
  } else return;
  event.preventDefault();
});
// A key goes from the frame pointed at to another.
function step(key) {
  const frame = current?.shown ? current : zoomed;
  const level = levels[frame.depth].filter(frame => frame.shown), at = level.indexOf(frame);
  const above = () => (levels[frame.depth + 1] || []).filter(upper => upper.shown && upper.below === frame)
    .reduce((widest, upper) => widest && widest.w >= upper.w ? widest : upper, null);
  const moves = { ArrowLeft: () => level[at - 1], ArrowRight: () => level[at + 1],
    [inverted ? "ArrowUp" : "ArrowDown"]: () => frame.below, [inverted ? "ArrowDown" : "ArrowUp"]: above,
    Enter: () => (zoom(frame), frame) };
  if (!moves[key]) return false;
  const to = moves[key]() || frame;
  point(to);
  reveal(to);
  return true;
}

point(null);
let size = "";
function fit() {
  const now = [main.clientWidth, innerHeight].join();
  if (now !== size) { size = now; draw(); }
}
addEventListener("resize", fit);
scroller.addEventListener("scroll", tell_more);

const query = new URLSearchParams(location.search);
zoomed = frames.find(frame => query.has("x") && frame.x === +query.get("x") && frame.y === +query.get("y")) || all;
search.value = terms = query.get("s") || "";
if (terms) find(terms);
fit();
if (isWholeDocument) {
  // The roots are what a reader begins with.
  const to_roots = () => scroller.scrollTo(0, inverted ? 0 : scroller.scrollHeight);
  to_roots();
  addEventListener("load", to_roots);
  // Page Up, Home and the like scroll what has the focus.
  main.setAttribute("tabindex", "-1");
  main.focus({ preventScroll: true });
}
})();
