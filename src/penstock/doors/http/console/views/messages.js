// The messages of a topic: read by offset or time, searched by attribute, text or JSON path, and never consumed.

import { get, lines, path } from "../lib/api.js";
import { ago, bytes, count, plural } from "../lib/format.js";
import { format, parse, readPlace, refine } from "../lib/route.js";
import { html, View } from "../lib/view.js";
import { walk } from "../parts/table.js";
import { Message } from "./message.js";

const PAGE = 100;
const FOUND_MOST = 1000;
const BODY = 400; // bytes of each, in the list

/** What to ask the server for: from an offset or a time on, or the youngest first, of all or before an offset. */
function asked({ from = "", at = "", until = "", filter = "", text = "", json = "" }) {
  const place = at ? { at } : from ? { from } : until ? { until, order: "desc" } : { order: "desc" };
  return { ...place, filter, text, json, body_bytes: BODY };
}

export class Messages extends View {
  refreshes = false;

  async load(signal) {
    const here = path("topics", this.props.name);
    const query = asked(this.props.query);
    const [topic, page] = await Promise.all([get(here, {}, signal), get(`${here}/messages`, { ...query, max: PAGE }, signal)]);
    return { topic, page, descending: query.order === "desc" };
  }

  componentDidUpdate(before) {
    const wanted = ({ open, as, ...rest }) => JSON.stringify(rest);
    if (wanted(before.query) !== wanted(this.props.query)) this.reload();
  }

  componentWillUnmount() {
    super.componentWillUnmount();
    this.search?.abort();
  }

  go(query) {
    this.search?.abort();
    this.setState({ found: null, progress: null, error: null });
    refine({ from: "", at: "", until: "", open: "", ...query });
    this.reload();
  }

  ask(event) {
    event.preventDefault();
    const { start, time, filter, text, json } = Object.fromEntries(new FormData(event.target));
    this.go({ ...readPlace(time || start), filter, text, json });
  }

  /** Look through the whole topic; what is found is shown as it is found, and it can be stopped. */
  async searchAll() {
    const { filter = "", text = "", json = "" } = this.props.query;
    const search = (this.search = new AbortController());
    const found = [];
    this.setState({ searching: true, found, progress: null, error: null });
    try {
      const query = { from: 0, filter, text, json, body_bytes: BODY };
      for await (const line of lines(`${path("topics", this.props.name)}/stream`, query, search.signal)) {
        if (search.signal.aborted) break;
        if (line.error) throw new Error(line.error.message);
        if (line.progress) this.setState({ progress: line.progress });
        else if (found.push(line) >= FOUND_MOST) break;
        else this.setState({ found });
      }
    } catch (error) {
      if (!search.signal.aborted) this.setState({ error: new Error(`The search was broken off: ${error.message}`) });
    }
    search.abort();
    this.setState({ searching: false });
  }

  show({ topic, page, descending }) {
    const { query } = this.props;
    const { found, searching, progress } = this.state;
    const filtered = Boolean(query.filter || query.text || query.json);
    const rows = found ?? page.messages;
    const first = descending ? page.next_offset : page.next_offset - page.scanned;
    const next = descending ? Number(query.until || topic.next_offset) : page.next_offset;
    const seen = found
      ? `${plural(found.length, "message")} found${found.length >= FOUND_MOST ? ", more were not looked for" : ""}${progress ? `, ${count(progress.scanned)} looked at` : ""}`
      : `${plural(rows.length, "message")} of ${count(page.scanned)} looked at`;
    return html`<section aria-label=${`Messages of ${topic.id}`}>
      <div class="bar"><h1><span class="kind">Messages of</span> <a href=${format(["topics", topic.name])}>${topic.id}</a></h1></div>
      <form class="filters" key=${JSON.stringify([query.from, query.at, query.until, query.filter, query.text, query.json])} onSubmit=${(event) => this.ask(event)}>
        <label>From <input name="start" defaultValue=${query.at || query.from || ""} placeholder="the latest" title="An offset, -100 for the last hundred, -10m for the last ten minutes, or an instant" /></label>
        <label>or time <input name="time" type="datetime-local" step="1" /></label>
        <label>Attributes <input name="filter" defaultValue=${query.filter ?? ""} placeholder='attributes.kind = "order"' /></label>
        <label>Text <input name="text" data-search defaultValue=${query.text ?? ""} /></label>
        <label>JSON path <input name="json" defaultValue=${query.json ?? ""} placeholder="$.total=5" /></label>
        <button type="submit" class="primary">Show</button>
      </form>
      <p class="pager">
        <span class="quiet">offsets ${count(topic.first_offset)} to ${count(topic.next_offset)}; ${seen}</span>
        <button type="button" disabled=${first <= topic.first_offset || found} onClick=${() => this.go({ until: first })}>Older</button>
        <button type="button" disabled=${next >= topic.next_offset || found} onClick=${() => this.go({ from: next })}>Newer</button>
        <button type="button" onClick=${() => this.go({})}>Latest</button>
        ${filtered && (searching
          ? html`<progress max=${Math.max(1, topic.messages)} value=${progress?.scanned ?? 0} aria-label="Searched"></progress><button type="button" onClick=${() => this.search.abort()}>Stop</button>`
          : html`<button type="button" onClick=${() => this.searchAll()}>Search the whole topic</button>`)}
      </p>
      <div class=${query.open ? "split open" : "split"}>
        <ol class="messages" aria-label="Messages" onKeyDown=${(event) => walk(event, "a.message")}>
          ${rows.map((message) => html`<${Row} key=${message.offset} message=${message} open=${String(message.offset) === query.open} />`)}
          ${!rows.length && html`<li class="empty">${nothing(filtered, page, descending, searching)}</li>`}
        </ol>
        ${query.open && html`<${Message} key=${query.open} topic=${topic} offset=${query.open} shownAs=${query.as ?? ""} />`}
      </div>
    </section>`;
  }
}

function nothing(filtered, page, descending, searching) {
  if (searching) return "Searching.";
  if (!filtered) return "There are no messages here.";
  if (page.complete) return "Nothing here matches.";
  return `Nothing matches among the ${count(page.scanned)} messages that were looked at; ${descending ? "Older" : "Newer"} looks further, and the button beside it through the whole topic.`;
}

function Row({ message, open }) {
  const { parts, query } = parse(location.hash);
  const names = Object.entries(message.attributes).slice(0, 4);
  return html`<li><a class=${open ? "message on" : "message"} aria-current=${open ? "true" : undefined} href=${format(parts, { ...query, open: message.offset })}>
    <span class="offset">${count(message.offset)}</span>
    <span class="quiet">${ago(message.publish_time, Date.now())}</span>
    <span class="quiet">${bytes(message.size)}</span>
    <span class="text">${message.ordering_key && html`<span class="tag">${message.ordering_key.slice(0, 40)}</span> `}${names.map(([name, value]) => html`<span class="tag">${name.slice(0, 24)}=${value.slice(0, 24)}</span> `)}${(message.data ?? `${message.data_base64.slice(0, 40)} (bytes)`).slice(0, 160)}</span>
  </a></li>`;
}
