// How somebody else sees what is seen here: a file of its own, or the end of the address.
import { button, copy, element } from "./dom.js";
import { toFragment } from "./state.js";

/** The page as it was loaded: its text before the packed data and after them, and these by name. @typedef {{before: string, blocks: Record<string, string>, after: string}} Loaded */

/** The text of a page that opens in a state. @param {Loaded} loaded @param {import("./state.js").State} state */
function pageOf({ before, blocks, after }, state) {
  const packed = Object.entries(blocks).map(([name, block]) => `${element("script", { type: "text/plain", "data-block": name }, block).outerHTML}\n`).join("");
  const opens = toFragment(state).replaceAll("&", "&amp;");
  return `<!doctype html>\n<html lang="en" data-opens="${opens}">${before.slice(before.indexOf(">") + 1)}${packed}${after}`;
}

/** The name of this file. */
function fileName() {
  const name = location.pathname.split("/").pop() || "view.html";
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** @param {Loaded} loaded @param {import("./state.js").Store} store */
export function shareDialog(loaded, store) {
  const page = () => pageOf(loaded, store.state);
  const saved = () => {
    const url = URL.createObjectURL(new Blob([page()], { type: "text/html" }));
    element("a", { href: url, download: fileName() }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    told.textContent = " Saved.";
  };
  const told = element("output", { class: "muted" }), body = element("div", {}), close = element("button", { type: "button", class: "plain", "aria-label": "Close", click: () => dialog.close() }, "✕");
  const dialog = element("dialog", { class: "help sharing", "aria-label": "Share" },
    element("div", { class: "title" }, element("h2", {}, "Share what you see"), close), body);
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  return {
    dialog,
    page,
    show() {
      const end = toFragment(store.state), isServed = location.protocol.startsWith("http");
      const text = (isServed ? location.href.split("#")[0] : fileName()) + (end && `#${end}`);
      told.textContent = "";
      body.replaceChildren(
        element("p", {}, "A file with the whole recording, which opens as you see it now: ", button("Save the file", "Saves this page with what is selected", saved)),
        element("p", {}, isServed ? "Or the address of this page, with what you see: " : "Or its name with what you see, for those who have it: ",
          button("Copy", "Copies it", () => copy(text, dialog).then(done => { told.textContent = done ? " Copied." : " The browser does not allow copying."; })), told),
        element("p", { class: "code" }, text));
      dialog.showModal();
    },
  };
}
