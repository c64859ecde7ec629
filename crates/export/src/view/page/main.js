// Starts the page, or its worker.
import { unpackMeta } from "./format.js";
import { serve } from "./engine.js";
import { Client } from "./client.js";
import { element } from "./dom.js";
import { themes } from "./colours.js";
import { Page } from "./page.js";

/** Says what failed, over what the page shows without scripts. @param {unknown} error */
function showFailure(error) {
  const text = error instanceof Error ? error.message : String(error);
  document.getElementById("failure")?.remove();
  const box = element("div", { id: "failure", role: "alert" }, element("b", {}, "This page could not do that: "), text,
    element("button", { type: "button", click: () => box.remove() }, "Close"));
  document.body.prepend(box);
}

async function start() {
  const script = document.querySelector("script[type=module]");
  const missing = [["DecompressionStream", "unpacking of data (DecompressionStream)"], ["ResizeObserver", "ResizeObserver"], ["Blob", "Blob"]]
    .filter(([name]) => !(name in globalThis)).map(([, what]) => what);
  if (missing.length) throw new Error(`this browser lacks ${missing.join(", ")}; a newer one shows the whole recording, the table below stays true`);
  /** @type {Record<string, string>} */
  const blocks = {};
  for (const block of document.querySelectorAll("script[data-block]")) {
    blocks[block.getAttribute("data-block") ?? ""] = block.textContent ?? "";
    block.remove();
  }
  const text = document.documentElement.outerHTML, at = text.lastIndexOf(script?.outerHTML ?? "");
  const loaded = { before: text.slice(0, at), blocks, after: text.slice(at) };
  const client = new Client(script?.textContent ?? "");
  const [meta] = await Promise.all([unpackMeta(blocks.meta), client.open(blocks)]);
  themes.choose();
  const page = new Page(meta, client, loaded, showFailure);
  page.update();
  page.select();
  page.askView();
  page.moment?.update();
  page.lanes?.ask();
  // For tests, which drive the page.
  Object.assign(globalThis, { profView: page });
}

if (typeof document === "undefined") serve();
else start().catch(showFailure);
