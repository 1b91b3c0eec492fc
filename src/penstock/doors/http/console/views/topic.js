// One topic: its messages, names, subscriptions and options, and actions on it.

import { get, path, post, remove } from "../lib/api.js";
import { ago, bytes, clock, count, duration, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, goInstead, refine } from "../lib/route.js";
import { follow, Samples } from "../lib/samples.js";
import { html, View } from "../lib/view.js";
import { Chart } from "../parts/chart.js";
import { Dialog } from "../parts/dialog.js";
import { ClientNames, Facts, Labels, Tile } from "../parts/facts.js";
import { Table } from "../parts/table.js";
import { Cursors } from "./consumers.js";
import { ChangeTopic, CreateSubscription } from "./creating.js";
import { RedriveOf } from "./moves.js";
import { Publish } from "./publish.js";

export class Topic extends View {
  componentDidMount() {
    super.componentDidMount();
    this.samples = new Samples("topic", this.props.name);
    follow(this, () => [this.samples]);
  }

  async load(signal) {
    const [topic, readers, { cursors }] = await Promise.all([
      get(path("topics", this.props.name), {}, signal),
      get("/subscriptions", { topic: this.props.name, page_size: 100 }, signal),
      get("/cursors", { topic: this.props.name, page_size: 100 }, signal),
    ]);
    return { topic, readers, cursors };
  }

  open(dialog) {
    refine({ do: dialog ?? "" });
  }

  show({ topic, readers, cursors }) {
    const { samples } = this;
    const published = [{ label: "published", colour: "c1", values: samples?.values("published") ?? [] }];
    return html`<section aria-label=${`Topic ${topic.id}`}>
      <div class="bar">
        <h1><span class="kind">Topic</span> ${topic.id}</h1>
        <a class="button" href=${format(["topics", topic.name, "messages"])}>Messages</a>
        ${
          live.canChange &&
          html`
          <button type="button" class="primary" onClick=${() => this.open("publish")}>Publish</button>
          <button type="button" onClick=${() => this.open("subscribe")}>New subscription</button>
          <button type="button" onClick=${() => this.open("move")}>Move messages</button>
          <button type="button" onClick=${() => this.open("change")}>Change</button>
          <button type="button" class="danger" onClick=${() => this.open("purge")}>Purge</button>
          <button type="button" class="danger" onClick=${() => this.open("delete")}>Delete</button>`
        }
      </div>
      <div class="tiles">
        <${Tile} label="Messages" value=${count(topic.messages)} hint=${bytes(topic.bytes)} />
        <${Tile} label="Published" value=${rate(topic.publish_rate)}
          hint=${`${count(topic.published)} since start`} />
        <${Tile} label="Bytes published" value=${`${bytes(topic.publish_bytes_rate)}/s`} />
        <${Tile} label="Last published" value=${ago(topic.last_published_at, live.timeOf(topic))} />
      </div>
      <${Chart} title="Messages published" unit="rate" seconds=${900} times=${samples?.times ?? []}
        lines=${published} />
      <div class="pair">
        <div class="panel"><h2>Client names</h2><${ClientNames} names=${topic.names} /></div>
        <div class="panel"><h2>Options</h2><${Facts} rows=${optionRows(topic)} /></div>
      </div>
      <h2>Subscriptions</h2>
      <${Table} label="Subscriptions of this topic" rows=${readers.subscriptions} empty="No subscriptions yet."
        href=${(subscription) => format(["subscriptions", subscription.name])} columns=${SUBSCRIPTION_COLUMNS} />
      ${
        readers.total > readers.subscriptions.length &&
        html`<p class="quiet">${count(readers.subscriptions.length)} of ${count(readers.total)}</p>`
      }
      ${cursors.length > 0 && html`<h2>Cursors</h2><${Cursors} cursors=${cursors} />`}
      ${this.dialog(topic, readers)}
    </section>`;
  }

  dialog(topic, readers) {
    const close = () => {
      this.open(null);
      this.reload();
    };
    const messages = `${plural(topic.messages, "message")} (${bytes(topic.bytes)})`;
    const subscriptions = plural(readers.total, "subscription");
    switch (live.canChange ? this.props.query.do : "") {
      case "publish":
        return html`<${Publish} topic=${topic} onClose=${close} />`;
      case "subscribe":
        return html`<${CreateSubscription} topic=${topic.name} onClose=${close} />`;
      case "move":
        return html`<${RedriveOf} topic=${topic} title=${`Move messages of ${topic.id}`} onClose=${close} />`;
      case "change":
        return html`<${ChangeTopic} topic=${topic} onClose=${close} />`;
      case "purge":
        return html`<${Dialog} title="Purge this topic" danger submit="Purge" typed=${topic.id} onClose=${close}
          run=${async () => purged(await post(`${path("topics", topic.name)}/purge`))}>
          <p>Purging deletes ${messages} and acks them on ${subscriptions}. It cannot be undone.</p><//>`;
      case "delete":
        return html`<${Dialog} title="Delete this topic" danger submit="Delete" typed=${topic.id}
          onClose=${(done) => (done ? goInstead(["topics"]) : close())}
          run=${async () => void (await remove(path("topics", topic.name)))}>
          <p>Deletes the topic with ${messages}. ${subscriptions} will have no topic.</p><//>`;
      default:
        return null;
    }
  }
}

export function purged({ messages }) {
  return `${plural(messages, "message")} purged.`;
}

const SUBSCRIPTION_COLUMNS = [
  { label: "Subscription", cell: (row) => row.id },
  { label: "Kind", cell: (row) => row.kind },
  { label: "Consumers", number: true, cell: (row) => count(row.consumers) },
  { label: "Backlog", number: true, cell: (row) => count(row.backlog_messages) },
  { label: "In flight", number: true, cell: (row) => count(row.in_flight_messages) },
  { label: "Oldest", number: true, cell: (row) => duration(row.oldest_age_seconds) },
  { label: "Delivered", number: true, cell: (row) => rate(row.deliver_rate) },
  { label: "Acked", number: true, cell: (row) => rate(row.ack_rate) },
];

function optionRows(topic) {
  const dropped = Object.entries(topic.dropped).map(([reason, number]) => `${reason}: ${count(number)}`);
  return [
    ["Full name", html`<code>${topic.name}</code>`],
    ["Created", clock(topic.created_at)],
    ["Offsets", `${count(topic.first_offset)} to ${count(topic.next_offset)}`],
    ["Retention", topic.retention_seconds ? duration(topic.retention_seconds) : "server default"],
    ["Retention size", topic.retention_bytes ? bytes(topic.retention_bytes) : ""],
    ["Schema", topic.schema && html`<code>${topic.schema}</code>`],
    ["Dropped", dropped.join(", ")],
    ["Labels", Object.keys(topic.labels).length ? html`<${Labels} labels=${topic.labels} />` : ""],
  ];
}
