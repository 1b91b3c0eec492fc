// The one stream of events of the server, for all that moves on the page. It comes back by itself.

import { get } from "./api.js";
import { sharedEvents } from "./stream.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
const SILENCE = 10_000; // a sample comes every second: after so long without one the server hangs, or the way to it
const OWN_TIME = 5_000; // a record whose time is further than this from the server's is of a project with its own

class Live extends EventTarget {
  state = "connecting"; // connecting, live, lost, refused
  paused = false;
  last = null; // the newest sample
  server = null; // what /server said when the stream began
  restarted = false; // since the page was opened
  problem = ""; // why the server does not let this page listen
  heardAt = 0; // when the server last said something, in the browser's time
  offset = 0; // of the server's clock before the browser's

  /** Whether this page may change anything: without it, nothing that would is offered. */
  get canChange() {
    return this.server?.may_change === true;
  }

  /** The time at the server, whatever the clock of this machine shows. */
  now() {
    return Date.now() + this.offset;
  }

  /** The time of what a record is about, by the `now` in it: a project may have been moved, or stand. */
  timeOf({ now }) {
    const there = Date.parse(now);
    return Math.abs(there - this.now()) > OWN_TIME ? there : this.now();
  }

  hear(instant) {
    this.heardAt = Date.now();
    if (instant) this.offset = Date.parse(instant) - this.heardAt;
  }

  /** Ask again now, such as with another token; whatever is on the page stays. */
  retry() {}

  start() {
    this.run();
  }

  async run() {
    let wait = FIRST_WAIT;
    for (;;) {
      let passed = false;
      try {
        const server = await get("/server", {}, AbortSignal.timeout(SILENCE));
        this.hear(server.now);
        this.restarted ||= this.server !== null && this.server.started_at !== server.started_at;
        this.server = server;
        this.tell("server", server);
        for await (const { kind, data, ...event } of this.watched()) {
          passed = event.passed;
          if (this.state !== "live") {
            this.become("live");
            wait = FIRST_WAIT;
          }
          this.take(kind, data);
        }
        if (passed) continue;
        this.problem = "";
        this.become("lost");
      } catch (error) {
        this.problem = error.status === 429 ? error.message : "";
        this.become(error.status === 401 || error.status === 403 ? "refused" : "lost");
      }
      await new Promise((resolve) => {
        this.retry = resolve;
        setTimeout(resolve, wait);
      });
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
  }

  /** The events, until nothing was heard for too long. */
  async *watched() {
    const silence = new AbortController();
    const watch = setInterval(() => Date.now() - this.heardAt > SILENCE && silence.abort(), 1000);
    try {
      for await (const event of sharedEvents(silence.signal)) {
        this.hear(event.data.at);
        yield event;
      }
    } finally {
      clearInterval(watch);
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
