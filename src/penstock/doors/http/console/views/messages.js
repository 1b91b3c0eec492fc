// The messages of a topic: read by offset or time, searched by attribute, text or JSON path, and never consumed.

import { get, lines, path } from "../lib/api.js";
import { ago, bytes, count, plural } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, parse, readPlace, refine } from "../lib/route.js";
import { createRef, html, View } from "../lib/view.js";
import { walk } from "../parts/table.js";
import { Message } from "./message.js";

const PAGE = 100;
const FOUND_MOST = 1000;
const BODY = 400; // bytes of each, in the list

const FOLLOW = 2000; // milliseconds
const FOLLOW_GONE = 10_000; // a topic that is not there
const DRAW = 100; // between two drawings of what a search finds

/** What to ask the server for: from an offset or a time on, or the youngest first, of all or before an offset. */
function asked({ from = "", at = "", until = "", filter = "", text = "", json = "" }) {
  const place = at || from ? readPlace(at || from) : until ? { until, order: "desc" } : { order: "desc" };
  return { ...place, filter, text, json, body_bytes: BODY };
}

const isDescending = ({ from, at, order }) => (order || (from || at ? "asc" : "desc")) === "desc";

/** What the list shows, without the message that is open beside it. */
const wanted = ({ open, as, do: dialog, ...rest }) => JSON.stringify(rest);

const isSame = (topic, before) => topic.created_at === before.created_at && topic.next_offset >= before.next_offset;

/**
 * The order of the rows stays what it was on the way to older and newer ones: that of the first page, ascending where a
 * beginning was given. A page that the server reads the other way round is turned, and its address says so (`order`).
 */
export class Messages extends View {
  refreshes = false;
  form = createRef();

  async load(signal) {
    const here = path("topics", this.props.name);
    const [topic, answer] = await Promise.all([get(here, {}, signal), this.page(`${here}/messages`, signal)]);
    const before = this.state.data?.topic;
    if (before && !this.gone && !isSame(topic, before)) this.another();
    return { topic, ...answer };
  }

  /** A page of messages, or the sentence why there is none. */
  async page(where, signal) {
    try {
      const query = asked(this.props.query);
      const page = await get(where, { ...query, max: PAGE }, signal);
      const descending = isDescending(this.props.query);
      const down = query.order === "desc";
      if (down !== descending) page.messages.reverse();
      const [first, next] = down ? [page.next_offset, page.next_offset + page.scanned] : [page.next_offset - page.scanned, page.next_offset];
      return { page, descending, down, first, next };
    } catch (error) {
      if (error.name === "AbortError" || (error.status ?? 400) !== 400) throw error;
      return { refused: error.message };
    }
  }

  componentDidMount() {
    super.componentDidMount();
    this.every(FOLLOW, () => live.paused || document.hidden || this.follow());
    if (this.props.query.all) this.searchAll();
  }

  componentDidUpdate(before) {
    if (wanted(before.query) !== wanted(this.props.query)) this.anew();
  }

  componentWillUnmount() {
    super.componentWillUnmount();
    this.search?.abort();
  }

  /** How far the topic goes by now; the rows stay until they are asked for. */
  async follow() {
    if (this.following || !this.state.data || performance.now() < this.due) return;
    this.following = true;
    this.due = 0;
    try {
      const topic = await get(path("topics", this.props.name));
      const { topic: before } = this.state.data;
      if (this.gone) return;
      if (isSame(topic, before)) this.setState(({ data }) => ({ data: { ...data, topic }, error: null }));
      else if (!this.props.query.do) this.reload();
    } catch (error) {
      if (error.status !== 404) return;
      this.due = performance.now() + FOLLOW_GONE;
      this.setState({ error });
    } finally {
      this.following = false;
    }
  }

  /** The topic was deleted and made again: its offsets begin anew, so nothing that is shown is there any more. */
  another() {
    refine({ open: "", do: "" });
    this.searchAnew();
  }

  /** What the address asks for. */
  anew() {
    this.searchAnew();
    this.reload();
  }

  searchAnew() {
    this.search?.abort();
    this.search = null; // what it found is not drawn any more
    this.setState({ searching: false, found: null, refused: null, broken: null });
    if (this.props.query.all) this.searchAll();
  }

  go(query) {
    const before = location.hash;
    refine({ from: "", at: "", until: "", order: "", all: "", open: "", do: "", ...query }, { step: true });
    if (location.hash === before) this.anew();
  }

  latest() {
    const { start, time } = this.form.current.elements;
    start.value = time.value = ""; // conditions that are typed stay
    this.go({});
  }

  ask(event) {
    event.preventDefault();
    const { start, time, filter, text, json } = Object.fromEntries(new FormData(event.target));
    try {
      if (time && start && start !== event.target.elements.start.defaultValue) throw new Error("Give From or a time, not both.");
      this.go({ ...readPlace(time || start), filter, text, json });
    } catch (error) {
      this.setState({ refused: error.message });
    }
  }

  all() {
    if (this.props.query.all) this.anew();
    else refine({ all: "yes", open: "" }, { step: true });
  }

  /** Look through the whole topic; what is found is shown as it is found, and it can be stopped. */
  async searchAll() {
    const { filter = "", text = "", json = "" } = this.props.query;
    const order = isDescending(this.props.query) ? "desc" : "asc";
    const search = (this.search = new AbortController());
    const found = [];
    let first; // the offset it begins at
    let looked = 0;
    let rested = -Infinity;
    let soon; // a drawing
    const draw = (more) => this.search === search && this.setState({ found, looked, ...more });
    draw({ searching: true });
    try {
      const query = { order, filter, text, json, body_bytes: BODY };
      for await (const line of lines(`${path("topics", this.props.name)}/stream`, query, search.signal)) {
        if (search.signal.aborted) break;
        if (line.error) throw new Error(line.error.message);
        const at = line.progress?.next_offset ?? line.offset + (order === "asc" ? 1 : 0);
        looked = Math.abs(at - (first ??= at));
        if (!line.progress && found.push(line) >= FOUND_MOST) break;
        soon ??= setTimeout(() => draw((soon = undefined)), DRAW);
        if (performance.now() - rested < DRAW) continue;
        await new Promise((resolve) => setTimeout(resolve)); // lines that came together leave no time to paint, or to stop
        rested = performance.now();
      }
    } catch (error) {
      if (!search.signal.aborted) this.setState({ broken: `The search was broken off: ${error.message}` });
    }
    clearTimeout(soon);
    search.abort();
    draw({ searching: false });
  }

  show(data) {
    const { topic, page } = data;
    const { query } = this.props;
    const { found, searching } = this.state;
    const refused = this.state.refused ?? data.refused;
    const rows = found ?? page?.messages;
    const now = live.timeOf(topic);
    const place = JSON.stringify([query.from, query.at, query.until]);
    return html`<section aria-label=${`Messages of ${topic.id}`}>
      <div class="bar"><h1><span class="kind">Messages of</span> <a href=${format(["topics", topic.name])}>${topic.id}</a></h1></div>
      <form class="filters" ref=${this.form} key=${JSON.stringify([query.filter, query.text, query.json])} onSubmit=${(event) => this.ask(event)}>
        <label>From <input name="start" key=${place} defaultValue=${query.order ? "" : query.at || query.from || ""} placeholder="the latest" title="An offset, -100 for the last hundred, -10m for the last ten minutes, or a time" /></label>
        <label>or time <input name="time" key=${place} type="datetime-local" step="1" /></label>
        <label>Attributes <input name="filter" defaultValue=${query.filter ?? ""} placeholder='attributes.kind = "order"' /></label>
        <label>Text <input name="text" data-search defaultValue=${query.text ?? ""} /></label>
        <label>JSON path <input name="json" defaultValue=${query.json ?? ""} placeholder="$.total=5" /></label>
        <button type="submit" class="primary">Show</button>
      </form>
      ${refused || this.state.broken ? html`<p class="problem" role="alert">${refused || this.state.broken}</p>` : null}
      ${this.pager(data, refused)}
      <div class=${query.open ? "split open" : "split"}>
        ${!refused && html`<ol class="messages" aria-label="Messages" onKeyDown=${(event) => walk(event, "a.message")}>
          ${rows.map((message) => html`<${Row} key=${message.offset} message=${message} now=${now} gone=${message.offset < topic.first_offset} open=${String(message.offset) === query.open} />`)}
          ${!rows.length && html`<li class="empty">${nothing(isFiltered(query), data, searching)}</li>`}
        </ol>`}
        ${query.open && html`<${Message} key=${query.open} topic=${topic} offset=${query.open} shownAs=${query.as ?? ""} asks=${query.do} onChange=${() => this.reload()} />`}
      </div>
    </section>`;
  }

  pager({ topic, page, descending, first, next }, refused) {
    const { query } = this.props;
    const { found, searching, looked } = this.state;
    const offsets = `offsets ${count(topic.first_offset)} to ${count(topic.next_offset)}`;
    const latest = html`<button type="button" onClick=${() => this.latest()}>Latest</button>`;
    if (refused) return html`<p class="pager"><span class="quiet">${offsets}</span>${latest}</p>`;
    const seen = found
      ? `${plural(found.length, "message")} found${found.length >= FOUND_MOST ? ", more were not looked for" : ""}, ${count(looked)} looked at`
      : `${plural(page.messages.length, "message")} of ${count(page.scanned)} looked at`;
    const gone = (found ?? page.messages).filter((each) => each.offset < topic.first_offset).length;
    const newer = topic.next_offset - next;
    const atTheEnd = !found && !query.from && !query.at && !query.until;
    return html`<p class="pager">
      <span class="quiet">${offsets}; ${seen}${gone ? `; ${count(gone)} of these ${gone === 1 ? "is" : "are"} gone` : ""}</span>
      <button type="button" disabled=${first <= topic.first_offset || found} onClick=${() => this.go({ until: first, order: descending ? "" : "asc" })}>Older</button>
      <button type="button" disabled=${newer <= 0 || found} onClick=${() => this.go({ from: next, order: descending ? "desc" : "" })}>Newer</button>
      ${latest}
      ${isFiltered(query) && (searching
        ? html`<progress max=${Math.max(1, topic.messages)} value=${looked} aria-label="Searched"></progress><button type="button" onClick=${() => this.search.abort()}>Stop</button>`
        : html`<button type="button" onClick=${() => this.all()}>Search the whole topic</button>`)}
      ${atTheEnd && html`<button type="button" class="newer" disabled=${newer <= 0} onClick=${() => this.reload()}>${newer > 0 ? `${plural(newer, "newer message")}: show` : "No newer messages"}</button>`}
    </p>`;
  }
}

const isFiltered = ({ filter, text, json }) => Boolean(filter || text || json);

function nothing(filtered, { page, down }, searching) {
  if (searching) return "Searching.";
  if (!filtered) return "There are no messages here.";
  if (page.complete) return "Nothing here matches.";
  return `Nothing matches among the ${count(page.scanned)} messages that were looked at; ${down ? "Older" : "Newer"} looks further, and the button beside it through the whole topic.`;
}

/** What the topic does not keep any more can be read on, and not be opened. */
function Row({ message, open, now, gone }) {
  const { parts, query } = parse(location.hash);
  const names = Object.entries(message.attributes).slice(0, 4);
  return html`<li><${gone ? "span" : "a"} class=${open ? "message on" : "message"} aria-current=${open ? "true" : undefined} href=${gone ? undefined : format(parts, { ...query, open: message.offset, do: "" })}>
    <span class="offset">${count(message.offset)}</span>
    <span class="quiet">${ago(message.publish_time, now)}</span>
    <span class="quiet">${bytes(message.size)}</span>
    <span class="text">${message.ordering_key && html`<span class="tag">${message.ordering_key.slice(0, 40)}</span> `}${names.map(([name, value]) => html`<span class="tag">${name.slice(0, 24)}=${value.slice(0, 24)}</span> `)}${(message.data ?? `${message.data_base64.slice(0, 40)} (bytes)`).slice(0, 160)}</span>
  <//></li>`;
}
