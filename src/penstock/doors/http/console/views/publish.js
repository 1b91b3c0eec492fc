// The dialog that publishes messages, once or many times, with templates that the browser stores.

import { path, post } from "../lib/api.js";
import { base64, bodyOf, count, plural, quoted, readAttributes, unquoted, writeAttributes } from "../lib/format.js";
import { Component, html } from "../lib/view.js";
import { Area, Check, Choice, Dialog, Field } from "../parts/dialog.js";

const KEY = "penstock-templates";
const BATCH = 100;
const BATCH_BYTES = 4 << 20;
const MOST = 1_000_000;
const STORED_MOST = 50;
const LONGEST_WAIT = 1e9; // milliseconds; a browser does not wait at all for more than 2^31
const EMPTY = {
  name: "",
  data: "",
  attributes: "",
  key: "",
  base64: false,
  fill: true,
  why: "",
  delay: "",
  ttl: "",
  times: "1",
  rate: "",
};

export function templates() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return stored.filter((template) => template?.name && typeof template.name === "string").map(validTemplate);
  } catch {
    return [];
  }
}

function validTemplate(stored) {
  const value = (name, initial) => (typeof stored[name] === typeof initial ? stored[name] : initial);
  return Object.fromEntries(Object.entries(EMPTY).map(([name, initial]) => [name, value(name, initial)]));
}

function storeTemplates(all) {
  try {
    localStorage.setItem(KEY, JSON.stringify(all.slice(0, STORED_MOST)));
  } catch {
    throw new Error("The template was not saved: the browser's storage is full.");
  }
}

/** Replace {n} by the number of the message, {now} by the time, and {uuid} by a random id. */
export function fill(text, number, now, id) {
  return text.replace(/\{(n|now|uuid)\}/g, (_, word) => ({ n: String(number), now, uuid: id })[word]);
}

export function templateOf(message) {
  const isText = message.data !== undefined && survivesForm(message.data);
  return {
    data: isText ? message.data : base64(bodyOf(message)),
    base64: !isText,
    why:
      !isText && message.data !== undefined
        ? "Shown as Base64, because a form would change the line endings of this body"
        : "",
    fill: false,
    attributes: writeAttributes(message.attributes),
    key: quoted(message.ordering_key),
  };
}

/** Return whether a text area keeps a text unchanged. It does not keep carriage returns. */
function survivesForm(text) {
  return Object.assign(document.createElement("textarea"), { value: text }).value === text;
}

/** Return a random UUID. crypto.randomUUID needs a secure origin, and plain HTTP to another machine is not one. */
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

export class Publish extends Component {
  state = { template: { ...EMPTY, ...this.props.template }, stored: templates(), sent: null, version: 0 };

  componentWillUnmount() {
    this.stopped = true;
  }

  message(values, attributes, number) {
    const data = values.fill === "on" ? fill(values.data, number, new Date().toISOString(), uuid()) : values.data;
    const body = values.base64 === "on" ? { data_base64: data.replace(/\s+/g, "") } : { data };
    const message = { ...body, attributes: { ...attributes }, ordering_key: unquoted(values.key) };
    if (values.delay) message.delay_seconds = Number(values.delay);
    if (values.ttl) message.ttl_seconds = Number(values.ttl);
    return message;
  }

  async run(values) {
    const times = Math.min(Math.max(1, Number(values.times) || 1), MOST);
    const perSecond = Number(values.rate) || 0;
    const attributes = readAttributes(values.attributes);
    const batch = Math.min(BATCH, perSecond ? Math.ceil(perSecond / 10) : BATCH);
    const begun = performance.now();
    let first = null;
    let sent = 0;
    this.stopped = false;
    this.setState({ sent: times > batch ? 0 : null });
    while (sent < times && !this.stopped) {
      const messages = [];
      for (let room = BATCH_BYTES; messages.length < Math.min(batch, times - sent);) {
        const next = this.message(values, attributes, sent + messages.length + 1);
        room -= new Blob([JSON.stringify(next)]).size; // as it is sent, with placeholders and escapes
        if (room < 0 && messages.length) break;
        messages.push(next);
      }
      try {
        const answer = await post(`${path("topics", this.props.topic.name)}/messages`, { messages });
        first ??= answer.first_offset;
      } catch (error) {
        throw sent ? new Error(`${plural(sent, "message")} published, then an error: ${error.message}`) : error;
      }
      sent += messages.length;
      if (sent < times) this.setState({ sent });
      if (perSecond && sent < times) await this.wait(begun + (sent / perSecond) * 1000 - performance.now());
    }
    this.setState({ sent: null });
    return `${plural(sent, "message")} published, starting at offset ${count(first)}.`;
  }

  async wait(milliseconds) {
    const until = performance.now() + milliseconds;
    for (let left = milliseconds; left > 0 && !this.stopped; left = until - performance.now()) {
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, Math.min(left, LONGEST_WAIT));
      });
    }
  }

  stop() {
    this.stopped = true;
    this.wake?.();
  }

  save(dialog) {
    return dialog.attempt(async (values) => {
      const name = values.template.trim();
      if (!name) throw new Error("Enter a name for the template.");
      const { data, attributes, key, delay, ttl, times, rate } = values;
      const checks = { base64: values.base64 === "on", fill: values.fill === "on" };
      const others = templates().filter((template) => template.name !== name);
      storeTemplates([{ name, data, attributes, key, delay, ttl, times, rate, ...checks }, ...others]);
      this.edited = false;
      this.setState({ stored: templates(), saved: name });
    });
  }

  /** Fill the form with the chosen template, if the user agrees to lose what was typed. "None" keeps the form. */
  choose(select) {
    const { stored, template } = this.state;
    const chosen = stored[select.value];
    if (!chosen) this.setState({ template: { ...template, name: "" }, saved: "" });
    else if (!this.edited || confirm("Replace what you typed with the template?")) this.fillWith(chosen);
    else select.selectedIndex = 1 + stored.findIndex(({ name }) => name === template.name);
  }

  fillWith(template) {
    this.edited = false;
    this.setState({ stored: templates(), template, version: this.state.version + 1, saved: "" });
  }

  deleteTemplate() {
    const { template } = this.state;
    storeTemplates(templates().filter(({ name }) => name !== template.name));
    this.setState({ stored: templates(), template: { ...template, name: "" }, saved: "" });
  }

  templateBar({ template, stored }) {
    const isStored = stored.some(({ name }) => name === template.name);
    return html`<div class="bar"><${Choice} label="Template" onChange=${(event) => this.choose(event.target)}>
        <option value="" selected=${!isStored}>None</option>
        ${stored.map(
          ({ name }, index) => html`<option value=${index} selected=${name === template.name}>${name}</option>`,
        )}<//>
      ${isStored && html`<button type="button" onClick=${() => this.deleteTemplate()}>Delete template</button>`}</div>`;
  }

  render({ topic, onClose }, { template, stored, sent, saved, version }) {
    const lines = template.attributes.split("\n").length;
    const extra = (dialog) =>
      dialog.state.busy && sent !== null
        ? html`<button type="button" onClick=${() => this.stop()}>Stop</button>`
        : html`<button type="button" disabled=${dialog.state.busy} onClick=${() => this.save(dialog)}
            >Save as template</button>`;
    return html`<${Dialog} title=${`Publish to ${topic.id}`} submit="Publish" extra=${extra} onClose=${onClose}
      run=${(values) => this.run(values)}>
      ${stored.length > 0 && this.templateBar(this.state)}
      <div key=${version} onInput=${() => (this.edited = true)}>
      <${Area} label="Body" name="data" rows="6" value=${template.data}
        hint=${template.why || "{n} is the number of the message, {now} the time, {uuid} a random ID"} />
      <div class="checks"><${Check} label="Body is Base64" name="base64" checked=${template.base64} />
        <${Check} label="Replace {n}, {now} and {uuid}" name="fill" checked=${template.fill} /></div>
      <${Area} label="Attributes" name="attributes" rows=${Math.min(8, Math.max(2, lines))}
        value=${template.attributes} hint='One name=value per line. Text in "double quotes" is read as JSON' />
      <div class="columns">
        <${Field} label="Ordering key" name="key" value=${template.key} />
        <${Field} label="Delay (seconds)" name="delay" type="number" min="0" step="any" value=${template.delay} />
        <${Field} label="Expires after (seconds)" name="ttl" type="number" min="0" step="any" value=${template.ttl}
          hint="Empty or 0: never" />
        <${Field} label="Template name" name="template" value=${template.name}
          hint=${saved ? `Saved as ${saved}` : "To save this form in the browser"} />
        <${Field} label="Number of messages" name="times" type="number" min="1" max=${MOST} value=${template.times} />
        <${Field} label="Max messages per second" name="rate" type="number" min="0" step="any"
          value=${template.rate} hint="Empty: no limit" />
      </div></div>
      ${sent !== null && html`<p class="plan" role="status">${plural(sent, "message")} published so far.</p>`}
    <//>`;
  }
}
