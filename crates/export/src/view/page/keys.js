// Keys that work everywhere.
import { themes } from "./colours.js";

/** Does what a key asks for. @param {import("./page.js").Page} page @param {KeyboardEvent} event */
export function onKey(page, event) {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  const control = event.ctrlKey || event.metaKey;
  const { store, state } = page;
  if (document.querySelector("dialog[open]")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (control && key === "z" && !typing) {
    if (event.shiftKey) store.redo();
    else store.undo();
  } else if (control && key === "y" && !typing) store.redo();
  else if (control && key === "f") page.search?.focus();
  else if (control || event.altKey || typing) return;
  else if (/^[0-9]$/.test(key)) page.tabs?.[(Number(key) + 9) % 10]?.click();
  else switch (event.key === "N" ? "N" : key) {
    case "/": page.search?.focus(); page.search?.select(); break;
    case "n": page.step(1); break;
    case "N": page.step(-1); break;
    case "?": page.help?.showModal(); break;
    case "f": page.turn(); break;
    case "d": themes.next(); break;
    case "z": page.lanes?.zoomToSelection(); break;
    case "t": {
      const modes = (page.modes ?? []).map(mode => mode.dataset.mode ?? "");
      store.set({ lanes: modes[(modes.indexOf(state.lanes) + 1) % modes.length] });
      break;
    }
    case "e": if (page.meta.sides) store.set({ event: 1 - state.event, zoom: [] }); else page.showEvent((state.event + 1) % page.meta.events.length); break;
    case "w": {
      const events = (page.weights ?? []).map(made => Number(made.dataset.event));
      if (events.length) page.showEvent(events[(events.indexOf(state.event) + 1) % events.length]);
      break;
    }
    case "k": page.act("keep"); break;
    case "h": page.act("hide"); break;
    case "b": page.act("root"); break;
    case "m": page.act("merge"); break;
    case "c": page.act("module"); break;
    case "r": page.act("recursion"); break;
    case "o": page.act("mine"); break;
    case "s": page.act("sandwich"); break;
    case "y": page.act("copy"); break;
    case "Escape":
      if (!page.tip?.hidden) page.showTip([], 0, 0);
      if (page.losses && !page.losses.node.hidden) page.losses.show(false);
      else if (state.pin >= 0) store.set({ pin: -1 });
      else if (state.zoom.length) store.set({ zoom: [] });
      else if (state.search) store.set({ search: "" });
      else if (state.time || state.timeBefore) store.set({ time: null, timeBefore: null });
      else if (state.threads || state.cpus) store.set({ threads: null, cpus: null });
      else if (state.window) store.set({ window: null });
      else if (state.named >= 0) store.set({ named: -1 });
      break;
    default: return;
}
  event.preventDefault();
}
