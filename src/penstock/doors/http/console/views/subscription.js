// One subscription: what waits, what consumers have now, and the ways to move it.

import { get, path, post, remove } from "../lib/api.js";
import { ago, bytes, clock, count, duration, lastPart, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, go } from "../lib/route.js";
import { follow, Samples } from "../lib/samples.js";
import { html, View } from "../lib/view.js";
import { Chart } from "../parts/chart.js";
import { Dialog } from "../parts/dialog.js";
import { Copy, Facts, Labels, Tile } from "../parts/facts.js";
import { Table } from "../parts/table.js";
import { ChangeSubscription } from "./creating.js";
import { Redrive } from "./moves.js";
import { Seek } from "./seek.js";

const LEASES = 20;

export class Subscription extends View {
  componentDidMount() {
    super.componentDidMount();
    this.samples = new Samples("subscription", this.props.name, (sample) => sample.subscriptions[this.props.name]);
    follow(this, this.samples);
    this.every(1000, () => !live.paused && this.state.data?.leases.total && this.setState({ tick: Date.now() }));
  }

  async load(signal) {
    const here = path("subscriptions", this.props.name);
    const [subscription, leases, waiting] = await Promise.all([
      get(here, {}, signal),
      get(`${here}/leases`, { page_size: LEASES }, signal),
      get(`${here}/messages`, { max: 10 }, signal),
    ]);
    return { subscription, leases, waiting };
  }

  open(dialog) {
    this.setState({ dialog });
  }

  show({ subscription, leases, waiting }) {
    const { samples } = this;
    const line = (label, colour, field) => ({ label, colour, values: samples?.values(field) ?? [] });
    const dead = subscription.options.dead_letter_policy?.dead_letter_topic;
    const change = live.canChange;
    return html`<section aria-label=${`Subscription ${subscription.id}`}>
      <div class="bar">
        <h1><span class="kind">Subscription</span> ${subscription.id}</h1>
        ${change && html`
          <button type="button" onClick=${() => this.open("seek")}>Seek</button>
          <button type="button" onClick=${() => this.open("redrive")}>Move messages</button>
          <button type="button" onClick=${() => this.open("change")}>Change</button>
          <button type="button" class="danger" onClick=${() => this.open("purge")}>Purge</button>
          <button type="button" class="danger" onClick=${() => this.open("delete")}>Delete</button>`}
      </div>
      <p>Reads <a href=${format(["topics", subscription.topic])}>${lastPart(subscription.topic)}</a>${subscription.detached ? ", which is gone" : ""}${dead && html`; dead letters go to <a href=${format(["topics", dead])}>${lastPart(dead)}</a>`}.</p>
      <div class="tiles">
        <${Tile} label="Waiting" value=${count(subscription.backlog_messages)} hint=${bytes(subscription.backlog_bytes)} />
        <${Tile} label="In flight" value=${count(subscription.in_flight_messages)} hint=${bytes(subscription.in_flight_bytes)} />
        <${Tile} label="Oldest waits" value=${duration(subscription.oldest_age_seconds)} />
        <${Tile} label="Delivered" value=${rate(subscription.deliver_rate)} hint=${`${count(subscription.delivered)} since the start`} />
        <${Tile} label="Acked" value=${rate(subscription.ack_rate)} hint=${`${count(subscription.acked)} since the start`} />
        <${Tile} label="Returned" value=${count(subscription.returned)} hint="since the start" />
        <${Tile} label="Dead letters" value=${count(subscription.dead_lettered)} hint="since the start" alert=${subscription.dead_lettered > 0} />
      </div>
      <div class="charts">
        <${Chart} title="Messages a second" unit="rate" seconds=${900} times=${samples?.times ?? []} lines=${[line("delivered", "c2", "delivered"), line("acked", "c3", "acked"), line("returned", "c4", "returned")]} />
        <${Chart} title="Waiting" unit="count" seconds=${900} times=${samples?.times ?? []} lines=${[line("waiting", "c1", "backlog_messages"), line("in flight", "c2", "in_flight_messages")]} />
      </div>
      <div class="pair">
        <div class="panel"><h2>Consumers have now</h2>
          <${Table} label="Leases" rows=${leases.leases} keyOf=${(lease) => lease.offset} empty="Nothing is leased."
            href=${(lease) => format(["topics", subscription.topic, "messages"], { from: lease.offset, open: lease.offset })} columns=${[
              { label: "Offset", cell: (lease) => count(lease.offset) },
              { label: "Door", cell: (lease) => lease.door ?? "not known" },
              { label: "Attempt", number: true, cell: (lease) => lease.attempts },
              { label: "Extended", number: true, cell: (lease) => lease.extensions },
              { label: "Ends", number: true, cell: (lease) => (lease.deadline ? ago(lease.deadline, Date.now()) : "with its consumer") },
            ]} />
          ${leases.total > leases.leases.length && html`<p class="quiet">${count(leases.leases.length)} of ${count(leases.total)}</p>`}
        </div>
        <div class="panel"><h2>Next to be delivered</h2>
          <${Table} label="What a pull would give" rows=${waiting.messages} keyOf=${(message) => message.offset} empty="Nothing waits."
            href=${(message) => format(["topics", subscription.topic, "messages"], { from: message.offset, open: message.offset })} columns=${[
              { label: "Offset", cell: (message) => count(message.offset) },
              { label: "Published", cell: (message) => ago(message.publish_time, Date.now()) },
              { label: "Body", wide: true, cell: (message) => (message.data ?? "bytes").slice(0, 60) },
            ]} />
        </div>
      </div>
      <div class="panel"><h2>Options</h2><${Facts} rows=${optionRows(subscription)} /></div>
      ${this.dialog(subscription)}
    </section>`;
  }

  dialog(subscription) {
    const here = path("subscriptions", subscription.name);
    const close = () => {
      this.open(null);
      this.reload();
    };
    switch (this.state.dialog) {
      case "seek":
        return html`<${Seek} subscription=${subscription} onClose=${close} />`;
      case "redrive":
        return html`<${Redrive} subscription=${subscription} onClose=${close} />`;
      case "change":
        return html`<${ChangeSubscription} subscription=${subscription} onClose=${close} />`;
      case "purge":
        return html`<${Dialog} title="Purge this subscription" danger submit="Purge" typed=${subscription.id} onClose=${close}
          run=${async () => `${plural((await post(`${here}/purge`)).messages, "message")} will not be delivered any more.`}>
          <p>${plural(subscription.backlog_messages, "message")} (${bytes(subscription.backlog_bytes)}) count as acked. It cannot be taken back.</p><//>`;
      case "delete":
        return html`<${Dialog} title="Delete this subscription" danger submit="Delete" typed=${subscription.id}
          onClose=${(done) => (done ? go(["subscriptions"]) : close())} run=${async () => void (await remove(here))}>
          <p>${plural(subscription.backlog_messages, "message")} will not be delivered to anybody through it. The topic stays.</p><//>`;
      default:
        return null;
    }
  }
}

function optionRows({ name, created_at, last_used_at, kind, options }) {
  const yes = (value) => (value ? "yes" : "no");
  const retry = options.retry_policy;
  const dead = options.dead_letter_policy;
  return [
    ["Full name", html`<code>${name}</code> <${Copy} text=${name} />`],
    ["Kind", kind],
    ["Made", clock(created_at)],
    ["Last used", last_used_at && ago(last_used_at, Date.now())],
    ["Ack deadline", duration(options.ack_deadline_seconds)],
    ["Filter", options.filter && html`<code>${options.filter}</code>`],
    ["In order of keys", yes(options.enable_message_ordering)],
    ["Exactly once", yes(options.enable_exactly_once_delivery)],
    ["Unacked messages are kept", options.message_retention_duration ? duration(options.message_retention_duration) : "without limit"],
    ["Acked ones too", yes(options.retain_acked_messages)],
    ["Backoff", retry && `${duration(retry.minimum_backoff)} to ${duration(retry.maximum_backoff)}`],
    ["Dead letters", dead && `after ${plural(dead.max_delivery_attempts, "attempt")}, to ${dead.dead_letter_topic}`],
    ["Deleted when unused for", options.expiration_policy && duration(options.expiration_policy.ttl)],
    ["Labels", Object.keys(options.labels ?? {}).length ? html`<${Labels} labels=${options.labels} />` : ""],
  ];
}
