// One topic: what it holds, how clients call it, who reads it, and what can be done with it.

import { get, path, post, remove } from "../lib/api.js";
import { ago, bytes, clock, count, duration, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, goInstead, refine } from "../lib/route.js";
import { follow, Samples } from "../lib/samples.js";
import { html, View } from "../lib/view.js";
import { Chart } from "../parts/chart.js";
import { Dialog } from "../parts/dialog.js";
import { DoorNames, Facts, Labels, Tile } from "../parts/facts.js";
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
    refine({ do: dialog ?? "" }); // an address of its own, as everything that is shown
  }

  show({ topic, readers, cursors }) {
    const { samples } = this;
    return html`<section aria-label=${`Topic ${topic.id}`}>
      <div class="bar">
        <h1><span class="kind">Topic</span> ${topic.id}</h1>
        <a class="button" href=${format(["topics", topic.name, "messages"])}>Messages</a>
        ${live.canChange && html`
          <button type="button" class="primary" onClick=${() => this.open("publish")}>Publish</button>
          <button type="button" onClick=${() => this.open("subscribe")}>New subscription</button>
          <button type="button" onClick=${() => this.open("move")}>Move messages</button>
          <button type="button" onClick=${() => this.open("change")}>Change</button>
          <button type="button" class="danger" onClick=${() => this.open("purge")}>Purge</button>
          <button type="button" class="danger" onClick=${() => this.open("delete")}>Delete</button>`}
      </div>
      <div class="tiles">
        <${Tile} label="Messages kept" value=${count(topic.messages)} hint=${bytes(topic.bytes)} />
        <${Tile} label="Published" value=${rate(topic.publish_rate)} hint=${`${count(topic.published)} since the start`} />
        <${Tile} label="Bytes" value=${`${bytes(topic.publish_bytes_rate)}/s`} />
        <${Tile} label="Last publish" value=${ago(topic.last_published_at, live.timeOf(topic))} />
      </div>
      <${Chart} title="Published a second" unit="rate" seconds=${900} times=${samples?.times ?? []} lines=${[{ label: "published", colour: "c1", values: samples?.values("published") ?? [] }]} />
      <div class="pair">
        <div class="panel"><h2>How clients call it</h2><${DoorNames} names=${topic.names} /></div>
        <div class="panel"><h2>Options</h2><${Facts} rows=${[
          ["Full name", html`<code>${topic.name}</code>`],
          ["Made", clock(topic.created_at)],
          ["Offsets", `${count(topic.first_offset)} to ${count(topic.next_offset)}`],
          ["Acked messages are kept", topic.retention_seconds ? duration(topic.retention_seconds) : "as long as the server does"],
          ["And at most", topic.retention_bytes ? bytes(topic.retention_bytes) : ""],
          ["Schema", topic.schema && html`<code>${topic.schema}</code>`],
          ["Not stored", Object.entries(topic.dropped).map(([reason, number]) => `${reason}: ${count(number)}`).join(", ")],
          ["Labels", Object.keys(topic.labels).length ? html`<${Labels} labels=${topic.labels} />` : ""],
        ]} /></div>
      </div>
      <h2>Subscriptions</h2>
      <${Table} label="Subscriptions of this topic" rows=${readers.subscriptions} empty="Nobody reads this topic."
        href=${(each) => format(["subscriptions", each.name])} columns=${[
          { label: "Subscription", cell: (each) => each.id },
          { label: "Kind", cell: (each) => each.kind },
          { label: "Connected", number: true, cell: (each) => count(each.consumers) },
          { label: "Backlog", number: true, cell: (each) => count(each.backlog_messages) },
          { label: "In flight", number: true, cell: (each) => count(each.in_flight_messages) },
          { label: "Oldest", number: true, cell: (each) => duration(each.oldest_age_seconds) },
          { label: "Delivered", number: true, cell: (each) => rate(each.deliver_rate) },
          { label: "Acked", number: true, cell: (each) => rate(each.ack_rate) },
        ]} />
      ${readers.total > readers.subscriptions.length && html`<p class="quiet">${count(readers.subscriptions.length)} of ${count(readers.total)}</p>`}
      ${cursors.length > 0 && html`<h2>Readers of the log</h2><${Cursors} cursors=${cursors} />`}
      ${this.dialog(topic, readers)}
    </section>`;
  }

  dialog(topic, readers) {
    const close = () => {
      this.open(null);
      this.reload();
    };
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
          run=${async () => `${plural((await post(`${path("topics", topic.name)}/purge`)).messages, "message")} will not be delivered any more.`}>
          <p>All ${plural(topic.messages, "message")} (${bytes(topic.bytes)}) are forgotten; on ${plural(readers.total, "subscription")} they count as acked. It cannot be taken back.</p><//>`;
      case "delete":
        return html`<${Dialog} title="Delete this topic" danger submit="Delete" typed=${topic.id} onClose=${(done) => (done ? goInstead(["topics"]) : close())}
          run=${async () => void (await remove(path("topics", topic.name)))}>
          <p>${plural(topic.messages, "message")} (${bytes(topic.bytes)}) will be gone; ${plural(readers.total, "subscription")} will stay, without a topic.</p><//>`;
      default:
        return null;
    }
  }
}
