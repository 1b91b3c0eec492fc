// The messages of a topic: read by offset or time, searched by attribute, text or JSON path, and never consumed.

import { get, lines, path } from "../lib/api.js";
import { ago, base64, bodyOf, bytes, clock, count, hexLines, jsonPieces, plural, prettyJson } from "../lib/format.js";
import { format, parse, refine } from "../lib/route.js";
import { Component, html, View } from "../lib/view.js";
import { Copy, Facts } from "../parts/facts.js";
import { walk } from "../parts/table.js";

const PAGE = 100;

export class Messages extends View {
  refreshes = false;

  load(signal) {
    const { from = "-50", at = "", filter = "", text = "", json = "" } = this.props.query;
    const place = at ? { at } : { from };
    return Promise.all([
      get(path("topics", this.props.name), {}, signal),
      get(`${path("topics", this.props.name)}/messages`, { ...place, filter, text, json, max: PAGE }, signal),
    ]).then(([topic, page]) => ({ topic, page }));
  }

  componentDidUpdate(before) {
    const asked = ({ open, as, ...rest }) => JSON.stringify(rest);
    if (asked(before.query) !== asked(this.props.query)) this.reload();
  }

  componentWillUnmount() {
    super.componentWillUnmount();
    this.search?.abort();
  }

  ask(event) {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    const offset = /^-?\d+$/.test(values.start);
    refine({ from: offset ? values.start : "", at: offset ? "" : values.start, filter: values.filter, text: values.text, json: values.json, open: "" });
  }

  /** Look through the whole topic; what is found is shown as it is found, and it can be stopped. */
  async searchAll() {
    const { filter = "", text = "", json = "" } = this.props.query;
    this.search = new AbortController();
    const found = [];
    this.setState({ searching: true, found, progress: null });
    try {
      for await (const line of lines(`${path("topics", this.props.name)}/stream`, { from: 0, filter, text, json }, this.search.signal)) {
        if (line.progress) this.setState({ progress: line.progress });
        else if (found.push(line) >= 1000) break;
        else this.setState({ found });
      }
    } catch (error) {
      if (error.name !== "AbortError") this.setState({ error });
    }
    this.search.abort();
    this.setState({ searching: false });
  }

  show({ topic, page }) {
    const { query } = this.props;
    const { found, searching, progress } = this.state;
    const filtered = query.filter || query.text || query.json;
    const rows = found ?? page.messages;
    const open = rows.find((message) => String(message.offset) === query.open);
    const first = rows.length ? rows[0].offset : topic.next_offset;
    return html`<section aria-label=${`Messages of ${topic.id}`}>
      <div class="bar"><h1><span class="kind">Messages of</span> <a href=${format(["topics", topic.name])}>${topic.id}</a></h1></div>
      <form class="filters" key=${JSON.stringify([query.from, query.at, query.filter, query.text, query.json])} onSubmit=${(event) => this.ask(event)}>
        <label>From <input name="start" defaultValue=${query.at || query.from || "-50"} title="An offset, -100 for the last hundred, -10m, or an instant" /></label>
        <label>Attributes <input name="filter" defaultValue=${query.filter ?? ""} placeholder='attributes.kind = "order"' /></label>
        <label>Text <input name="text" data-search defaultValue=${query.text ?? ""} /></label>
        <label>JSON path <input name="json" defaultValue=${query.json ?? ""} placeholder="$.total=5" /></label>
        <button type="submit" class="primary">Show</button>
      </form>
      <p class="pager">
        <span class="quiet">offsets ${count(topic.first_offset)} to ${count(topic.next_offset)}; ${found ? `${plural(rows.length, "message")} found` : `${plural(rows.length, "message")} of ${count(page.scanned)} looked at`}${progress ? `, ${count(progress.scanned)} looked at` : ""}</span>
        <button type="button" disabled=${first <= topic.first_offset || found} onClick=${() => refine({ from: Math.max(topic.first_offset, first - PAGE), at: "", open: "" })}>Older</button>
        <button type="button" disabled=${page.next_offset >= topic.next_offset || found} onClick=${() => refine({ from: page.next_offset, at: "", open: "" })}>Newer</button>
        <button type="button" onClick=${() => { this.setState({ found: null }); refine({ from: "-50", at: "", open: "" }); this.reload(); }}>Latest</button>
        ${filtered && (searching
          ? html`<button type="button" onClick=${() => this.search.abort()}>Stop</button>`
          : html`<button type="button" onClick=${() => this.searchAll()}>Search the whole topic</button>`)}
      </p>
      <div class=${open ? "split open" : "split"}>
        <ol class="messages" aria-label="Messages" onKeyDown=${(event) => walk(event, "a.message")}>
          ${rows.map((message) => html`<${Row} key=${message.offset} message=${message} open=${open === message} />`)}
          ${!rows.length && html`<li class="empty">${filtered ? "Nothing here matches." : "There are no messages here."}</li>`}
        </ol>
        ${open && html`<${Message} key=${open.offset} message=${open} topic=${topic} shownAs=${query.as ?? ""} />`}
      </div>
    </section>`;
  }
}

function Row({ message, open }) {
  const { parts, query } = parse(location.hash);
  const names = Object.entries(message.attributes).slice(0, 4);
  return html`<li><a class=${open ? "message on" : "message"} aria-current=${open ? "true" : undefined} href=${format(parts, { ...query, open: message.offset })}>
    <span class="offset">${count(message.offset)}</span>
    <span class="quiet">${ago(message.publish_time, Date.now())}</span>
    <span class="quiet">${bytes(message.size)}</span>
    <span class="text">${message.ordering_key && html`<span class="tag">${message.ordering_key}</span> `}${names.map(([name, value]) => html`<span class="tag">${name}=${value.slice(0, 24)}</span> `)}${(message.data ?? `${message.data_base64.slice(0, 40)} (bytes)`).slice(0, 160)}</span>
  </a></li>`;
}

class Message extends Component {
  state = { story: null };

  async componentDidMount() {
    const { message, topic } = this.props;
    try {
      this.setState({ story: await get(`${path("topics", topic.name, "messages", String(message.offset))}/story`) });
    } catch {
      this.setState({ story: { events: [], sentence: "The server no longer knows the story of this message." } });
    }
  }

  render({ message, topic, shownAs }, { story }) {
    const body = bodyOf(message);
    const pretty = message.data === undefined ? null : prettyJson(message.data);
    const views = [pretty !== null && "json", message.data !== undefined && "text", "hex", "base64"].filter(Boolean);
    const as = views.includes(shownAs) ? shownAs : views[0];
    return html`<article class="panel detail" aria-label=${`Message ${message.offset}`}>
      <div class="bar"><h2>Offset ${count(message.offset)}</h2>
        <button type="button" aria-label="Close" onClick=${() => refine({ open: "" })}>Close</button></div>
      <${Facts} rows=${[
        ["Id", html`<code>${message.id}</code> <${Copy} text=${message.id} />`],
        ["Published", `${clock(message.publish_time)} (${ago(message.publish_time, Date.now())})`],
        ["Size", bytes(message.size)],
        ["Ordering key", message.ordering_key],
        ["Delayed until", message.visible_at && clock(message.visible_at)],
        ["Lives until", message.expires_at && clock(message.expires_at)],
      ]} />
      ${Object.keys(message.attributes).length > 0 && html`<h3>Attributes</h3><${Facts} rows=${Object.entries(message.attributes).map(([name, value]) => [name, html`<code>${value}</code>`])} />`}
      <div class="bar"><h3>Body</h3>
        <div class="segments" role="group" aria-label="Show the body as">${views.map((view) => html`<button type="button" aria-pressed=${as === view} onClick=${() => refine({ as: view })}>${view}</button>`)}</div></div>
      <pre class="body" tabindex="0">${shown(as, message, body, pretty)}</pre>
      <h3>Story</h3>
      ${story && html`<ol class="story">${story.events.map((event) => html`<li><time>${clock(event.at)}</time> ${event.sentence}</li>`)}</ol><p class="quiet">${story.sentence}</p>`}
    </article>`;
  }
}

function shown(as, message, body, pretty) {
  if (as === "json") return jsonPieces(pretty).map(({ kind, text }) => (kind === "mark" ? text : html`<span class=${`json-${kind}`}>${text}</span>`));
  if (as === "text") return message.data;
  return as === "hex" ? hexLines(body).join("\n") : base64(body);
}
