// One subscription: what waits, what consumers have now, and the ways to move it.

import { get, path, post, remove } from "../lib/api.js";
import { ago, bytes, clock, count, duration, lastPart, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, goInstead, refine } from "../lib/route.js";
import { follow, Samples } from "../lib/samples.js";
import { html, View } from "../lib/view.js";
import { Chart } from "../parts/chart.js";
import { Check, Dialog } from "../parts/dialog.js";
import { Copy, DoorNames, Facts, Labels, Tile } from "../parts/facts.js";
import { Table } from "../parts/table.js";
import { Consumers, Cursor, Leases } from "./consumers.js";
import { ChangeSubscription } from "./creating.js";
import { backlogOf, Redrive } from "./moves.js";
import { Publish } from "./publish.js";
import { Seek } from "./seek.js";
import { CreateSnapshot } from "./snapshots.js";

const LEASES = 20;

export class Subscription extends View {
  componentDidMount() {
    super.componentDidMount();
    this.samples = new Samples("subscription", this.props.name);
    follow(this, () => [this.samples]);
    this.every(1000, () => !live.paused && (this.state.data?.leases.total || this.state.data?.consumers.total) && this.setState({ tick: Date.now() }));
  }

  async load(signal) {
    const here = path("subscriptions", this.props.name);
    const subscription = await get(here, {}, signal);
    const none = Promise.resolve({ messages: [] });
    const [leases, waiting, consumers, topic] = await Promise.all([
      get(`${here}/leases`, { page_size: LEASES, page_token: this.props.query.leases ?? "" }, signal),
      subscription.detached ? none : get(`${here}/messages`, { max: 10, body_bytes: 100 }, signal),
      get(`${here}/consumers`, {}, signal),
      subscription.kind === "queue" && !subscription.detached ? get(path("topics", subscription.topic), {}, signal) : null,
    ]);
    if (topic) live.tell("section", "queues"); // its place among the pages
    return { subscription, leases, waiting, consumers, topic };
  }

  componentDidUpdate(before) {
    if (before.query.leases !== this.props.query.leases) this.reload();
  }

  open(dialog) {
    refine({ do: dialog ?? "" }); // an address of its own, as everything that is shown
  }

  show({ subscription, leases, waiting, consumers, topic }) {
    const { samples } = this;
    const line = (label, colour, field) => ({ label, colour, values: samples?.values(field) ?? [] });
    const dead = subscription.options.dead_letter_policy?.dead_letter_topic;
    const change = live.canChange;
    const there = !subscription.detached;
    const now = live.timeOf(subscription);
    return html`<section aria-label=${`Subscription ${subscription.id}`}>
      <div class="bar">
        <h1><span class="kind">${topic ? "Queue" : "Subscription"}</span> ${subscription.id}</h1>
        ${there && html`<a class="button" href=${format(["topics", subscription.topic, "messages"])}>Messages</a>`}
        ${change && html`
          ${topic && html`<button type="button" class="primary" onClick=${() => this.open("publish")}>Publish</button>`}
          ${there && html`<button type="button" onClick=${() => this.open("seek")}>Seek</button>
          <button type="button" onClick=${() => this.open("redrive")}>Move messages</button>
          <button type="button" onClick=${() => this.open("snapshot")}>Snapshot</button>
          <button type="button" onClick=${() => this.open("change")}>Change</button>
          <button type="button" class="danger" onClick=${() => this.open("purge")}>Purge</button>`}
          <button type="button" class="danger" onClick=${() => this.open("delete")}>Delete</button>`}
      </div>
      <p>${there ? html`Reads <a href=${format(["topics", subscription.topic])}>${lastPart(subscription.topic)}</a>` : html`Its topic, <code>${lastPart(subscription.topic)}</code>, was deleted: nothing is delivered any more`}${dead && html`; dead letters go to <a href=${format(["topics", dead])}>${lastPart(dead)}</a>`}.${subscription.options.filter && " Its filter is only asked when messages are read: the backlog counts those too that it will pass over."}</p>
      <div class="tiles">
        <${Tile} label="Backlog" value=${count(subscription.backlog_messages)} hint=${`${bytes(subscription.backlog_bytes)}, ${count(subscription.in_flight_messages)} in flight`} />
        <${Tile} label="In flight" value=${count(subscription.in_flight_messages)} hint=${bytes(subscription.in_flight_bytes)} />
        <${Tile} label="Oldest waits" value=${duration(subscription.oldest_age_seconds)} />
        <${Tile} label="Delivered" value=${rate(subscription.deliver_rate)} hint=${`${count(subscription.delivered)} since the start`} />
        <${Tile} label="Acked" value=${rate(subscription.ack_rate)} hint=${`${count(subscription.acked)} since the start`} />
        <${Tile} label="Returned" value=${rate(subscription.return_rate)} hint=${`${count(subscription.returned)} since the start`} />
        <${Tile} label="Dead letters" value=${count(subscription.dead_lettered)} hint="since the start" alert=${subscription.dead_lettered > 0} />
      </div>
      <div class="charts">
        <${Chart} title="Messages a second" unit="rate" seconds=${900} times=${samples?.times ?? []} lines=${[line("delivered", "c2", "delivered"), line("acked", "c3", "acked"), line("returned", "c4", "returned")]} />
        <${Chart} title="Backlog" unit="count" seconds=${900} times=${samples?.times ?? []} lines=${[line("backlog", "c1", "backlog_messages"), line("in flight", "c2", "in_flight_messages")]} />
      </div>
      <div class="panel"><h2>Who is connected</h2>${consumers.cursor ? html`<${Cursor} cursor=${consumers.cursor} />` : html`<${Consumers} found=${consumers} now=${now} />`}</div>
      <div class="pair">
        <div class="panel"><h2>Consumers have now</h2><${Leases} leases=${leases} topic=${subscription.topic} now=${now} page=${this.props.query.leases} onPage=${(page) => refine({ leases: page }, { step: true })} /></div>
        <div class="panel"><h2>Next to be delivered</h2>
          <${Table} label="What a pull would give" rows=${waiting.messages} keyOf=${(message) => message.offset} empty="Nothing waits."
            href=${(message) => format(["topics", subscription.topic, "messages"], { from: message.offset, open: message.offset })} columns=${[
              { label: "Offset", cell: (message) => count(message.offset) },
              { label: "Published", cell: (message) => ago(message.publish_time, now) },
              { label: "Body", wide: true, cell: (message) => (message.data ?? "bytes").slice(0, 60) },
            ]} />
        </div>
      </div>
      <div class="pair">
        ${topic && html`<div class="panel"><h2>How clients call it</h2><${DoorNames} names=${topic.names} /></div>`}
        <div class="panel"><h2>Options</h2><${Facts} rows=${optionRows(subscription)} /></div>
      </div>
      ${this.dialog(subscription, topic)}
    </section>`;
  }

  dialog(subscription, topic) {
    const here = path("subscriptions", subscription.name);
    const close = () => {
      this.open(null);
      this.reload();
    };
    this.queue = topic ?? this.queue; // who writes a message keeps what is typed, also where the topic was just deleted
    const { do: wanted } = this.props.query;
    switch (live.canChange && (!subscription.detached || ["delete", "publish", "seek"].includes(wanted)) ? wanted : "") {
      case "seek":
        return html`<${Seek} subscription=${subscription} onClose=${close} />`;
      case "redrive":
        return html`<${Redrive} title=${`Move messages of ${subscription.id}`} from=${subscription.name} backlog=${backlogOf(subscription)} onClose=${close} />`;
      case "publish":
        return this.queue && html`<${Publish} topic=${this.queue} onClose=${close} />`;
      case "snapshot":
        return html`<${CreateSnapshot} subscription=${subscription.name} onClose=${close} />`;
      case "change":
        return html`<${ChangeSubscription} subscription=${subscription} onClose=${close} />`;
      case "purge":
        return html`<${Dialog} title=${`Purge this ${topic ? "queue" : "subscription"}`} danger submit="Purge" typed=${subscription.id} onClose=${close}
          run=${async () => `${plural((await post(`${here}/purge`)).messages, "message")} will not be delivered any more.`}>
          <p>${backlogOf(subscription)} All (${bytes(subscription.backlog_bytes)}) count as acked. It cannot be taken back.</p><//>`;
      case "delete":
        return html`<${Dialog} title=${`Delete this ${topic ? "queue" : "subscription"}`} danger submit="Delete" typed=${subscription.id}
          onClose=${(done) => (done ? goInstead([topic ? "queues" : "subscriptions"]) : close())}
          run=${async (values) => void (await remove(values.whole === "on" ? path("queues", subscription.topic) : here))}>
          <p>${plural(subscription.backlog_messages, "message")} will not be delivered to anybody through it.${topic ? "" : " The topic stays."}</p>
          ${topic && html`<${Check} label=${`The topic as well, with ${plural(topic.messages, "message")}${topic.subscriptions > 1 ? ` that ${plural(topic.subscriptions - 1, "other subscription")} read` : ""}`} name="whole" checked=${topic.subscriptions === 1} />`}<//>`;
      default:
        return null;
    }
  }
}

function optionRows(subscription) {
  const { name, created_at, last_used_at, kind, options } = subscription;
  const yes = (value) => (value ? "yes" : "no");
  const retry = options.retry_policy;
  const dead = options.dead_letter_policy;
  return [
    ["Full name", html`<code>${name}</code> <${Copy} text=${name} />`],
    ["Kind", kind],
    ["Made", clock(created_at)],
    ["Last used", last_used_at && ago(last_used_at, live.timeOf(subscription))],
    ["Ack deadline", duration(options.ack_deadline_seconds)],
    ["Filter", options.filter && html`<code>${options.filter}</code>`],
    ["In order of keys", yes(options.enable_message_ordering)],
    ["Exactly once", yes(options.enable_exactly_once_delivery)],
    ["Unacked messages are kept", options.message_retention_duration ? duration(options.message_retention_duration) : "without limit"],
    ["Acked ones too", yes(options.retain_acked_messages)],
    ["Backoff", retry && `${duration(retry.minimum_backoff)} to ${duration(retry.maximum_backoff)}`],
    ["Dead letters", dead && `after ${plural(dead.max_delivery_attempts, "attempt")}, to ${dead.dead_letter_topic}`],
    ["At most in flight", options.flow_control && [options.flow_control.max_messages && plural(options.flow_control.max_messages, "message"), options.flow_control.max_bytes && bytes(options.flow_control.max_bytes)].filter(Boolean).join(", ")],
    ["Deleted when unused for", options.expiration_policy && duration(options.expiration_policy.ttl)],
    ["Labels", Object.keys(options.labels ?? {}).length ? html`<${Labels} labels=${options.labels} />` : ""],
  ];
}
