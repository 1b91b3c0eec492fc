// The samples of the last minutes or hours: loaded once, then grown by the live ones, so that charts move without asking.

import { get } from "./api.js";
import { live } from "./live.js";

/** what: server, topic, subscription or door; pick(sample) -> the row of a live sample, by field, or null. */
export class Samples {
  constructor(what, name, pick) {
    this.what = what;
    this.name = name;
    this.pick = pick;
    this.fields = [];
    this.times = [];
    this.rows = [];
    this.step = 1;
  }

  async load(step, signal) {
    const query = { what: this.what, name: this.name, step, seconds: step === 1 ? 900 : 86400 };
    const found = await get("/samples", query, signal);
    const start = Date.parse(found.start) / 1000;
    this.step = step;
    this.fields = found.fields;
    this.rows = found.rows;
    this.times = found.rows.map((_, at) => Math.round(start + at * found.step));
    this.length = step === 1 ? 900 : 1440;
  }

  /** Take a live sample; whether anything changed. */
  add(sample) {
    if (this.step !== 1 || !this.fields.length) return false;
    const at = Math.round(Date.parse(sample.at) / 1000);
    if (this.times.length && at <= this.times[this.times.length - 1]) return false;
    const row = this.pick(sample);
    this.times = [...this.times.slice(-this.length + 1), at];
    this.rows = [...this.rows.slice(-this.length + 1), this.fields.map((field) => row?.[field] ?? 0)];
    return true;
  }

  values(field) {
    const place = this.fields.indexOf(field);
    return this.rows.map((row) => (place < 0 ? 0 : row[place]));
  }

  last(field) {
    const place = this.fields.indexOf(field);
    return this.rows.length && place >= 0 ? this.rows[this.rows.length - 1][place] : 0;
  }
}

/** Samples for a component: loaded when it begins, followed while it is there. */
export function follow(component, samples, step = () => 1) {
  const load = () =>
    samples
      .load(step(), component.controller?.signal)
      .then(() => !component.gone && component.setState({ sampled: samples.times.length }))
      .catch(() => {}); // the view itself says that the server is away
  load();
  component.ends.push(live.on("server", load));
  component.ends.push(
    live.on("sample", (sample) => samples.add(sample) && component.setState({ sampled: sample.at })),
  );
  component.every(60_000, () => step() !== 1 && load());
  return load;
}
