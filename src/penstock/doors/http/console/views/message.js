// One message: its body in every form, its attributes, its story, and what can be done with it.

import { get, path } from "../lib/api.js";
import { ago, base64, bodyOf, bytes, clock, count, hexLines, inLocalTime, jsonPieces, prettyJson, timeZone } from "../lib/format.js";
import { live } from "../lib/live.js";
import { refine } from "../lib/route.js";
import { Component, html } from "../lib/view.js";
import { Copy, Facts } from "../parts/facts.js";
import { RedriveOf } from "./moves.js";
import { Publish, templateOf } from "./publish.js";

const SHOWN = 256 << 10; // characters of a body
const SPARING = 50; // times as long as it took
const REFUSED = 10_000; // milliseconds
const KINDS = { AVRO: "avro", PROTOCOL_BUFFER: "protobuf" };

export class Message extends Component {
  state = { message: null, story: null, error: null };

  componentDidMount() {
    this.here = path("topics", this.props.topic.name, "messages", this.props.offset);
    this.due = Infinity; // when its story may be asked for again
    this.load();
    this.ends = [live.on("server", () => this.load()), live.on("sample", () => this.follow())];
  }

  componentWillUnmount() {
    this.gone = true;
    this.ends.forEach((end) => end());
  }

  async load() {
    const [message, story] = await Promise.allSettled([get(this.here, { decode: "true" }), get(`${this.here}/story`)]);
    if (this.gone) return;
    this.due = 0;
    this.setState({
      message: message.value ?? this.state.message,
      error: message.reason?.message ?? null,
      story: story.value ?? { events: [], sentence: story.reason?.message ?? "" },
    });
  }

  /** What happened since. The server goes through all it knows for it: the longer that takes, the less often. */
  async follow() {
    const asked = performance.now();
    if (document.hidden || asked < this.due) return;
    this.due = Infinity;
    const story = await get(`${this.here}/story`).catch(() => null);
    this.due = performance.now() + (story ? SPARING * (performance.now() - asked) : REFUSED);
    if (story && !this.gone) this.setState({ story });
  }

  render({ topic, offset, shownAs }, { message, story, error }) {
    return html`<article class="panel detail" aria-label=${`Message ${offset}`}>
      <div class="bar"><h2>Offset ${count(Number(offset))}</h2>
        ${message && live.canChange && html`
          <button type="button" onClick=${() => refine({ do: "publish" })}>Publish again</button>
          <button type="button" onClick=${() => refine({ do: "move" })}>Move this one</button>`}
        <button type="button" aria-label="Close" onClick=${() => refine({ open: "" })}>Close</button></div>
      ${error && html`<p class="problem" role="alert">${error}</p>`}
      ${message && html`<${Facts} rows=${[
        ["Id", html`<code>${message.id}</code> <${Copy} text=${message.id} />`],
        ["Published", `${clock(message.publish_time)} (${ago(message.publish_time, live.timeOf(topic))})`],
        ["Size", bytes(message.size)],
        ["Ordering key", message.ordering_key],
        ["Delayed until", message.visible_at && clock(message.visible_at)],
        ["Lives until", message.expires_at && clock(message.expires_at)],
        ["Schema", message.decoded && html`<code>${message.decoded.schema}</code> ${message.decoded.revision}`],
      ]} />
      ${Object.keys(message.attributes).length > 0 && html`<h3>Attributes</h3><${Facts} rows=${Object.entries(message.attributes).map(([name, value]) => [html`<span class="exact">${name}</span>`, html`<code class="exact">${value}</code>`])} />`}
      <${Body} key=${message.id} message=${message} shownAs=${shownAs} />`}
      <h3>Story <small>times of ${timeZone()}</small></h3>
      ${story && html`<ol class="story">${story.events.map((event) => html`<li><time>${clock(event.at)}</time> ${inLocalTime(event.sentence, event.at)}</li>`)}</ol><p class="quiet">${inLocalTime(story.sentence)}</p>`}
      ${message && this.dialog(topic, message)}
    </article>`;
  }

  dialog(topic, message) {
    const close = () => {
      refine({ do: "" });
      this.load();
      this.props.onChange();
    };
    const asks = live.canChange ? this.props.asks : ""; // by the address
    if (asks === "publish") return html`<${Publish} topic=${topic} template=${templateOf(message)} onClose=${close} />`;
    if (asks === "move") return html`<${RedriveOf} topic=${topic} ids=${[message.id]} title=${`Move message ${count(message.offset)}`} onClose=${close} />`;
    return null;
  }
}

class Body extends Component {
  constructor(properties) {
    super(properties);
    const { message } = properties;
    const { decoded } = message;
    this.forms = {}; // label -> how it is written, each made when it is first looked at
    if (decoded && decoded.text !== null && decoded.encoding === "BINARY") this.forms[KINDS[decoded.kind] ?? "schema"] = () => coloured(decoded.text, prettyJson(decoded.text, SHOWN));
    const json = message.data === undefined ? null : prettyJson(message.data, SHOWN);
    if (json !== null) this.forms.json = () => coloured(message.data, json);
    if (message.data !== undefined) this.forms.text = () => cut(message.data);
    this.forms.hex = () => hexLines(bodyOf(message)).join("\n");
    this.forms.base64 = () => cut(base64(bodyOf(message)));
  }

  save() {
    const place = URL.createObjectURL(new Blob([bodyOf(this.props.message)]));
    const link = Object.assign(document.createElement("a"), { href: place, download: `message-${this.props.message.offset}` });
    link.click();
    URL.revokeObjectURL(place);
  }

  render({ message, shownAs }) {
    const names = Object.keys(this.forms);
    const as = names.includes(shownAs) ? shownAs : names[0];
    return html`<div class="bar"><h3>Body</h3>
        <button type="button" class="quiet" onClick=${() => this.save()}>Save</button>
        <div class="segments" role="group" aria-label="Show the body as">${names.map((name) => html`<button type="button" aria-pressed=${as === name} onClick=${() => refine({ as: name })}>${name}</button>`)}</div></div>
      ${message.decoded?.problem && html`<p class="problem">${message.decoded.problem}</p>`}
      <pre class="body" tabindex="0">${this.forms[as]()}</pre>`;
  }
}

const rest = (left) => (left > 0 ? `\n... ${count(left)} characters more: Save has all of them` : "");

function cut(text) {
  return text.slice(0, SHOWN) + rest(text.length - SHOWN);
}

function coloured(text, json) {
  if (json === null) return cut(text);
  if (json.left > 0) return json.pretty + rest(json.left);
  return jsonPieces(json.pretty).map(({ kind, text: piece }) => (kind === "mark" ? piece : html`<span class=${`json-${kind}`}>${piece}</span>`));
}
