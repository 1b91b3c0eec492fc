// The state of the connection, and the stream of server events that updates the page. It reconnects by itself.

import { get } from "./api.js";
import { sharedEvents } from "./stream.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
const SILENCE = 10_000; // a sample comes every second: after 10 s without one, the server or the network hangs
const OWN_TIME = 5_000; // a record further than this from the server's time belongs to a project with its own time

class Live extends EventTarget {
  state = "connecting"; // connecting, live, lost, refused
  paused = false;
  last = null; // the newest sample
  server = null; // the response of /server when the stream began
  restarted = false; // since the page was opened
  problem = ""; // why the server refuses the stream
  heardAt = 0; // the browser's time of the last event
  offset = 0; // milliseconds from the browser's clock to the server's

  /** Whether the token may change anything. Without that right, the page shows no controls that would. */
  get canChange() {
    return this.server?.may_change === true;
  }

  /** Return the server's time, whatever the clock of this machine shows. */
  now() {
    return Date.now() + this.offset;
  }

  /** Return the time of the project of a record, from the record's `now`. A project may have a time of its own. */
  timeOf({ now }) {
    const projectTime = Date.parse(now);
    return Math.abs(projectTime - this.now()) > OWN_TIME ? projectTime : this.now();
  }

  noteHeard(instant) {
    this.heardAt = Date.now();
    if (instant) this.offset = Date.parse(instant) - this.heardAt;
  }

  /** Connect again now, such as with another token. The page keeps its content. */
  retry() {}

  start() {
    this.run();
  }

  async run() {
    let wait = FIRST_WAIT;
    for (;;) {
      let relayed = false; // by another tab
      try {
        const server = await get("/server", {}, AbortSignal.timeout(SILENCE));
        this.noteHeard(server.now);
        this.restarted ||= this.server !== null && this.server.started_at !== server.started_at;
        this.server = server;
        this.tell("server", server);
        for await (const { kind, data, ...event } of this.watchedEvents()) {
          relayed = event.relayed;
          if (this.state !== "live") {
            this.become("live");
            wait = FIRST_WAIT;
          }
          this.receive(kind, data);
        }
        if (relayed) continue;
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

  async *watchedEvents() {
    const silence = new AbortController();
    const watch = setInterval(() => Date.now() - this.heardAt > SILENCE && silence.abort(), 1000);
    try {
      for await (const event of sharedEvents(silence.signal)) {
        this.noteHeard(event.data.at);
        yield event;
      }
    } finally {
      clearInterval(watch);
    }
  }

  receive(kind, data) {
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
    if (!paused) this.tell("server", this.server); // load what was missed while paused
  }

  tell(kind, data) {
    this.dispatchEvent(new CustomEvent(kind, { detail: data }));
  }

  /** Call back with the data of each event. Return a function that ends this. */
  on(kind, callback) {
    const listener = (event) => callback(event.detail);
    this.addEventListener(kind, listener);
    return () => this.removeEventListener(kind, listener);
  }
}

export const live = new Live();
