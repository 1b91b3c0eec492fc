// The first page: what the server does now, through which doors, and where messages go.

import { get, path } from "../lib/api.js";
import { bytes, count, duration, rate, short } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, refine } from "../lib/route.js";
import { follow, Samples } from "../lib/samples.js";
import { html, View } from "../lib/view.js";
import { Chart } from "../parts/chart.js";
import { Segments, Tile } from "../parts/facts.js";
import { Flow } from "../parts/flow.js";
import { Table } from "../parts/table.js";
import { others, picture, SHOWN, STUCK_SECONDS } from "./picture.js";

const RANGES = { "15m": { label: "15 min", step: 1, seconds: 900 }, "24h": { label: "24 h", step: 60, seconds: 86_400 } };
const DUE_EVERY = 10_000; // milliseconds
const DOORS = { pubsub: "c1", azure: "c2", text: "c3", flight: "c4", http: "c6" };

export class Overview extends View {
  samples = new Samples("server", "", (sample) => sample.server);
  known = new Map(Object.keys(DOORS).map((name) => [name, new Samples("door", name, (sample) => sample.doors[name])]));

  componentDidMount() {
    super.componentDidMount();
    if (live.server) this.begin();
    else this.ends.push(live.on("server", () => this.again ?? this.begin()));
  }

  begin() {
    this.again = follow(this, () => [this.samples, ...this.doors], () => RANGES[this.range].step);
  }

  /** Of the doors that are open: after a restart they may be others. */
  get doors() {
    return (live.server?.doors ?? []).filter((door) => door.address && this.known.has(door.name)).map((door) => this.known.get(door.name));
  }

  get range() {
    const { range } = this.props.query;
    return Object.hasOwn(RANGES, range ?? "") ? range : "15m";
  }

  componentDidUpdate(before) {
    if (before.query.range !== this.props.query.range) this.again?.();
  }

  async load(signal) {
    const [statistics, server, topics, busy, due] = await Promise.all([
      get("/statistics", {}, signal),
      get("/server", {}, signal),
      get("/topics", { sort: "-rate", page_size: SHOWN }, signal),
      get("/subscriptions", { sort: "-rate", page_size: SHOWN }, signal),
      this.due(signal),
    ]);
    const found = await Promise.all(others({ topics, busy, due }).map((name) => get(path("topics", name), {}, signal).catch(absent)));
    return { statistics, server, topics, busy, due, read: found.filter(Boolean) };
  }

  /** Whose messages are due longest changes slowly, and the server has to look at every subscription for it. */
  async due(signal) {
    if (!this.looked || performance.now() - this.looked.at > DUE_EVERY) {
      this.looked = { at: performance.now(), found: await get("/subscriptions", { sort: "-due", page_size: SHOWN }, signal) };
    }
    return this.looked.found;
  }

  show(data) {
    const { server, topics, busy } = data;
    const flow = picture(data);
    return html`<section aria-label="Overview">
      <div class="bar">
        <h1>Overview</h1>
        <${Segments} label="Time range" value=${this.range} options=${Object.entries(RANGES).map(([value, { label }]) => [value, label])}
          onChoose=${(value) => refine({ range: value === "15m" ? "" : value })} />
        <button type="button" class="pause" aria-pressed=${live.paused} onClick=${() => live.pause(!live.paused)}>${live.paused ? "Go on" : "Pause"}</button>
      </div>
      ${tiles(data)}
      <div class="panel"><h2>Flow</h2>
        ${topics.total ? html`<${Flow} ...${flow} />
          <p class="quiet small">The mean of ten seconds. ${flow.cut && html`The busiest of ${count(topics.total)} <a href=${format(["topics"], { sort: "-rate" })}>topics</a> and ${count(busy.total)} <a href=${format(["subscriptions"], { sort: "-rate" })}>subscriptions</a>. `}
          ${flow.stuck ? html`<strong class="bad">Red: messages have waited for more than ${duration(STUCK_SECONDS)}, and nothing is acked.</strong> <a href=${format(["subscriptions"], { sort: "-due" })}>Longest first</a>` : "Red is where messages wait for more than a minute and nothing is acked."}</p>`
        : html`<p class="empty">There are no topics yet. A publisher makes one${live.canChange && html`, or <a href=${format(["topics"], { do: "new" })}>you do</a>`}.</p>`}
      </div>
      ${this.throughDoors(data, server)}
      ${this.charts()}
    </section>`;
  }

  throughDoors({ statistics }, server) {
    const rows = server.doors.filter((door) => door.address && statistics.doors[door.name]).map((door) => ({ name: door.name, ...statistics.doors[door.name].per_second }));
    rows.push({
      name: "all",
      messages_in: statistics.published.per_second,
      messages_out: statistics.delivered.per_second,
      acks: statistics.acked.per_second,
      returns: statistics.returned.per_second,
      dead: statistics.dead_lettered.per_second,
    });
    const cell = (field) => (row) => rate(row[field] ?? 0);
    return html`<${Table} label="Rates through each door" rows=${rows} compact columns=${[
      { label: "Door", cell: (row) => (row.name === "all" ? html`<strong>All</strong>` : row.name) },
      { label: "Published", number: true, cell: cell("messages_in") },
      { label: "Delivered", number: true, cell: cell("messages_out") },
      { label: "Acked", number: true, cell: cell("acks") },
      { label: "Returned", number: true, cell: cell("returns") },
      { label: "Dead-lettered", number: true, minor: true, cell: (row) => (row.name === "all" ? rate(row.dead) : "–") },
    ]} />
    <p class="quiet small">All is as the broker counts: what it moves to a dead letter topic is published once more, and not returned. No door moves dead letters.</p>`;
  }

  charts() {
    const { samples, doors } = this;
    const { seconds } = RANGES[this.range];
    const lines = (...rows) => rows.map(([label, colour, field]) => ({ label, colour, values: samples.values(field) }));
    const through = (field) => doors.map((door) => ({ label: door.name, colour: DOORS[door.name], values: door.values(field) }));
    const chart = (title, unit, shown, times = samples.times) => html`<${Chart} title=${title} unit=${unit} seconds=${seconds} times=${times} lines=${shown} />`;
    return html`<div class="charts">
      ${chart("Messages", "rate", lines(["published", "c1", "published"], ["delivered", "c2", "delivered"], ["acked", "c3", "acked"], ["returned", "c4", "returned"], ["dead", "c5", "dead_lettered"]))}
      ${chart("Backlog", "count", lines(["backlog", "c1", "backlog_messages"], ["in flight", "c2", "in_flight_messages"]))}
      ${doors.length > 0 && chart("In, by door", "rate", through("messages_in"), doors[0].times)}
      ${doors.length > 0 && chart("Out, by door", "rate", through("messages_out"), doors[0].times)}
      ${chart("Commit", "duration", lines(["median", "c2", "commit_p50_seconds"], ["99th percentile", "c4", "commit_p99_seconds"]))}
      ${chart("Oldest message", "duration", lines(["waits", "c4", "oldest_age_seconds"]))}
      ${chart("Bytes published a second", "bytes", lines(["bytes", "c1", "published_bytes"]))}
      ${chart("Memory", "bytes", lines(["resident", "c1", "memory_bytes"]))}
    </div>`;
  }
}

function tiles({ statistics, server }) {
  const flowing = (label, { per_second, total }, alert) => html`<${Tile} label=${label} value=${rate(per_second)} hint=${`${count(total)} in all`} alert=${alert && per_second > 0} />`;
  const { commits, oldest_age_seconds } = statistics;
  const { journal } = server;
  return html`<div class="tiles ten">
    ${flowing("Published", statistics.published)}${flowing("Delivered", statistics.delivered)}${flowing("Acked", statistics.acked)}
    ${flowing("Returned", statistics.returned)}${flowing("Dead-lettered", statistics.dead_lettered, true)}
    <${Tile} label="Backlog" value=${short(statistics.backlog_messages)} hint=${`${count(statistics.in_flight_messages)} of them in flight`} />
    <${Tile} label="Oldest waits" value=${duration(oldest_age_seconds)} hint=${statistics.backlog_messages ? "since it was published" : "nothing waits"} />
    <${Tile} label="Commit, 99 %" value=${duration(commits.p99_seconds)} hint=${`median ${duration(commits.p50_seconds)}, ${rate(commits.per_second)}`} />
    <${Tile} label="Disk" value=${journal.free_bytes === null ? "none" : bytes(journal.bytes + journal.wal_bytes)} hint=${journal.full ? "full: publishes are refused" : journal.free_bytes === null ? "kept in memory only" : `${bytes(journal.free_bytes)} free`} alert=${journal.full} />
    <${Tile} label="Memory" value=${bytes(statistics.memory_bytes)} hint=${`CPU ${Math.round(statistics.cpu * 100)} %`} />
  </div>`;
}

/** One that was deleted meanwhile. */
function absent(error) {
  if (error.status !== 404) throw error;
  return null;
}
