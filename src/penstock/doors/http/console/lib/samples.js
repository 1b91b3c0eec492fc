// The samples of the last minutes or hours: loaded once, then grown by the live ones, so that charts move without asking.

import { get } from "./api.js";
import { live } from "./live.js";

const KEPT = { 1: 900, 60: 1440 }; // rows, by step in seconds

/** what: server, topic, subscription or door; pick(sample) -> the row of a live sample, by field, or null. */
export class Samples {
  constructor(what, name, pick) {
    this.what = what;
    this.name = name;
    this.pick = pick;
    this.step = 1;
    this.times = [];
    this.columns = new Map();
  }

  async load(step, signal) {
    const query = { what: this.what, name: this.name, step, seconds: step * KEPT[step] };
    const found = await get("/samples", query, signal);
    const start = Date.parse(found.start) / 1000;
    this.step = step;
    this.times = found.rows.map((_, at) => Math.round(start + at * found.step));
    this.columns = new Map(found.fields.map((field, place) => [field, found.rows.map((row) => row[place])]));
  }

  /** Take a live sample; whether anything changed. The arrays grow where they are: a chart that runs for hours makes no garbage. */
  add(sample) {
    if (this.step !== 1 || !this.columns.size) return false;
    const at = Math.round(Date.parse(sample.at) / 1000);
    if (at <= this.last("times")) return false;
    const row = this.pick(sample);
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

/** Samples for a component: loaded when it begins and when the server is back, followed while it is there. */
export function follow(component, all, step = () => 1) {
  const many = [all].flat();
  const load = () =>
    Promise.all(many.map((samples) => samples.load(step(), component.controller?.signal)))
      .then(() => !component.gone && component.setState({ sampled: Date.now() }))
      .catch(() => {}); // the view itself says that the server is away
  load();
  component.ends.push(live.on("server", load));
  component.ends.push(
    live.on("sample", (sample) => {
      const changed = many.map((samples) => samples.add(sample));
      if (changed.some(Boolean)) component.setState({ sampled: sample.at });
    }),
  );
  component.every(60_000, () => step() !== 1 && !live.paused && load());
  return load;
}
