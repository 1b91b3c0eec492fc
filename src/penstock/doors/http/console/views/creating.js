// Making and changing things, in dialogs. What is wrong is said by the server, in its own sentences.

import { patch, path, post } from "../lib/api.js";
import { readLabels, writeLabels } from "../lib/format.js";
import { readInstant, readOffset } from "../lib/route.js";
import { html } from "../lib/view.js";
import { Check, Dialog, Field } from "../parts/dialog.js";

const number = (text) => (text === "" || text === undefined ? undefined : Number(text));

/** The project of what is made: that of its full name, else the one that the page is about. */
export function projectOf(name, project) {
  return /^projects\/([^/]+)\//.exec(name ?? "")?.[1] ?? project;
}

const placed = (name, project) => ({ name, project: projectOf(name, project) });

export function CreateTopic({ project, onClose }) {
  const run = async (values) => {
    await post("/topics", {
      ...placed(values.name, project),
      retention_seconds: number(values.retention) ?? 0,
      retention_bytes: number(values.bytes) ?? 0,
      labels: readLabels(values.labels),
    });
  };
  return html`<${Dialog} title="New topic" submit="Make it" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus hint=${`A short name${project ? ` in ${project}` : ""}, or projects/PROJECT/topics/NAME`} />
    <${Field} label="Keep acked messages for (seconds)" name="retention" type="number" min="0" hint="Empty: as the server does" />
    <${Field} label="And at most (bytes)" name="bytes" type="number" min="0" hint="Empty: as the server does" />
    <${Field} label="Labels" name="labels" hint="name=value, name=value" />
  <//>`;
}

export function CreateQueue({ project, onClose }) {
  return html`<${Dialog} title="New queue" submit="Make it" run=${async (values) => void (await post("/queues", placed(values.name, project)))} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus hint="A topic and its one subscription, both of this name" />
  <//>`;
}

export function CreateSubscription({ topic, project, onClose }) {
  const run = async (values) => {
    const given = values.start.trim();
    const start = readOffset(given) ?? readInstant(given) ?? (given || "end");
    await post("/subscriptions", { ...placed(values.name, projectOf(topic ?? values.topic, project)), topic: topic ?? values.topic, start, options: readOptions(values) });
  };
  return html`<${Dialog} title="New subscription" submit="Make it" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus />
    ${topic ? html`<p class="quiet">Reads <code>${topic}</code></p>` : html`<${Field} label="Topic" name="topic" required />`}
    <${Field} label="Begins at" name="start" placeholder="end" hint="end, beginning, an offset, or an instant such as 2026-11-15 10:00" />
    <${OptionFields} options=${USUAL} />
  <//>`;
}

export function ChangeSubscription({ subscription, onClose }) {
  const run = async (values) => {
    const options = changedOptions(subscription.options, values);
    if (!Object.keys(options).length) return "Nothing was changed.";
    await patch(path("subscriptions", subscription.name), { options });
  };
  return html`<${Dialog} title=${`Change ${subscription.id}`} submit="Change" run=${run} onClose=${onClose}>
    <${OptionFields} options=${subscription.options} />
  <//>`;
}

export function ChangeTopic({ topic, onClose }) {
  const run = async (values) => {
    const labels = values.labels === writeLabels(topic.labels) ? undefined : readLabels(values.labels);
    await patch(path("topics", topic.name), { retention_seconds: number(values.retention) ?? 0, retention_bytes: number(values.bytes) ?? 0, labels });
  };
  return html`<${Dialog} title=${`Change ${topic.id}`} submit="Change" run=${run} onClose=${onClose}>
    <${Field} label="Keep acked messages for (seconds)" name="retention" type="number" min="0" value=${topic.retention_seconds} hint="0: as the server does" />
    <${Field} label="And at most (bytes)" name="bytes" type="number" min="0" value=${topic.retention_bytes} hint="0: as the server does" />
    <${Field} label="Labels" name="labels" value=${writeLabels(topic.labels)} hint="name=value, name=value" />
  <//>`;
}

/** The fields of the form, each with the option it stands for; a part of an option has a dot in its name. */
const FIELDS = [
  ["ack_deadline_seconds", "Ack deadline (seconds)", { type: "number", step: "any" }],
  ["message_retention_duration", "Keep unacked for (seconds)", { type: "number", min: "0", step: "any", required: true, hint: "0: without limit" }],
  ["filter", "Filter", { hint: 'attributes.kind = "order"' }],
  ["dead_letter_policy.dead_letter_topic", "Dead letter topic", {}],
  ["dead_letter_policy.max_delivery_attempts", "Attempts before that", { type: "number" }],
  ["retry_policy.minimum_backoff", "Least backoff (seconds)", { type: "number", min: "0", step: "any" }],
  ["retry_policy.maximum_backoff", "Most backoff (seconds)", { type: "number", min: "0", step: "any" }],
  ["flow_control.max_messages", "At most in flight (messages)", { type: "number" }],
  ["flow_control.max_bytes", "At most in flight (bytes)", { type: "number" }],
  ["expiration_policy.ttl", "Delete when unused for (seconds)", { type: "number", min: "0", step: "any" }],
  ["labels", "Labels", { hint: "name=value, name=value" }],
];
const USUAL = { ack_deadline_seconds: 10, message_retention_duration: 604_800 }; // of a new subscription
const CHECKS = [
  ["enable_message_ordering", "In the order of their keys"],
  ["enable_exactly_once_delivery", "Exactly once"],
  ["retain_acked_messages", "Keep acked messages too"],
];
/** What takes an option away, where leaving it out means: as it was. */
const CLEARED = { dead_letter_policy: { dead_letter_topic: "" }, retry_policy: { minimum_backoff: 0, maximum_backoff: 0 }, expiration_policy: { ttl: 0 } };

function shown(options, name) {
  const [whole, part] = name.split(".");
  const value = part ? options[whole]?.[part] : options[whole];
  return name === "labels" ? writeLabels(value) : String(value ?? "");
}

function OptionFields({ options }) {
  return html`<div class="columns">
    ${FIELDS.map(([name, label, more]) => html`<${Field} label=${label} name=${name} value=${shown(options, name)} ...${more} />`)}
    ${CHECKS.map(([name, label]) => html`<${Check} label=${label} name=${name} checked=${options[name]} />`)}
  </div>`;
}

/** What was filled in, by the names the API has; what was left empty is not sent. */
export function readOptions(values) {
  const options = {};
  for (const [name, , { type }] of FIELDS) {
    const text = (values[name] ?? "").trim();
    if (!text) continue;
    const [whole, part] = name.split(".");
    const value = name === "labels" ? readLabels(text) : type === "number" ? Number(text) : text;
    if (part) options[whole] = { ...options[whole], [part]: value };
    else options[whole] = value;
  }
  for (const [name] of CHECKS) if (values[name] === "on") options[name] = true;
  return options;
}

/** Of what was filled in, what is other than it was; what was emptied is taken away. */
export function changedOptions(before, values) {
  const now = readOptions(values);
  const options = {};
  const changed = FIELDS.map(([name]) => name).filter((name) => shown(before, name) !== (values[name] ?? "").trim());
  if (!now.dead_letter_policy?.dead_letter_topic) {
    if (now.dead_letter_policy && changed.includes("dead_letter_policy.max_delivery_attempts")) throw new Error("Attempts need a dead letter topic.");
    delete now.dead_letter_policy; // without a topic there is none
  }
  for (const name of changed) {
    const [whole, part] = name.split(".");
    if (whole === "flow_control" && !now.flow_control?.[part]) throw new Error("A limit of what is in flight cannot be taken away; give it another.");
    options[whole] = now[whole] ?? CLEARED[whole] ?? (whole === "labels" ? {} : whole === "filter" ? "" : 0);
    if (part && now[whole]) options[whole][part] ??= null; // back to what the server does; left out, it would stay
  }
  for (const [name] of CHECKS) if (Boolean(before[name]) !== (values[name] === "on")) options[name] = values[name] === "on";
  return options;
}
