// Making and changing things, in dialogs. What is wrong is said by the server, in its own sentences.

import { patch, path, post } from "../lib/api.js";
import { html } from "../lib/view.js";
import { Check, Dialog, Field } from "../parts/dialog.js";

/** "a=1, b=2" -> {a: "1", b: "2"} */
export function readLabels(text) {
  const pairs = text.split(",").map((each) => each.trim()).filter(Boolean);
  return Object.fromEntries(pairs.map((pair) => [pair.split("=")[0].trim(), pair.split("=").slice(1).join("=").trim()]));
}

export function writeLabels(labels) {
  return Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`).join(", ");
}

const number = (text) => (text === "" || text === undefined ? undefined : Number(text));

export function CreateTopic({ onClose }) {
  const run = async (values) => {
    await post("/topics", {
      name: values.name,
      retention_seconds: number(values.retention) ?? 0,
      labels: readLabels(values.labels),
    });
  };
  return html`<${Dialog} title="New topic" submit="Make it" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus hint="A short name, or projects/PROJECT/topics/NAME" />
    <${Field} label="Keep acked messages for (seconds)" name="retention" type="number" min="0" hint="Empty: as the server does" />
    <${Field} label="Labels" name="labels" hint="name=value, name=value" />
  <//>`;
}

export function CreateQueue({ onClose }) {
  return html`<${Dialog} title="New queue" submit="Make it" run=${async (values) => void (await post("/queues", values))} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus hint="A topic and its one subscription, both of this name" />
  <//>`;
}

export function CreateSubscription({ topic, onClose }) {
  const run = async (values) => {
    const start = /^\d+$/.test(values.start) ? Number(values.start) : values.start || "end";
    await post("/subscriptions", { name: values.name, topic: topic ?? values.topic, start, options: readOptions(values) });
  };
  return html`<${Dialog} title="New subscription" submit="Make it" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus />
    ${topic ? html`<p class="quiet">Reads <code>${topic}</code></p>` : html`<${Field} label="Topic" name="topic" required />`}
    <${Field} label="Begins at" name="start" placeholder="end" hint="end, beginning, an offset, or an instant such as 2026-11-15T10:00:00Z" />
    <${OptionFields} options=${{ ack_deadline_seconds: 10 }} />
  <//>`;
}

export function ChangeSubscription({ subscription, onClose }) {
  const run = async (values) => void (await patch(path("subscriptions", subscription.name), { options: readOptions(values) }));
  return html`<${Dialog} title=${`Change ${subscription.id}`} submit="Change" run=${run} onClose=${onClose}>
    <${OptionFields} options=${subscription.options} />
  <//>`;
}

export function ChangeTopic({ topic, onClose }) {
  const run = async (values) => {
    await patch(path("topics", topic.name), { retention_seconds: number(values.retention) ?? 0, labels: readLabels(values.labels) });
  };
  return html`<${Dialog} title=${`Change ${topic.id}`} submit="Change" run=${run} onClose=${onClose}>
    <${Field} label="Keep acked messages for (seconds)" name="retention" type="number" min="0" value=${topic.retention_seconds} />
    <${Field} label="Labels" name="labels" value=${writeLabels(topic.labels)} hint="name=value, name=value" />
  <//>`;
}

function OptionFields({ options }) {
  const retry = options.retry_policy ?? {};
  const dead = options.dead_letter_policy ?? {};
  return html`<div class="columns">
    <${Field} label="Ack deadline (seconds)" name="ack_deadline_seconds" type="number" min="1" max="600" value=${options.ack_deadline_seconds} />
    <${Field} label="Keep unacked for (seconds)" name="message_retention_duration" type="number" min="0" value=${options.message_retention_duration} />
    <${Field} label="Filter" name="filter" value=${options.filter} hint='attributes.kind = "order"' />
    <${Field} label="Dead letter topic" name="dead_letter_topic" value=${dead.dead_letter_topic} />
    <${Field} label="Attempts before that" name="max_delivery_attempts" type="number" min="1" max="100" value=${dead.max_delivery_attempts} />
    <${Field} label="Least backoff (seconds)" name="minimum_backoff" type="number" min="0" step="any" value=${retry.minimum_backoff} />
    <${Field} label="Most backoff (seconds)" name="maximum_backoff" type="number" min="0" step="any" value=${retry.maximum_backoff} />
    <${Field} label="Labels" name="labels" value=${writeLabels(options.labels)} hint="name=value, name=value" />
    <${Check} label="In the order of their keys" name="enable_message_ordering" checked=${options.enable_message_ordering} />
    <${Check} label="Exactly once" name="enable_exactly_once_delivery" checked=${options.enable_exactly_once_delivery} />
    <${Check} label="Keep acked messages too" name="retain_acked_messages" checked=${options.retain_acked_messages} />
  </div>`;
}

/** What was filled in, by the names the API has; what was left empty is not sent. */
export function readOptions(values) {
  const options = {
    ack_deadline_seconds: number(values.ack_deadline_seconds),
    message_retention_duration: number(values.message_retention_duration),
    filter: values.filter ?? "",
    labels: readLabels(values.labels ?? ""),
    enable_message_ordering: values.enable_message_ordering === "on",
    enable_exactly_once_delivery: values.enable_exactly_once_delivery === "on",
    retain_acked_messages: values.retain_acked_messages === "on",
  };
  if (values.minimum_backoff || values.maximum_backoff) {
    options.retry_policy = { minimum_backoff: number(values.minimum_backoff), maximum_backoff: number(values.maximum_backoff) };
  }
  if (values.dead_letter_topic) {
    options.dead_letter_policy = {
      dead_letter_topic: values.dead_letter_topic,
      max_delivery_attempts: number(values.max_delivery_attempts),
    };
  }
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
