// One subscription: its backlog, consumers, leases and options, and actions on it.

import { get, path, post, remove } from "../lib/api.js";
import { ago, bytes, clock, count, duration, lastPart, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, goInstead, refine } from "../lib/route.js";
import { follow, Samples } from "../lib/samples.js";
import { html, View } from "../lib/view.js";
import { Chart } from "../parts/chart.js";
import { Check, Dialog } from "../parts/dialog.js";
import { ClientNames, Copy, Facts, Labels, Tile } from "../parts/facts.js";
import { Consumers, Cursor, Leases } from "./consumers.js";
import { ChangeSubscription } from "./creating.js";
import { backlogOf, Redrive } from "./moves.js";
import { Publish } from "./publish.js";
import { Seek } from "./seek.js";
import { CreateSnapshot } from "./snapshots.js";
import { purged } from "./topic.js";
import { isBlocked, Waiting } from "./waiting.js";

const LEASES = 20;
const BLOCKED = 20;

export class Subscription extends View {
  componentDidMount() {
    super.componentDidMount();
    this.samples = new Samples("subscription", this.props.name);
    follow(this, () => [this.samples]);
    this.every(
      1000,
      () =>
        !live.paused &&
        (this.state.data?.leases.total || this.state.data?.consumers.total) &&
        this.setState({ tick: Date.now() }),
    );
  }

  async load(signal) {
    const here = path("subscriptions", this.props.name);
    const subscription = await get(here, {}, signal);
    const none = Promise.resolve({ messages: [] });
    const [leases, waiting, consumers, topic] = await Promise.all([
      get(`${here}/leases`, { page_size: LEASES, page_token: this.props.query.leases ?? "" }, signal),
      subscription.detached ? none : get(`${here}/messages`, { max: 10, body_bytes: 100 }, signal),
      get(`${here}/consumers`, {}, signal),
      subscription.kind === "queue" && !subscription.detached
        ? get(path("topics", subscription.topic), {}, signal)
        : null,
    ]);
    if (topic) live.tell("section", "queues"); // the navigation marks Queues
    const blocked = isBlocked(subscription, waiting.messages)
      ? (await get(`${here}/backlog`, { max: BLOCKED, leased: false, body_bytes: 100 }, signal)).messages
      : [];
    return {
      subscription,
      leases,
      waiting,
      blocked,
      consumers,
      topic,
    };
  }

  componentDidUpdate(before) {
    if (before.query.leases !== this.props.query.leases) this.reload();
  }

  open(dialog) {
    refine({ do: dialog ?? "" });
  }

  show({ subscription, leases, waiting, blocked, consumers, topic }) {
    const { samples } = this;
    const times = samples?.times ?? [];
    const line = (label, colour, field) => ({ label, colour, values: samples?.values(field) ?? [] });
    const traffic = [
      line("delivered", "c2", "delivered"),
      line("acked", "c3", "acked"),
      line("returned", "c4", "returned"),
    ];
    const backlog = [line("backlog", "c1", "backlog_messages"), line("in flight", "c2", "in_flight_messages")];
    const now = live.timeOf(subscription);
    return html`<section aria-label=${`Subscription ${subscription.id}`}>
      <div class="bar">
        <h1><span class="kind">${topic ? "Queue" : "Subscription"}</span> ${subscription.id}</h1>
        ${
          !subscription.detached &&
          html`<a class="button" href=${format(["topics", subscription.topic, "messages"])}>Messages</a>`
        }
        ${live.canChange && this.buttons(subscription, topic)}
      </div>
      ${topicLine(subscription)}
      ${tiles(subscription)}
      <div class="charts">
        <${Chart} title="Messages" unit="rate" seconds=${900} times=${times} lines=${traffic} />
        <${Chart} title="Backlog" unit="count" seconds=${900} times=${times} lines=${backlog} />
      </div>
      <div class="panel"><h2>Consumers</h2>${
        consumers.cursor
          ? html`<${Cursor} cursor=${consumers.cursor} />`
          : html`<${Consumers} found=${consumers} now=${now} />`
      }</div>
      <div class="pair">
        <div class="panel"><h2>Leases</h2>
          <${Leases} leases=${leases} topic=${subscription.topic} now=${now} page=${this.props.query.leases}
            onPage=${(page) => refine({ leases: page }, { step: true })} /></div>
        <div class="panel"><h2>Next messages</h2>
          <${Waiting} subscription=${subscription} ready=${waiting.messages} blocked=${blocked} now=${now} /></div>
      </div>
      <div class="pair">
        ${topic && html`<div class="panel"><h2>Client names</h2><${ClientNames} names=${topic.names} /></div>`}
        <div class="panel"><h2>Options</h2><${Facts} rows=${optionRows(subscription)} /></div>
      </div>
      ${this.dialog(subscription, topic)}
    </section>`;
  }

  buttons({ detached }, topic) {
    const button = (dialog, label, kind = "") =>
      html`<button type="button" class=${kind} onClick=${() => this.open(dialog)}>${label}</button>`;
    return html`
      ${topic && button("publish", "Publish", "primary")}
      ${
        !detached &&
        html`${button("seek", "Seek")}${button("redrive", "Move messages")}${button("snapshot", "Snapshot")}
          ${button("change", "Change")}${button("purge", "Purge", "danger")}`
      }
      ${button("delete", "Delete", "danger")}`;
  }

  dialog(subscription, topic) {
    const here = path("subscriptions", subscription.name);
    const close = () => {
      this.open(null);
      this.reload();
    };
    this.queue = topic ?? this.queue; // keeps an open publish dialog if the topic was just deleted
    const { id, name, detached } = subscription;
    const { do: dialog } = this.props.query;
    const isOffered = live.canChange && (!detached || ["delete", "publish", "seek"].includes(dialog));
    switch (isOffered ? dialog : "") {
      case "seek":
        return html`<${Seek} subscription=${subscription} onClose=${close} />`;
      case "redrive":
        return html`<${Redrive} title=${`Move messages of ${id}`} from=${name} backlog=${backlogOf(subscription)}
          onClose=${close} />`;
      case "publish":
        return this.queue && html`<${Publish} topic=${this.queue} onClose=${close} />`;
      case "snapshot":
        return html`<${CreateSnapshot} subscription=${name} onClose=${close} />`;
      case "change":
        return html`<${ChangeSubscription} subscription=${subscription} onClose=${close} />`;
      case "purge":
        return html`<${Dialog} title=${`Purge this ${topic ? "queue" : "subscription"}`} danger submit="Purge"
          typed=${id} onClose=${close} run=${async () => purged(await post(`${here}/purge`))}>
          <p>${backlogOf(subscription)} Purging acks all of them. It cannot be undone.</p><//>`;
      case "delete":
        return html`<${Dialog} title=${`Delete this ${topic ? "queue" : "subscription"}`} danger submit="Delete"
          typed=${id} onClose=${(done) => (done ? goInstead([topic ? "queues" : "subscriptions"]) : close())}
          run=${async ({ whole }) => void (await remove(whole === "on" ? path("queues", subscription.topic) : here))}>
          <p>${backlogOf(subscription)} They will not be delivered.${topic ? "" : " The topic stays."}</p>
          ${
            topic &&
            html`<${Check} label=${deleteTopicLabel(topic)} name="whole" checked=${topic.subscriptions === 1} />`
          }<//>`;
      default:
        return null;
    }
  }
}

function topicLine({ topic, detached, options }) {
  const dead = options.dead_letter_policy?.dead_letter_topic;
  const link = (name) => html`<a href=${format(["topics", name])}>${lastPart(name)}</a>`;
  const deadLetters = dead && html` Dead letter topic: ${link(dead)}.`;
  if (!detached) return html`<p>Topic: ${link(topic)}.${deadLetters}</p>`;
  return html`<p>The topic <code>${lastPart(topic)}</code> was deleted. No messages are delivered.${deadLetters}</p>`;
}

function tiles(subscription) {
  const { backlog_bytes, backlog_messages, in_flight_bytes, in_flight_messages, dead_lettered } = subscription;
  const inFlight = `${count(in_flight_messages)} in flight`;
  const traffic = (label, messagesPerSecond, total) =>
    html`<${Tile} label=${label} value=${rate(messagesPerSecond)} hint=${`${count(total)} since start`} />`;
  return html`<div class="tiles">
    <${Tile} label="Backlog" value=${count(backlog_messages)} hint=${`${bytes(backlog_bytes)}, ${inFlight}`} />
    <${Tile} label="In flight" value=${count(in_flight_messages)} hint=${bytes(in_flight_bytes)} />
    <${Tile} label="Oldest unacked" value=${duration(subscription.oldest_age_seconds)} />
    ${traffic("Delivered", subscription.deliver_rate, subscription.delivered)}
    ${traffic("Acked", subscription.ack_rate, subscription.acked)}
    ${traffic("Returned", subscription.return_rate, subscription.returned)}
    <${Tile} label="Dead letters" value=${count(dead_lettered)} hint="since start" alert=${dead_lettered > 0} />
  </div>`;
}

function deleteTopicLabel({ messages, subscriptions }) {
  const others = subscriptions > 1 ? `, which has ${plural(subscriptions - 1, "other subscription")}` : "";
  return `Also delete the topic with ${plural(messages, "message")}${others}`;
}

function optionRows(subscription) {
  const { name, created_at, last_used_at, kind, options } = subscription;
  const yes = (value) => (value ? "yes" : "no");
  const { retry_policy: retry, dead_letter_policy: dead, flow_control: flow } = options;
  const limits = [flow?.max_messages && plural(flow.max_messages, "message"), flow?.max_bytes && bytes(flow.max_bytes)];
  const retention = options.message_retention_duration;
  return [
    ["Full name", html`<code>${name}</code> <${Copy} text=${name} />`],
    ["Kind", kind],
    ["Created", clock(created_at)],
    ["Last used", last_used_at && ago(last_used_at, live.timeOf(subscription))],
    ["Ack deadline", duration(options.ack_deadline_seconds)],
    ["Filter", options.filter && html`<code>${options.filter}</code>`],
    ["Message ordering", yes(options.enable_message_ordering)],
    ["Exactly-once delivery", yes(options.enable_exactly_once_delivery)],
    ["Retention", retention ? duration(retention) : "no limit"],
    ["Retain acked messages", yes(options.retain_acked_messages)],
    ["Retry backoff", retry && `${duration(retry.minimum_backoff)} to ${duration(retry.maximum_backoff)}`],
    ["Dead letters", dead && `after ${plural(dead.max_delivery_attempts, "attempt")}, to ${dead.dead_letter_topic}`],
    ["Flow control", limits.filter(Boolean).join(", ")],
    ["Expiration", options.expiration_policy && duration(options.expiration_policy.ttl)],
    ["Labels", Object.keys(options.labels ?? {}).length ? html`<${Labels} labels=${options.labels} />` : ""],
  ];
}
