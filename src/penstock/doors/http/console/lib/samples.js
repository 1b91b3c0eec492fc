// The samples of the last minutes or hours: loaded once, then grown by the live ones, so that charts move without asking.

import { get } from "./api.js";
import { live } from "./live.js";

const KEPT = { 1: 900, 60: 1440 }; // rows, by step in seconds

/**
 * what: server, topic, subscription or door; pick(sample) -> the row of a live sample, by field, or null.
 * A live sample has the busiest topics and subscriptions alone: those have no pick, and are asked for.
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
    const { times, rows, fields } = await this.ask(step, KEPT[step], signal);
    this.step = step;
    this.times = times;
    this.columns = new Map(fields.map((field, place) => [field, rows.map((row) => row[place])]));
  }

  async ask(step, count, signal) {
    const query = { what: this.what, name: this.name, step, seconds: step * count };
    const { start, rows, fields } = await get("/samples", query, signal);
    return { times: rows.map((_, at) => Math.round(Date.parse(start) / 1000 + at * step)), rows, fields };
  }

  /** Take a live sample; whether anything changed. */
  async add(sample) {
    if (this.step !== 1 || !this.columns.size) return false;
    const at = Math.round(Date.parse(sample.at) / 1000);
    const missing = at - this.last("times");
    if (missing <= 0) return false;
    if (this.pick) return this.push(at, this.pick(sample));
    const { times, rows, fields } = await this.ask(1, Math.min(missing, KEPT[1]));
    const named = rows.map((row) => Object.fromEntries(fields.map((field, place) => [field, row[place]])));
    return times.filter((time, place) => this.push(time, named[place])).length > 0;
  }

  /** The arrays grow where they are: a chart that runs for hours makes no garbage. */
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

/** Samples for a component, as `all` gives them: loaded when it begins and when the server is back, followed while it is there. */
export function follow(component, all, step = () => 1) {
  const together = (work) =>
    Promise.all(all().map((samples) => work(samples, component.controller?.signal)))
      .then((changed) => !component.gone && changed.some((each) => each !== false) && component.setState({ sampled: Date.now() }))
      .catch(() => {}); // the view itself says that the server is away
  const load = () => together((samples, signal) => samples.load(step(), signal));
  load();
  component.ends.push(live.on("server", load));
  component.ends.push(live.on("sample", (sample) => together((samples) => samples.add(sample))));
  component.every(60_000, () => step() !== 1 && !live.paused && load());
  return load;
}
