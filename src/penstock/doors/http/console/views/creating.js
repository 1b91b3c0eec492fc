// Dialogs that create and change topics, queues and subscriptions. The fields for options, with their labels, hints and
// defaults, come from the OpenAPI document of the server, and the server checks the values.

import { get, patch, path, post } from "../lib/api.js";
import { readLabels, writeLabels } from "../lib/format.js";
import { readInstant, readOffset } from "../lib/route.js";
import { Component, html } from "../lib/view.js";
import { Check, Dialog, Field } from "../parts/dialog.js";

const UNITS = { duration: "seconds", bytes: "bytes", count: "" }; // of the kinds that are numbers
const LABELS_HINT = "name=value, name=value";

/** Return the project of a full name, or else `project`, which is the project of the page. */
export function projectOf(name, project) {
  return /^projects\/([^/]+)\//.exec(name ?? "")?.[1] ?? project;
}

const nameAndProject = (name, project) => ({ name, project: projectOf(name, project) });

let openapi; // a promise of the document, which is requested once

async function loadFields(body) {
  openapi ??= get("/openapi.json").catch((error) => {
    openapi = undefined;
    throw error;
  });
  const { properties } = (await openapi).components.schemas[body];
  return fieldsOf(properties.options?.properties ?? properties);
}

/** A part of an option has a dot in its name. */
function fieldsOf(properties, prefix = "") {
  return Object.entries(properties).flatMap(([name, schema]) => {
    if (schema.properties) return fieldsOf(schema.properties, `${name}.`);
    return schema["x-kind"] && !schema.readOnly ? [fieldOf(prefix + name, schema)] : [];
  });
}

function fieldOf(name, { title, description, default: initial, "x-kind": kind }) {
  const unit = UNITS[kind];
  const label = unit && !title.toLowerCase().includes(unit) ? `${title} (${unit})` : title;
  const [option, part] = name.split(".");
  return { name, option, part, kind, label, hint: kind === "labels" ? LABELS_HINT : description, initial };
}

/** Loads the fields of a request body, and then shows a dialog with them. Properties: body, dialog, and its own. */
class WithFields extends Component {
  state = { fields: null, error: null };

  componentDidMount() {
    loadFields(this.props.body).then(
      (fields) => this.setState({ fields }),
      (error) => this.setState({ error: error.message }),
    );
  }

  render({ dialog, onClose, ...properties }, { fields, error }) {
    if (fields) return html`<${dialog} fields=${fields} onClose=${onClose} ...${properties} />`;
    if (!error) return null;
    return html`<${Dialog} title="Error" submit="Close" run=${async () => {}} onClose=${onClose}>
      <p class="problem" role="alert">${error}</p><//>`;
  }
}

const withFields = (body, dialog) => (properties) =>
  html`<${WithFields} body=${body} dialog=${dialog} ...${properties} />`;

export const CreateTopic = withFields("NewTopic", ({ fields, project, onClose }) => {
  const run = async (values) => {
    await post("/topics", { ...nameAndProject(values.name, project), ...readOptions(fields, values) });
  };
  const hint = `A short name${project ? ` in ${project}` : ""}, or projects/PROJECT/topics/NAME`;
  return html`<${Dialog} title="New topic" submit="Create" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus hint=${hint} />
    <${OptionFields} fields=${fields} options=${defaults(fields)} />
  <//>`;
});

export function CreateQueue({ project, onClose }) {
  const run = async (values) => void (await post("/queues", nameAndProject(values.name, project)));
  return html`<${Dialog} title="New queue" submit="Create" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus hint="Name of the topic and of its one subscription" />
  <//>`;
}

export const CreateSubscription = withFields("NewSubscription", ({ fields, topic, project, onClose }) => {
  const run = async (values) => {
    const typed = values.start.trim();
    await post("/subscriptions", {
      ...nameAndProject(values.name, projectOf(topic ?? values.topic, project)),
      topic: topic ?? values.topic,
      start: readOffset(typed) ?? readInstant(typed) ?? (typed || "end"),
      options: readOptions(fields, values),
    });
  };
  return html`<${Dialog} title="New subscription" submit="Create" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus />
    ${
      topic
        ? html`<p class="quiet">Topic: <code>${topic}</code></p>`
        : html`<${Field} label="Topic" name="topic" required />`
    }
    <${Field} label="Start at" name="start" placeholder="end"
      hint="end, beginning, an offset, or a time such as 2026-11-15 10:00" />
    <${OptionFields} fields=${fields} options=${defaults(fields)} />
  <//>`;
});

const changeDialog = ({ fields, record, options, save, onClose }) => {
  const run = async (values) => {
    const changed = changedOptions(fields, options, values);
    if (!Object.keys(changed).length) return "No changes.";
    await save(changed);
  };
  return html`<${Dialog} title=${`Change ${record.id}`} submit="Change" run=${run} onClose=${onClose}>
    <${OptionFields} fields=${fields} options=${options} />
  <//>`;
};

export const ChangeSubscription = withFields("NewSubscription", ({ fields, subscription, onClose }) => {
  const save = (options) => patch(path("subscriptions", subscription.name), { options });
  return changeDialog({ fields, record: subscription, options: subscription.options, save, onClose });
});

export const ChangeTopic = withFields("NewTopic", ({ fields, topic, onClose }) => {
  const save = (options) => patch(path("topics", topic.name), options);
  return changeDialog({ fields, record: topic, options: topic, save, onClose });
});

const defaults = (fields) =>
  Object.fromEntries(fields.filter(({ part }) => !part).map(({ option, initial }) => [option, initial]));

function fieldValue(options, { option, part, kind }) {
  const value = part ? options[option]?.[part] : options[option];
  return kind === "labels" ? writeLabels(value) : String(value ?? "");
}

function OptionFields({ fields, options }) {
  const input = (field) => {
    const isNumber = field.kind in UNITS;
    return html`<${Field} label=${field.label} name=${field.name} hint=${field.hint} value=${fieldValue(options, field)}
      type=${isNumber ? "number" : "text"} min=${isNumber ? 0 : undefined} step=${isNumber ? "any" : undefined}
      required=${isNumber && !field.part} />`;
  };
  const check = ({ option, label }) => html`<${Check} label=${label} name=${option} checked=${options[option]} />`;
  return html`<div class="columns">
    ${fields.filter(({ kind }) => kind !== "switch").map(input)}
    ${fields.filter(({ kind }) => kind === "switch").map(check)}
  </div>`;
}

export function readOptions(fields, values) {
  const options = {};
  for (const { name, option, part, kind } of fields) {
    const text = (values[name] ?? "").trim();
    if (!text) continue;
    const value =
      kind === "labels" ? readLabels(text) : kind in UNITS ? Number(text) : kind === "switch" ? text === "on" : text;
    if (part) options[option] = { ...options[option], [part]: value };
    else options[option] = value;
  }
  return options;
}

/** Return the value that removes an option. An option that is left out of a change stays as it is. */
function cleared(fields, option) {
  const parts = fields.filter((field) => field.option === option);
  const empty = ({ kind }) => (kind === "labels" ? {} : kind === "duration" ? 0 : "");
  if (!parts[0].part) return empty(parts[0]);
  return Object.fromEntries(parts.filter(({ kind }) => kind !== "count").map((field) => [field.part, empty(field)]));
}

/** Return the options that differ from `before`. An emptied field removes its option. */
export function changedOptions(fields, before, values) {
  const now = readOptions(fields, values);
  const options = {};
  const changed = fields.filter(
    (field) => field.kind !== "switch" && fieldValue(before, field) !== (values[field.name] ?? "").trim(),
  );
  if (now.dead_letter_policy && !now.dead_letter_policy.dead_letter_topic) {
    const attempts = changed.find(({ name }) => name === "dead_letter_policy.max_delivery_attempts");
    if (attempts) throw new Error(`${attempts.label} needs a dead letter topic.`);
    delete now.dead_letter_policy; // a policy without a topic does not exist
  }
  for (const { option, part, label } of changed) {
    if (option === "flow_control" && !now.flow_control?.[part])
      throw new Error(`${label} cannot be removed. Enter another value.`);
    options[option] = now[option] ?? cleared(fields, option);
    if (part && now[option]) options[option][part] ??= null; // back to the default: a part left out would stay
  }
  for (const { option, kind } of fields)
    if (kind === "switch" && Boolean(before[option]) !== (values[option] === "on"))
      options[option] = values[option] === "on";
  return options;
}
