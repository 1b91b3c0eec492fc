// The lists: topics, subscriptions, queues. Sorting, searching and paging are done by the server, so that thousands of
// resources cost no more than a page of them.

import { get } from "../lib/api.js";
import { ago, bytes, count, duration, lastPart, rate, shownName } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, refine } from "../lib/route.js";
import { html, View } from "../lib/view.js";
import { Sparkline } from "../parts/chart.js";
import { Labels } from "../parts/facts.js";
import { Pager, Search, Table } from "../parts/table.js";
import { CreateQueue, CreateSubscription, CreateTopic } from "./creating.js";

const KEPT = 60; // samples in a sparkline

/** The last minute of each resource that had traffic, from the live samples. */
const minutes = new Map();
live.on("sample", (sample) => {
  const seen = { ...sample.topics, ...sample.subscriptions };
  for (const [name, row] of Object.entries(seen)) if (!minutes.has(name)) minutes.set(name, []);
  for (const [name, values] of minutes) {
    values.push(seen[name]?.published ?? seen[name]?.delivered ?? 0);
    if (values.length > KEPT) values.shift();
    if (values.length === KEPT && !values.some(Boolean)) minutes.delete(name);
  }
});

function sparkline(name, what) {
  return html`<${Sparkline} values=${minutes.get(name) ?? []} label=${`${what} in the last minute`} />`;
}

class List extends View {
  load(signal) {
    const { search = "", sort = this.usualSort, page = "", project = "" } = this.props.query;
    return get(this.path, { search, sort: this.sorts ? sort : "", project, page_token: page, page_size: 50 }, signal);
  }

  componentDidUpdate(before) {
    if (before.query !== this.props.query) this.reload();
  }

  show(data) {
    const { query } = this.props;
    const rows = data[this.key];
    return html`<section aria-label=${this.title}>
      <div class="bar"><h1>${this.title}</h1>
        <${Search} value=${query.search ?? ""} onSearch=${(search) => refine({ search, page: "" })} />
        ${live.canChange && html`<button type="button" class="primary" onClick=${() => this.setState({ creating: true })}>${this.create}</button>`}
      </div>
      <${Table} label=${this.title} columns=${this.columns(live.server?.default_project)} rows=${rows} sort=${query.sort ?? this.usualSort}
        onSort=${this.sorts ? (sort) => refine({ sort, page: "" }) : undefined} href=${this.href}
        empty=${query.search ? `Nothing is called "${query.search}".` : this.empty} keyOf=${(row) => row.topic + row.name} />
      <${Pager} total=${data.total} shown=${rows.length} first=${!query.page} onFirst=${() => refine({ page: "" })}
        next=${data.next_page_token} onNext=${() => refine({ page: data.next_page_token })} />
      ${this.state.creating && this.dialog(() => {
        this.setState({ creating: false });
        this.reload();
      })}
    </section>`;
  }
}

export class Topics extends List {
  title = "Topics";
  path = "/topics";
  key = "topics";
  sorts = true;
  usualSort = "name";
  create = "New topic";
  empty = "There are no topics yet. A publisher or the button above makes one.";
  href = (topic) => format(["topics", topic.name]);
  dialog = (onClose) => html`<${CreateTopic} onClose=${onClose} />`;

  columns(usual) {
    return [
      { label: "Topic", sort: "name", cell: (topic) => shownName(topic, usual) },
      { label: "Messages", number: true, sort: "messages", cell: (topic) => count(topic.messages) },
      { label: "Size", number: true, cell: (topic) => bytes(topic.bytes) },
      { label: "Published", number: true, sort: "rate", cell: (topic) => rate(topic.publish_rate) },
      { label: "Last minute", cell: (topic) => sparkline(topic.name, "Published") },
      { label: "Subscriptions", number: true, cell: (topic) => count(topic.subscriptions) },
      { label: "Last publish", cell: (topic) => ago(topic.last_published_at, Date.now()) },
      { label: "Labels", cell: (topic) => html`<${Labels} labels=${topic.labels} />` },
    ];
  }
}

export class Subscriptions extends List {
  title = "Subscriptions";
  path = "/subscriptions";
  key = "subscriptions";
  sorts = true;
  usualSort = "name";
  create = "New subscription";
  empty = "There are no subscriptions yet.";
  href = (each) => format(["subscriptions", each.name]);
  dialog = (onClose) => html`<${CreateSubscription} onClose=${onClose} />`;

  columns(usual) {
    return [
      { label: "Subscription", sort: "name", cell: (each) => shownName(each, usual) },
      { label: "Topic", cell: (each) => html`<a href=${format(["topics", each.topic])}>${lastPart(each.topic)}</a>` },
      { label: "Kind", cell: (each) => (each.detached ? "detached" : each.kind) },
      { label: "Waiting", number: true, sort: "backlog", cell: (each) => count(each.backlog_messages) },
      { label: "In flight", number: true, cell: (each) => count(each.in_flight_messages) },
      { label: "Oldest", number: true, sort: "oldest", cell: (each) => duration(each.oldest_age_seconds) },
      { label: "Delivered", number: true, sort: "rate", cell: (each) => rate(each.deliver_rate) },
      { label: "Last minute", cell: (each) => sparkline(each.name, "Delivered") },
      { label: "Acked", number: true, cell: (each) => rate(each.ack_rate) },
      { label: "Dead letters", number: true, cell: (each) => count(each.dead_lettered) },
    ];
  }
}

export class Queues extends List {
  title = "Queues";
  path = "/queues";
  key = "queues";
  sorts = false;
  usualSort = "";
  create = "New queue";
  empty = "There are no queues yet: a queue is a topic with one subscription of the same name.";
  href = (queue) => format(["subscriptions", queue.subscription]);
  dialog = (onClose) => html`<${CreateQueue} onClose=${onClose} />`;

  columns() {
    const at = (client) => (queue) => (queue.names[client] ? html`<code>${queue.names[client]}</code>` : html`<span class="quiet">none</span>`);
    return [
      { label: "Queue", cell: (queue) => queue.name },
      { label: "Waiting", number: true, cell: (queue) => count(queue.backlog_messages) },
      { label: "In flight", number: true, cell: (queue) => count(queue.in_flight_messages) },
      { label: "Oldest", number: true, cell: (queue) => duration(queue.oldest_age_seconds) },
      { label: "Azure Queue", cell: at("azure") },
      { label: "Google Pub/Sub", cell: at("pubsub") },
      { label: "Text", cell: at("text") },
    ];
  }
}
