// One message: its body in every format, its attributes, its story, and actions on it.

import { get, path } from "../lib/api.js";
import {
  ago,
  base64,
  bodyOf,
  bytes,
  clock,
  count,
  hexLines,
  inLocalTime,
  jsonPieces,
  prettyJson,
  timeZone,
} from "../lib/format.js";
import { live } from "../lib/live.js";
import { refine } from "../lib/route.js";
import { Component, html } from "../lib/view.js";
import { Copy, Facts, Segments } from "../parts/facts.js";
import { RedriveOf } from "./moves.js";
import { Publish, templateOf } from "./publish.js";

const SHOWN = 256 << 10; // characters of a body
const PAUSE_FACTOR = 50; // the pause after a request of the story, in times of its duration
const PAUSE_AFTER_ERROR = 10_000; // milliseconds
const KINDS = { AVRO: "avro", PROTOCOL_BUFFER: "protobuf" };

export class Message extends Component {
  state = { message: null, story: null, error: null };

  componentDidMount() {
    this.here = path("topics", this.props.topic.name, "messages", this.props.offset);
    this.due = Infinity; // when the story may be requested again
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

  /** Update the story. The server searches all recent events for it, so slower responses are requested less often. */
  async follow() {
    const started = performance.now();
    if (document.hidden || started < this.due) return;
    this.due = Infinity;
    const story = await get(`${this.here}/story`).catch(() => null);
    this.due = performance.now() + (story ? PAUSE_FACTOR * (performance.now() - started) : PAUSE_AFTER_ERROR);
    if (story && !this.gone) this.setState({ story });
  }

  render({ topic, offset, shownAs }, { message, story, error }) {
    const attributes = Object.entries(message?.attributes ?? {}).map(([name, value]) => [
      html`<span class="exact">${name}</span>`,
      html`<code class="exact">${value}</code>`,
    ]);
    const storyLine = ({ at, sentence }) => html`<li><time>${clock(at)}</time> ${inLocalTime(sentence, at)}</li>`;
    return html`<article class="panel detail" aria-label=${`Message ${offset}`}>
      <div class="bar"><h2>Offset ${count(Number(offset))}</h2>
        ${
          message &&
          live.canChange &&
          html`
          <button type="button" onClick=${() => refine({ do: "publish" })}>Publish again</button>
          <button type="button" onClick=${() => refine({ do: "move" })}>Move message</button>`
        }
        <button type="button" aria-label="Close" onClick=${() => refine({ open: "" })}>Close</button></div>
      ${error && html`<p class="problem" role="alert">${error}</p>`}
      ${
        message &&
        html`<${Facts} rows=${[
          ["ID", html`<code>${message.id}</code> <${Copy} text=${message.id} />`],
          ["Published", `${clock(message.publish_time)} (${ago(message.publish_time, live.timeOf(topic))})`],
          ["Size", bytes(message.size)],
          ["Ordering key", message.ordering_key],
          ["Delayed until", message.visible_at && clock(message.visible_at)],
          ["Expires", message.expires_at && clock(message.expires_at)],
          ["Schema", message.decoded && html`<code>${message.decoded.schema}</code> ${message.decoded.revision}`],
        ]} />
      ${attributes.length > 0 && html`<h3>Attributes</h3><${Facts} rows=${attributes} />`}
      <${Body} key=${message.id} message=${message} shownAs=${shownAs} />`
      }
      <h3>Story <small>${timeZone()} time</small></h3>
      ${
        story &&
        html`<ol class="story">${story.events.map(storyLine)}</ol>
          <p class="quiet">${inLocalTime(story.sentence)}</p>`
      }
      ${message && this.dialog(topic, message)}
    </article>`;
  }

  dialog(topic, message) {
    const close = () => {
      refine({ do: "" });
      this.load();
      this.props.onChange();
    };
    const dialog = live.canChange ? this.props.dialog : "";
    if (dialog === "publish")
      return html`<${Publish} topic=${topic} template=${templateOf(message)} onClose=${close} />`;
    if (dialog === "move")
      return html`<${RedriveOf} topic=${topic} ids=${[message.id]} onClose=${close}
        title=${`Move message ${count(message.offset)}`} />`;
    return null;
  }
}

class Body extends Component {
  constructor(properties) {
    super(properties);
    const { message } = properties;
    const { decoded } = message;
    this.formats = {}; // label -> function that returns the body in this format
    if (decoded && decoded.text !== null && decoded.encoding === "BINARY")
      this.formats[KINDS[decoded.kind] ?? "schema"] = () => colour(decoded.text, prettyJson(decoded.text, SHOWN));
    const json = message.data === undefined ? null : prettyJson(message.data, SHOWN);
    if (json !== null) this.formats.json = () => colour(message.data, json);
    if (message.data !== undefined) this.formats.text = () => cut(message.data);
    this.formats.hex = () => hexLines(bodyOf(message)).join("\n");
    this.formats.base64 = () => cut(base64(bodyOf(message)));
  }

  save() {
    const url = URL.createObjectURL(new Blob([bodyOf(this.props.message)]));
    const link = Object.assign(document.createElement("a"), {
      href: url,
      download: `message-${this.props.message.offset}`,
    });
    link.click();
    URL.revokeObjectURL(url);
  }

  render({ message, shownAs }) {
    const names = Object.keys(this.formats);
    const as = names.includes(shownAs) ? shownAs : names[0];
    return html`<div class="bar"><h3>Body</h3>
        <button type="button" class="quiet" onClick=${() => this.save()}>Save</button>
        <${Segments} label="Body format" value=${as} options=${names.map((name) => [name, name])}
          onChoose=${(name) => refine({ as: name })} /></div>
      ${message.decoded?.problem && html`<p class="problem">${message.decoded.problem}</p>`}
      <pre class="body" tabindex="0">${this.formats[as]()}</pre>`;
  }
}

const rest = (left) => (left > 0 ? `\n... ${count(left)} more characters (use Save to get the whole body)` : "");

function cut(text) {
  return text.slice(0, SHOWN) + rest(text.length - SHOWN);
}

function colour(text, json) {
  if (json === null) return cut(text);
  if (json.left > 0) return json.pretty + rest(json.left);
  return jsonPieces(json.pretty).map(({ kind, text: piece }) =>
    kind === "mark" ? piece : html`<span class=${`json-${kind}`}>${piece}</span>`,
  );
}
