// The first page: what the server does now, and where messages go.

import { get } from "../lib/api.js";
import { bytes, count, duration, rate, short, shownName } from "../lib/format.js";
import { live } from "../lib/live.js";
import { refine } from "../lib/route.js";
import { follow, Samples } from "../lib/samples.js";
import { html, View } from "../lib/view.js";
import { Chart } from "../parts/chart.js";
import { Tile } from "../parts/facts.js";
import { Flow } from "../parts/flow.js";

const SHOWN = 8; // busiest topics and subscriptions in the picture
const STUCK_SECONDS = 60; // the oldest message waits longer than this and nothing is acked

export class Overview extends View {
  samples = new Samples("server", "", (sample) => sample.server);

  componentDidMount() {
    super.componentDidMount();
    this.again = follow(this, this.samples, () => this.step());
  }

  componentDidUpdate(before) {
    if (before.query.range !== this.props.query.range) this.again();
  }

  step() {
    return this.props.query.range === "24h" ? 60 : 1;
  }

  async load(signal) {
    const [statistics, topics, subscriptions, server] = await Promise.all([
      get("/statistics", {}, signal),
      get("/topics", { sort: "-rate", page_size: SHOWN }, signal),
      get("/subscriptions", { sort: "-backlog", page_size: 100 }, signal),
      get("/server", {}, signal),
    ]);
    return { statistics, topics, subscriptions, server };
  }

  show({ statistics, topics, subscriptions, server }) {
    const { samples } = this;
    const lines = (...rows) => rows.map(([label, colour, field]) => ({ label, colour, values: samples.values(field) }));
    const seconds = this.step() === 1 ? 900 : 86_400;
    const range = this.props.query.range === "24h" ? "24h" : "15m";
    return html`<section aria-label="Overview">
      <div class="bar">
        <h1>Overview</h1>
        <div class="segments" role="group" aria-label="Time range">
          ${[["15m", "15 minutes"], ["24h", "24 hours"]].map(
            ([value, label]) => html`<button type="button" aria-pressed=${range === value} onClick=${() => refine({ range: value === "15m" ? "" : value })}>${label}</button>`,
          )}
        </div>
        <button type="button" aria-pressed=${live.paused} onClick=${() => live.pause(!live.paused)}>${live.paused ? "Go on" : "Pause"}</button>
      </div>
      <div class="tiles">
        <${Tile} label="Published" value=${rate(samples.last("published"))} hint=${`${count(statistics.published.total)} since the start`} />
        <${Tile} label="Delivered" value=${rate(samples.last("delivered"))} hint=${`${count(statistics.delivered.total)} since the start`} />
        <${Tile} label="Acked" value=${rate(samples.last("acked"))} hint=${`${count(statistics.acked.total)} since the start`} />
        <${Tile} label="Backlog" value=${short(statistics.backlog_messages)} hint=${`${count(statistics.in_flight_messages)} in flight`} />
        <${Tile} label="Oldest waits" value=${duration(statistics.oldest_age_seconds)} />
        <${Tile} label="Dead letters" value=${short(statistics.dead_lettered.total)} hint="since the start" alert=${statistics.dead_lettered.per_second > 0} />
        <${Tile} label="Commit p99" value=${duration(statistics.commits.p99_seconds)} hint=${`${rate(statistics.commits.per_second)}, p50 ${duration(statistics.commits.p50_seconds)}`} />
        <${Tile} label="Disk" value=${bytes(server.journal.bytes + server.journal.wal_bytes)} hint=${server.journal.free_bytes === null ? "in memory" : `${bytes(server.journal.free_bytes)} free`} />
        <${Tile} label="Memory" value=${bytes(statistics.memory_bytes)} hint=${`CPU ${Math.round(statistics.cpu * 100)} %`} />
      </div>
      <div class="panel"><h2>Flow</h2>${picture(statistics, topics.topics, subscriptions.subscriptions, server)}</div>
      <div class="charts">
        <${Chart} title="Messages a second" unit="rate" seconds=${seconds} times=${samples.times}
          lines=${lines(["published", "c1", "published"], ["delivered", "c2", "delivered"], ["acked", "c3", "acked"], ["returned", "c4", "returned"], ["dead-lettered", "c5", "dead_lettered"])} />
        <${Chart} title="Backlog" unit="count" seconds=${seconds} times=${samples.times} lines=${lines(["waiting", "c1", "backlog_messages"], ["in flight", "c2", "in_flight_messages"])} />
        <${Chart} title="Commit latency" unit="duration" seconds=${seconds} times=${samples.times} lines=${lines(["p50", "c2", "commit_p50_seconds"], ["p99", "c4", "commit_p99_seconds"])} />
        <${Chart} title="Oldest message waits" unit="duration" seconds=${seconds} times=${samples.times} lines=${lines(["oldest", "c4", "oldest_age_seconds"])} />
        <${Chart} title="Memory" unit="bytes" seconds=${seconds} times=${samples.times} lines=${lines(["resident", "c1", "memory_bytes"])} />
        <${Chart} title="Bytes published a second" unit="bytes" seconds=${seconds} times=${samples.times} lines=${lines(["bytes", "c1", "published_bytes"])} />
      </div>
    </section>`;
  }
}

function picture(statistics, topics, subscriptions, server) {
  const usual = server.default_project;
  const now = live.last;
  const through = (door, field) => now?.doors[door]?.[field] ?? 0;
  const doors = server.doors
    .filter((door) => door.state !== "closed" && door.name !== "http")
    .map((door) => ({ name: door.name, in: through(door.name, "messages_in"), out: through(door.name, "messages_out") }));
  const shown = new Set(topics.map((topic) => topic.name));
  const readers = subscriptions.filter((each) => shown.has(each.topic)).slice(0, SHOWN);
  if (!topics.length) return html`<p class="empty">There are no topics yet. Publish something, or make one under Topics.</p>`;
  return html`<${Flow}
    doors=${doors}
    topics=${topics.map((topic) => ({ name: topic.name, label: shownName(topic, usual), rate: now?.topics[topic.name]?.published ?? topic.publish_rate }))}
    subscriptions=${readers.map((each) => ({
      name: each.name,
      label: shownName(each, usual),
      topic: each.topic,
      rate: each.deliver_rate,
      backlog: each.backlog_messages,
      stuck: each.oldest_age_seconds > STUCK_SECONDS && each.ack_rate === 0 && each.backlog_messages > 0,
      dead: each.options.dead_letter_policy?.dead_letter_topic,
    }))} />`;
}
