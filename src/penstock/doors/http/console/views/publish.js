// Publishing from the page, with templates that the browser keeps, as often and as fast as asked.

import { path, post } from "../lib/api.js";
import { base64, bodyOf, count, plural, quoted, readAttributes, unquoted, writeAttributes } from "../lib/format.js";
import { Component, html } from "../lib/view.js";
import { Area, Check, Choice, Dialog, Field } from "../parts/dialog.js";

const KEY = "penstock-templates";
const BATCH = 100;
const BATCH_BYTES = 4 << 20;
const MOST = 1_000_000;
const KEPT = 50;
const LONGEST_WAIT = 1e9; // milliseconds; beyond 2^31 a browser would not wait at all
const EMPTY = { name: "", data: "", attributes: "", key: "", base64: false, fill: true, why: "", delay: "", ttl: "", times: "1", rate: "" };

export function templates() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return kept.filter((each) => each?.name && typeof each.name === "string").map(whole);
  } catch {
    return [];
  }
}

/** Of what the browser kept, what is as a form needs it: anybody can write there. */
function whole(kept) {
  return Object.fromEntries(Object.entries(EMPTY).map(([name, usual]) => [name, typeof kept[name] === typeof usual ? kept[name] : usual]));
}

function keep(all) {
  try {
    localStorage.setItem(KEY, JSON.stringify(all.slice(0, KEPT)));
  } catch {
    throw new Error("The browser has no room for this template.");
  }
}

/** {n} is the number of the message, {now} the instant, {uuid} a random one. */
export function fill(text, number, now, uuid) {
  return text.replace(/\{(n|now|uuid)\}/g, (_, word) => ({ n: String(number), now, uuid })[word]);
}

/** The message as a form that publishes the same again: what a form would change is written so that it does not. */
export function templateOf(message) {
  const isText = message.data !== undefined && isKept(message.data);
  return {
    data: isText ? message.data : base64(bodyOf(message)),
    base64: !isText,
    why: !isText && message.data !== undefined ? "In Base64, since a form changes the line ends that this body has" : "",
    fill: false,
    attributes: writeAttributes(message.attributes),
    key: quoted(message.ordering_key),
  };
}

/** Whether a field of the browser gives back what was put into it: carriage returns it does not. */
function isKept(text) {
  return Object.assign(document.createElement("textarea"), { value: text }).value === text;
}

/** crypto.randomUUID is there on secure origins only, and a server in the next room is not one. */
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** Properties: topic, template: what the form begins with. */
export class Publish extends Component {
  state = { template: { ...EMPTY, ...this.props.template }, known: templates(), sent: null, version: 0 };

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
      for (let room = BATCH_BYTES; messages.length < Math.min(batch, times - sent); ) {
        const next = this.message(values, attributes, sent + messages.length + 1);
        room -= new Blob([JSON.stringify(next)]).size; // as it is sent: filled in, and with its escapes
        if (room < 0 && messages.length) break;
        messages.push(next);
      }
      try {
        const answer = await post(`${path("topics", this.props.topic.name)}/messages`, { messages });
        first ??= answer.first_offset;
      } catch (error) {
        throw sent ? new Error(`${plural(sent, "message")} published, then: ${error.message}`) : error;
      }
      sent += messages.length;
      if (sent < times) this.setState({ sent });
      if (perSecond && sent < times) await this.wait(begun + (sent / perSecond) * 1000 - performance.now());
    }
    this.setState({ sent: null });
    return `${plural(sent, "message")} published, from offset ${count(first)} on.`;
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
      if (!name) throw new Error("Give the template a name.");
      const { data, attributes, key, delay, ttl, times, rate } = values;
      keep([{ name, data, attributes, key, delay, ttl, times, rate, base64: values.base64 === "on", fill: values.fill === "on" }, ...templates().filter((each) => each.name !== name)]);
      this.edited = false;
      this.setState({ known: templates(), saved: name });
    });
  }

  /** None leaves the form as it is; a template takes the place of what was typed, if that may go. */
  choose(select) {
    const { known, template } = this.state;
    const chosen = known[select.value];
    if (!chosen) this.setState({ template: { ...template, name: "" }, saved: "" });
    else if (!this.edited || confirm("The template takes the place of what you typed.")) this.fillWith(chosen);
    else select.selectedIndex = 1 + known.findIndex((each) => each.name === template.name);
  }

  fillWith(template) {
    this.edited = false;
    this.setState({ known: templates(), template, version: this.state.version + 1, saved: "" });
  }

  /** The form stays as it is. */
  forget() {
    const { template } = this.state;
    keep(templates().filter((each) => each.name !== template.name));
    this.setState({ known: templates(), template: { ...template, name: "" }, saved: "" });
  }

  render({ topic, onClose }, { template, known, sent, saved, version }) {
    const chosen = known.some((each) => each.name === template.name);
    return html`<${Dialog} title=${`Publish to ${topic.id}`} submit="Publish" run=${(values) => this.run(values)} onClose=${onClose}
      extra=${(dialog) => (dialog.state.busy && sent !== null
        ? html`<button type="button" onClick=${() => this.stop()}>Stop</button>`
        : html`<button type="button" disabled=${dialog.state.busy} onClick=${() => this.save(dialog)}>Keep as template</button>`)}>
      ${known.length > 0 && html`<div class="bar"><${Choice} label="Template" onChange=${(event) => this.choose(event.target)}>
        <option value="" selected=${!chosen}>none</option>${known.map((each, at) => html`<option value=${at} selected=${each.name === template.name}>${each.name}</option>`)}<//>
        ${chosen && html`<button type="button" onClick=${() => this.forget()}>Forget it</button>`}</div>`}
      <div key=${version} onInput=${() => (this.edited = true)}><${Area} label="Body" name="data" rows="6" value=${template.data} hint=${template.why || "{n} is the number of the message, {now} the time, {uuid} a random id"} />
      <div class="checks"><${Check} label="The body is Base64" name="base64" checked=${template.base64} />
        <${Check} label="Fill in {n}, {now} and {uuid}" name="fill" checked=${template.fill} /></div>
      <${Area} label="Attributes" name="attributes" rows=${Math.min(8, Math.max(2, template.attributes.split("\n").length))} value=${template.attributes} hint='name=value, one a line; in "double quotes" as JSON writes it' />
      <div class="columns">
        <${Field} label="Ordering key" name="key" value=${template.key} />
        <${Field} label="Delay (seconds)" name="delay" type="number" min="0" step="any" value=${template.delay} />
        <${Field} label="Lives for (seconds)" name="ttl" type="number" min="0" step="any" value=${template.ttl} hint="empty or 0: for ever" />
        <${Field} label="Name of the template" name="template" value=${template.name} hint=${saved ? `Kept as ${saved}` : "to keep this form in the browser"} />
        <${Field} label="How many" name="times" type="number" min="1" max=${MOST} value=${template.times} />
        <${Field} label="A second at most" name="rate" type="number" min="0" step="any" value=${template.rate} hint="empty: as fast as it goes" />
      </div></div>
      ${sent !== null && html`<p class="plan" role="status">${plural(sent, "message")} published so far.</p>`}
    <//>`;
  }
}
