// Elements, and what the page keeps outside of itself.

/**
 * Makes an element. Text stays text, whatever is in it. There are no style attributes: the policy of the page forbids them.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {Record<string, string|boolean|((event: any) => void)>} [attributes] @param {...(Node|string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** @param {string} label @param {string} title @param {() => void} act @param {string} [kind] */
export function button(label, title, act, kind = "") {
  const made = element("button", { type: "button", class: kind, title, click: act }, label);
  if (label.length < 3) made.setAttribute("aria-label", title.replace(/ \(.*\)$/, ""));
  return made;
}

/** Puts children into a place. Who was there with the keyboard stays: on what has the same label, else on the first button. @param {HTMLElement} place @param {...Node} children */
export function replaceChildren(place, ...children) {
  const focused = document.activeElement instanceof HTMLElement && place.contains(document.activeElement) ? document.activeElement : null;
  const label = (/** @type {Element} */ made) => made.getAttribute("aria-label") ?? made.textContent;
  const name = focused && label(focused);
  place.replaceChildren(...children);
  if (!focused) return;
  const buttons = [...place.querySelectorAll("button")].filter(made => !made.disabled);
  (buttons.find(made => label(made) === name) ?? buttons[0])?.focus();
}

/** A canvas that is as sharp as the screen. Returns what to draw with, or `null` where there is no room. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
export function prepare(canvas, width, height) {
  const scale = self.devicePixelRatio || 1;
  const [columns, rows] = [Math.round(width * scale), Math.round(height * scale)];
  if (columns < 1 || rows < 1) return null;
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
  }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) return null;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** What the reader prefers. Storage may be forbidden; then it lasts as long as the page. */
export const preferences = {
  /** @type {Record<string, string>} */
  values: {},
  /** @param {string} name @param {string} otherwise */
  get(name, otherwise) {
    if (name in this.values) return this.values[name];
    try {
      return localStorage.getItem(`prof.view.${name}`) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  /** @param {string} name @param {string} value */
  set(name, value) {
    this.values[name] = value;
    try {
      localStorage.setItem(`prof.view.${name}`, value);
    } catch { /* It lasts as long as the page. */ }
  },
};

/** @param {string} text @param {HTMLElement} [place] Where what is copied may stand meanwhile: a dialog keeps the keyboard within it. @returns {Promise<boolean>} Whether it could be done. */
export async function copy(text, place = document.body) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", { class: "unseen" });
    const before = document.activeElement;
    area.value = text;
    place.append(area);
    area.select();
    let done = false;
    try {
      done = document.execCommand("copy");
    } catch { /* It is said below that it was not done. */ }
    area.remove();
    if (before instanceof HTMLElement) before.focus();
    return done;
  }
}

let scheduled = new Set();
/** Does something once before the next picture. @param {() => void} act */
export function soon(act) {
  if (scheduled.has(act)) return;
  if (!scheduled.size) requestAnimationFrame(() => {
    const acts = scheduled;
    scheduled = new Set();
    for (const act of acts) act();
  });
  scheduled.add(act);
}
