// Asks the engine: in a worker, or here where a worker cannot be had.
import { Engine } from "./engine.js";

export class Client {
  /** @param {string} code The script of this page, which is the worker's, too. */
  constructor(code) {
    /** @type {Map<number, {resolve: (answer: any) => void, reject: (error: Error) => void}>} */
    this.waiting = new Map();
    this.next = 1;
    /** @type {Map<string, {request: any, resolve: (answer: any) => void}|null>} */
    this.queued = new Map();
    /** @type {Worker|null} */
    this.worker = null;
    try {
      const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      this.worker = new Worker(address);
      this.worker.onmessage = ({ data: { id, answer, error } }) => {
        const waiting = this.waiting.get(id);
        this.waiting.delete(id);
        if (error) waiting?.reject(new Error(error));
        else waiting?.resolve(answer);
      };
      this.worker.onerror = event => {
        event.preventDefault();
        const error = new Error(event.message || "the worker did not start");
        for (const { reject } of this.waiting.values()) reject(error);
        this.waiting.clear();
        this.worker = null;
      };
    } catch {
      this.worker = null;
    }
    /** @type {any} */
    this.engine = null;
  }

  /** @param {string} ask @param {any} request @returns {Promise<any>} */
  async ask(ask, request) {
    const { worker } = this;
    if (!worker) return this.engine[ask](request);
    return new Promise((resolve, reject) => {
      this.waiting.set(this.next, { resolve, reject });
      worker.postMessage({ id: this.next++, ask, request });
    });
  }

  /** Opens the data; here, if the worker fails at it. @param {Record<string, string>} blocks */
  async open(blocks) {
    if (this.worker) {
      try {
        await this.ask("open", blocks);
        return;
      } catch {
        this.worker?.terminate();
        this.worker = null;
      }
    }
    this.engine = await Engine.open(blocks);
  }

  /**
   * As `ask`, but of questions that wait only the newest is asked: the others get no answer.
   * @param {string} channel @param {string} ask @param {any} request @param {(answer: any) => void} then @param {(error: Error) => void} otherwise
   */
  latest(channel, ask, request, then, otherwise) {
    const queued = this.queued.get(channel);
    if (queued !== undefined) {
      this.queued.set(channel, { request: { ask, request, then, otherwise }, resolve: then });
      return;
    }
    this.queued.set(channel, null);
    this.ask(ask, request).then(answer => {
      // What was asked for since makes this one old, but showing it beats showing nothing while keys are held.
      then(answer);
    }, otherwise).finally(() => {
      const waiting = this.queued.get(channel);
      this.queued.delete(channel);
      if (waiting) {
        const { ask, request, then, otherwise } = waiting.request;
        this.latest(channel, ask, request, then, otherwise);
      }
    });
  }
}
