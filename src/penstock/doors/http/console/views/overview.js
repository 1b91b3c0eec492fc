// The first page: the traffic of the server, in total and by protocol, and the flow of messages.

import { get, path } from "../lib/api.js";
import { bytes, count, duration, protocolName, rate, short } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, refine } from "../lib/route.js";
import { follow, Samples } from "../lib/samples.js";
import { html, View } from "../lib/view.js";
import { Chart } from "../parts/chart.js";
import { Segments, Tile } from "../parts/facts.js";
import { Flow } from "../parts/flow.js";
import { Table } from "../parts/table.js";
import { NoTopics } from "./lists.js";
import { otherTopics, picture, SHOWN, STUCK_SECONDS } from "./picture.js";

const RANGES = {
  "15m": { label: "15 min", step: 1, seconds: 900 },
  "24h": { label: "24 h", step: 60, seconds: 86_400 },
};
const DUE_EVERY = 10_000; // milliseconds
const COLOURS = { pubsub: "c1", azure: "c2", text: "c3", flight: "c4", http: "c6" };

export class Overview extends View {
  samples = new Samples("server", "", (sample) => sample.server);
  samplesOf = new Map(
    Object.keys(COLOURS).map((name) => [name, new Samples("door", name, (sample) => sample.doors[name])]),
  );

  componentDidMount() {
    super.componentDidMount();
    if (live.server) this.begin();
    else this.ends.push(live.on("server", () => this.loadSamples ?? this.begin()));
  }

  begin() {
    this.loadSamples = follow(
      this,
      () => [this.samples, ...this.doors],
      () => RANGES[this.range].step,
    );
  }

  get doors() {
    return (live.server?.doors ?? [])
      .filter((door) => door.address && this.samplesOf.has(door.name))
      .map((door) => this.samplesOf.get(door.name));
  }

  get range() {
    const { range } = this.props.query;
    return Object.hasOwn(RANGES, range ?? "") ? range : "15m";
  }

  componentDidUpdate(before) {
    if (before.query.range !== this.props.query.range) this.loadSamples?.();
  }

  async load(signal) {
    const [statistics, server, topics, busy, due] = await Promise.all([
      get("/statistics", {}, signal),
      get("/server", {}, signal),
      get("/topics", { sort: "-rate", page_size: SHOWN }, signal),
      get("/subscriptions", { sort: "-rate", page_size: SHOWN }, signal),
      this.loadDue(signal),
    ]);
    const others = await Promise.all(
      otherTopics({ topics, busy, due }).map((name) => get(path("topics", name), {}, signal).catch(absent)),
    );
    return { statistics, server, topics, busy, due, others: others.filter(Boolean) };
  }

  /** Return the subscriptions with the longest due messages. The list changes slowly and costs the server much. */
  async loadDue(signal) {
    if (!this.due || performance.now() - this.due.at > DUE_EVERY) {
      const list = await get("/subscriptions", { sort: "-due", page_size: SHOWN }, signal);
      this.due = { at: performance.now(), list };
    }
    return this.due.list;
  }

  show(data) {
    const { topics } = data;
    return html`<section aria-label="Overview">
      <div class="bar">
        <h1>Overview</h1>
        <${Segments} label="Time range" value=${this.range}
          options=${Object.entries(RANGES).map(([value, { label }]) => [value, label])}
          onChoose=${(value) => refine({ range: value === "15m" ? "" : value })} />
        <button type="button" class="pause" aria-pressed=${live.paused} onClick=${() => live.pause(!live.paused)}
          >${live.paused ? "Resume" : "Pause"}</button>
      </div>
      ${tiles(data)}
      <div class="panel"><h2>Flow</h2>
        ${topics.total ? this.flow(data) : html`<p class="empty"><${NoTopics} /></p>`}
      </div>
      ${this.protocols(data)}
      ${this.charts()}
    </section>`;
  }

  flow(data) {
    const { cut, stuck, ...flow } = picture(data);
    const link = (kind, sort, text) => html`<a href=${format([kind], { sort })}>${text}</a>`;
    const limits = html`The busiest of ${count(data.topics.total)} ${link("topics", "-rate", "topics")} and${" "}
      ${count(data.busy.total)} ${link("subscriptions", "-rate", "subscriptions")}. `;
    const wait = duration(STUCK_SECONDS);
    const warning = html`<strong class="bad"
        >Red: messages have waited for more than ${wait} without an ack.</strong>${" "}
      ${link("subscriptions", "-due", "Longest first")}`;
    return html`<${Flow} ...${flow} />
      <p class="quiet small">Rates are averages over 10 seconds. ${cut && limits}
        ${stuck ? warning : `Red: messages have waited for more than ${wait} without an ack.`}</p>`;
  }

  protocols({ statistics, server }) {
    const rows = server.doors
      .filter((door) => door.address && statistics.doors[door.name])
      .map(({ name }) => ({ name, label: protocolName(name), ...statistics.doors[name].per_second }));
    rows.push({
      name: "total",
      label: html`<strong>Total</strong>`,
      messages_in: statistics.published.per_second,
      messages_out: statistics.delivered.per_second,
      acks: statistics.acked.per_second,
      returns: statistics.returned.per_second,
      dead: statistics.dead_lettered.per_second,
    });
    const cell = (field) => (row) => rate(row[field] ?? 0);
    const columns = [
      { label: "Protocol", cell: (row) => row.label },
      { label: "Published", number: true, cell: cell("messages_in") },
      { label: "Delivered", number: true, cell: cell("messages_out") },
      { label: "Acked", number: true, cell: cell("acks") },
      { label: "Returned", number: true, cell: cell("returns") },
      {
        label: "Dead-lettered",
        number: true,
        minor: true,
        cell: (row) => (row.name === "total" ? rate(row.dead) : "–"),
      },
    ];
    return html`<${Table} label="Rates by protocol" rows=${rows} compact columns=${columns} />
      <p class="quiet small">Totals count a dead-lettered message as published again.</p>`;
  }

  charts() {
    const { samples, doors } = this;
    const { seconds } = RANGES[this.range];
    const lines = (...rows) => rows.map(([label, colour, field]) => ({ label, colour, values: samples.values(field) }));
    const byProtocol = (field) =>
      doors.map((door) => ({ label: protocolName(door.name), colour: COLOURS[door.name], values: door.values(field) }));
    const chart = (title, unit, shown, times = samples.times) =>
      html`<${Chart} title=${title} unit=${unit} seconds=${seconds} times=${times} lines=${shown} />`;
    const messages = lines(
      ["published", "c1", "published"],
      ["delivered", "c2", "delivered"],
      ["acked", "c3", "acked"],
      ["returned", "c4", "returned"],
      ["dead-lettered", "c5", "dead_lettered"],
    );
    const backlog = lines(["backlog", "c1", "backlog_messages"], ["in flight", "c2", "in_flight_messages"]);
    const commit = lines(["p50", "c2", "commit_p50_seconds"], ["p99", "c4", "commit_p99_seconds"]);
    return html`<div class="charts">
      ${chart("Messages", "rate", messages)}
      ${chart("Backlog", "count", backlog)}
      ${doors.length > 0 && chart("Published, by protocol", "rate", byProtocol("messages_in"), doors[0].times)}
      ${doors.length > 0 && chart("Delivered, by protocol", "rate", byProtocol("messages_out"), doors[0].times)}
      ${chart("Commit latency", "duration", commit)}
      ${chart("Oldest unacked", "duration", lines(["age", "c4", "oldest_age_seconds"]))}
      ${chart("Bytes published per second", "bytes", lines(["bytes", "c1", "published_bytes"]))}
      ${chart("Memory", "bytes", lines(["resident", "c1", "memory_bytes"]))}
    </div>`;
  }
}

function tiles({ statistics, server }) {
  const traffic = (label, { per_second, total }, alert) =>
    html`<${Tile} label=${label} value=${rate(per_second)} hint=${`${count(total)} total`}
      alert=${alert && per_second > 0} />`;
  const { commits, backlog_messages, in_flight_messages, oldest_age_seconds } = statistics;
  const { journal } = server;
  const inMemory = journal.free_bytes === null;
  const disk = inMemory ? "in memory only" : `${bytes(journal.free_bytes)} free`;
  return html`<div class="tiles ten">
    ${traffic("Published", statistics.published)}${traffic("Delivered", statistics.delivered)}
    ${traffic("Acked", statistics.acked)}${traffic("Returned", statistics.returned)}
    ${traffic("Dead-lettered", statistics.dead_lettered, true)}
    <${Tile} label="Backlog" value=${short(backlog_messages)} hint=${`${count(in_flight_messages)} in flight`} />
    <${Tile} label="Oldest unacked" value=${duration(oldest_age_seconds)}
      hint=${backlog_messages ? "since publish" : "no backlog"} />
    <${Tile} label="Commit p99" value=${duration(commits.p99_seconds)}
      hint=${`p50 ${duration(commits.p50_seconds)}, ${rate(commits.per_second)}`} />
    <${Tile} label="Disk" value=${inMemory ? "none" : bytes(journal.bytes + journal.wal_bytes)}
      hint=${journal.full ? "full: publishes fail" : disk} alert=${journal.full} />
    <${Tile} label="Memory" value=${bytes(statistics.memory_bytes)}
      hint=${`CPU ${Math.round(statistics.cpu * 100)} %`} />
  </div>`;
}

/** Return null for a topic that was deleted meanwhile (404), or whose name has no project (400). */
function absent(error) {
  if (error.status !== 404 && error.status !== 400) throw error;
  return null;
}
