// The one stream of events of the server, for all that moves on the page. It comes back by itself.

import { events, get } from "./api.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

class Live extends EventTarget {
  state = "connecting"; // connecting, live, lost, refused
  paused = false;
  last = null; // the newest sample
  server = null; // what /server said when the stream began
  restarted = false; // since the page was opened

  /** Whether this page may change anything: without it, nothing that would is offered. */
  get canChange() {
    return this.server?.may_change === true;
  }

  /** Ask again now, such as with another token; whatever is on the page stays. */
  retry() {}

  start() {
    this.run();
  }

  async run() {
    let wait = FIRST_WAIT;
    for (;;) {
      try {
        const server = await get("/server");
        this.restarted ||= this.server !== null && this.server.started_at !== server.started_at;
        this.server = server;
        this.tell("server", server);
        for await (const { kind, data } of events("/events")) {
          if (this.state !== "live") {
            this.become("live");
            wait = FIRST_WAIT;
          }
          this.take(kind, data);
        }
        this.become("lost");
      } catch (error) {
        this.become(error.status === 401 || error.status === 403 ? "refused" : "lost");
      }
      await new Promise((resolve) => {
        this.retry = resolve;
        setTimeout(resolve, wait);
      });
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
  }

  take(kind, data) {
    if (kind === "sample") this.last = data;
    if (kind === "sample" && this.paused) return;
    this.tell(kind, data);
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.tell("state", state);
  }

  pause(paused) {
    this.paused = paused;
    this.tell("state", this.state);
    if (!paused) this.tell("server", this.server); // what came meanwhile is asked for
  }

  tell(kind, data) {
    this.dispatchEvent(new CustomEvent(kind, { detail: data }));
  }

  /** Calls back with what comes; the answer ends it. */
  on(kind, callback) {
    const listener = (event) => callback(event.detail);
    this.addEventListener(kind, listener);
    return () => this.removeEventListener(kind, listener);
  }
}

export const live = new Live();
