// Publishing from the page, with templates that the browser keeps, and as often as asked.

import { path, post } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { Component, html } from "../lib/view.js";
import { Area, Choice, Dialog, Field } from "../parts/dialog.js";

const KEY = "penstock-templates";
const BATCH = 100;
const MOST = 100_000;

export function templates() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
}

function keep(template) {
  const others = templates().filter((each) => each.name !== template.name);
  localStorage.setItem(KEY, JSON.stringify([template, ...others].slice(0, 50)));
}

/** {n} is the number of the message, {now} the instant, {uuid} a random one. */
export function fill(text, number, now, uuid) {
  return text.replace(/\{(n|now|uuid)\}/g, (_, word) => ({ n: String(number), now, uuid })[word]);
}

export function readAttributes(text) {
  const attributes = Object.create(null);
  for (const line of text.split("\n")) {
    const at = line.indexOf("=");
    if (at > 0) attributes[line.slice(0, at).trim()] = line.slice(at + 1).trim();
    else if (line.trim()) throw new Error(`An attribute is name=value, not: ${line.trim()}`);
  }
  return attributes;
}

export class Publish extends Component {
  state = { template: { data: "", attributes: "", key: "" }, saved: "" };

  async run(values) {
    const times = Math.min(Math.max(1, Number(values.times) || 1), MOST);
    const attributes = readAttributes(values.attributes);
    let first = null;
    for (let sent = 0; sent < times; sent += BATCH) {
      const messages = [];
      for (let n = sent; n < Math.min(sent + BATCH, times); n += 1) {
        const now = new Date().toISOString();
        messages.push({ data: fill(values.data, n + 1, now, crypto.randomUUID()), attributes: { ...attributes }, ordering_key: values.key });
      }
      const answer = await post(`${path("topics", this.props.topic.name)}/messages`, { messages });
      first ??= answer.first_offset;
    }
    return `${plural(times, "message")} published, from offset ${first} on.`;
  }

  save(dialog) {
    const values = Object.fromEntries(new FormData(dialog.form.current));
    const name = prompt("Keep this message as a template called:", values.key || "template");
    if (name) keep({ name, data: values.data, attributes: values.attributes, key: values.key });
    this.setState({ saved: name ?? "" });
  }

  render({ topic, onClose }, { template }) {
    const known = templates();
    return html`<${Dialog} title=${`Publish to ${topic.id}`} submit="Publish" run=${(values) => this.run(values)} onClose=${onClose}
      extra=${(dialog) => html`<button type="button" onClick=${() => this.save(dialog)}>Keep as template</button>`}>
      ${known.length > 0 && html`<${Choice} label="Template" onChange=${(event) => this.setState({ template: known[event.target.value] ?? template })}>
        <option value="">none</option>${known.map((each, at) => html`<option value=${at}>${each.name}</option>`)}<//>`}
      <div key=${template.name}><${Area} label="Body" name="data" rows="6" value=${template.data} hint="{n} is the number of the message, {now} the time, {uuid} a random id" />
      <${Area} label="Attributes" name="attributes" rows="2" value=${template.attributes} hint="name=value, one a line" />
      <div class="columns">
        <${Field} label="Ordering key" name="key" value=${template.key} />
        <${Field} label="How many" name="times" type="number" min="1" max=${MOST} value="1" />
      </div></div>
    <//>`;
  }
}
