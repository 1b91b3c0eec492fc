// Samples of the last minutes or hours, loaded once. Live samples are appended, so that charts send no requests.

import { get } from "./api.js";
import { live } from "./live.js";

const KEPT = { 1: 900, 60: 1440 }; // rows, by step in seconds

/**
 * `what`: server, topic, subscription or door. `pick(sample)` returns the row of a live sample by field, or null.
 * A live sample holds only the busiest topics and subscriptions, so these have no `pick` and load their rows instead.
 */
export class Samples {
  constructor(what, name, pick = null) {
    this.what = what;
    this.name = name;
    this.pick = pick;
    this.step = 1;
    this.times = [];
    this.columns = new Map();
  }

  async load(step, signal) {
    const { times, rows, fields } = await this.request(step, KEPT[step], signal);
    this.step = step;
    this.times = times;
    this.columns = new Map(fields.map((field, place) => [field, rows.map((row) => row[place])]));
  }

  async request(step, count, signal) {
    const query = { what: this.what, name: this.name, step, seconds: step * count };
    const { start, rows, fields } = await get("/samples", query, signal);
    return { times: rows.map((_, at) => Math.round(Date.parse(start) / 1000 + at * step)), rows, fields };
  }

  async add(sample) {
    if (this.step !== 1 || !this.columns.size) return false;
    const at = Math.round(Date.parse(sample.at) / 1000);
    const missing = at - this.last("times");
    if (missing <= 0) return false;
    if (this.pick) return this.push(at, this.pick(sample));
    const { times, rows, fields } = await this.request(1, Math.min(missing, KEPT[1]));
    const records = rows.map((row) => Object.fromEntries(fields.map((field, place) => [field, row[place]])));
    return times.filter((time, place) => this.push(time, records[place])).length > 0;
  }

  /** Append to the arrays in place, so that a chart that runs for hours makes no garbage. */
  push(at, row) {
    if (at <= this.last("times")) return false;
    this.times.push(at);
    for (const [field, values] of this.columns) values.push(row?.[field] ?? 0);
    if (this.times.length > KEPT[1]) for (const values of [this.times, ...this.columns.values()]) values.shift();
    return true;
  }

  values(field) {
    return this.columns.get(field) ?? this.times.map(() => 0);
  }

  last(field) {
    return (field === "times" ? this.times : this.values(field)).at(-1) ?? 0;
  }
}

/** Load the samples that `all` returns when a component starts and when the server is back, and append live samples. */
export function follow(component, all, step = () => 1) {
  const update = (work) =>
    Promise.all(all().map((samples) => work(samples, component.controller?.signal)))
      .then(
        (changed) =>
          !component.gone && changed.some((result) => result !== false) && component.setState({ sampled: Date.now() }),
      )
      .catch(() => {}); // the view itself shows that the server is offline
  const load = () => update((samples, signal) => samples.load(step(), signal));
  load();
  component.ends.push(live.on("server", load));
  component.ends.push(live.on("sample", (sample) => update((samples) => samples.add(sample))));
  component.every(60_000, () => step() !== 1 && !live.paused && load());
  return load;
}
