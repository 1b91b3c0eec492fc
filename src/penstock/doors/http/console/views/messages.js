// The messages of a topic, by offset or time, with filters by attribute, text and JSON path. Reading consumes nothing.

import { get, lines, path } from "../lib/api.js";
import { ago, bytes, count, plural } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, parse, readPlace, refine } from "../lib/route.js";
import { createRef, html, View } from "../lib/view.js";
import { walk } from "../parts/table.js";
import { Message } from "./message.js";

const PAGE = 100;
const FOUND_MOST = 1000;
const BODY = 400; // bytes of each body in the list
const FOLLOW = 2000; // milliseconds
const FOLLOW_GONE = 10_000; // milliseconds while the topic does not exist
const DRAW = 100; // milliseconds between two updates of search results

/** Return the query for the server: from an offset or time on, or the newest first, perhaps before an offset. */
function serverQuery({ from = "", at = "", until = "", filter = "", text = "", json = "" }) {
  const place = at || from ? readPlace(at || from) : until ? { until, order: "desc" } : { order: "desc" };
  return { ...place, filter, text, json, body_bytes: BODY };
}

const isDescending = ({ from, at, order }) => (order || (from || at ? "asc" : "desc")) === "desc";

const listQuery = ({ open, as, do: dialog, ...rest }) => JSON.stringify(rest);

const isSame = (topic, before) => topic.created_at === before.created_at && topic.next_offset >= before.next_offset;

/**
 * Older and Newer keep the order of the rows, which is that of the first page: ascending if the address has a start. If
 * the server reads a page in the other direction, the page is reversed, and `order` in the address says so.
 */
export class Messages extends View {
  refreshes = false;
  form = createRef();

  async load(signal) {
    const here = path("topics", this.props.name);
    const [topic, answer] = await Promise.all([get(here, {}, signal), this.page(`${here}/messages`, signal)]);
    const before = this.state.data?.topic;
    if (before && !this.gone && !isSame(topic, before)) this.startOver();
    return { topic, ...answer };
  }

  async page(where, signal) {
    try {
      const query = serverQuery(this.props.query);
      const page = await get(where, { ...query, max: PAGE }, signal);
      const descending = isDescending(this.props.query);
      const down = query.order === "desc";
      if (down !== descending) page.messages.reverse();
      const [first, next] = down
        ? [page.next_offset, page.next_offset + page.scanned]
        : [page.next_offset - page.scanned, page.next_offset];
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
    if (listQuery(before.query) !== listQuery(this.props.query)) this.restart();
  }

  componentWillUnmount() {
    super.componentWillUnmount();
    this.search?.abort();
  }

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

  startOver() {
    refine({ open: "", do: "" });
    this.restartSearch();
  }

  restart() {
    this.restartSearch();
    this.reload();
  }

  restartSearch() {
    this.search?.abort();
    this.search = null; // its results are not shown any more
    this.setState({ searching: false, found: null, refused: null, broken: null });
    if (this.props.query.all) this.searchAll();
  }

  go(query) {
    const before = location.hash;
    refine({ from: "", at: "", until: "", order: "", all: "", open: "", do: "", ...query }, { step: true });
    if (location.hash === before) this.restart();
  }

  latest() {
    const { start, time } = this.form.current.elements;
    start.value = time.value = ""; // typed filters stay
    this.go({});
  }

  submit(event) {
    event.preventDefault();
    const { start, time, filter, text, json } = Object.fromEntries(new FormData(event.target));
    try {
      if (time && start && start !== event.target.elements.start.defaultValue)
        throw new Error("Enter From or a time, not both.");
      this.go({ ...readPlace(time || start), filter, text, json });
    } catch (error) {
      this.setState({ refused: error.message });
    }
  }

  startSearch() {
    if (this.props.query.all) this.restart();
    else refine({ all: "yes", open: "" }, { step: true });
  }

  /** Search the whole topic, and show messages as they are found, until the end or until the user stops the search. */
  async searchAll() {
    const { filter = "", text = "", json = "" } = this.props.query;
    const order = isDescending(this.props.query) ? "desc" : "asc";
    const search = (this.search = new AbortController());
    const found = [];
    let first; // the offset at which the search starts
    let looked = 0;
    let rested = -Infinity;
    let timer; // of the next update
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
        timer ??= setTimeout(() => draw((timer = undefined)), DRAW);
        if (performance.now() - rested < DRAW) continue;
        await new Promise((resolve) => setTimeout(resolve)); // lets the browser paint and handle Stop
        rested = performance.now();
      }
    } catch (error) {
      if (!search.signal.aborted) this.setState({ broken: `Search failed: ${error.message}` });
    }
    clearTimeout(timer);
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
    const position = JSON.stringify([query.from, query.at, query.until]);
    const conditions = JSON.stringify([query.filter, query.text, query.json]);
    const row = (message) =>
      html`<${Row} key=${message.offset} message=${message} now=${now} isGone=${message.offset < topic.first_offset}
        isOpen=${String(message.offset) === query.open} />`;
    return html`<section aria-label=${`Messages of ${topic.id}`}>
      <div class="bar">
        <h1><span class="kind">Messages of</span> <a href=${format(["topics", topic.name])}>${topic.id}</a></h1></div>
      <form class="filters" ref=${this.form} key=${conditions} onSubmit=${(event) => this.submit(event)}>
        <label>From <input name="start" key=${position} defaultValue=${query.order ? "" : query.at || query.from || ""}
          placeholder="latest"
          title="An offset, -100 for the last 100 messages, -10m for the last 10 minutes, or a time" /></label>
        <label>or time <input name="time" key=${position} type="datetime-local" step="1" /></label>
        <label>Attributes <input name="filter" defaultValue=${query.filter ?? ""}
          placeholder='attributes.kind = "order"' /></label>
        <label>Text <input name="text" data-search defaultValue=${query.text ?? ""} /></label>
        <label>JSON path <input name="json" defaultValue=${query.json ?? ""} placeholder="$.total=5" /></label>
        <button type="submit" class="primary">Show</button>
      </form>
      ${refused || this.state.broken ? html`<p class="problem" role="alert">${refused || this.state.broken}</p>` : null}
      ${this.pager(data, refused)}
      <div class=${query.open ? "split open" : "split"}>
        ${
          !refused &&
          html`<ol class="messages" aria-label="Messages" onKeyDown=${(event) => walk(event, "a.message")}>
          ${rows.map(row)}
          ${!rows.length && html`<li class="empty">${emptyText(isFiltered(query), data, searching)}</li>`}
        </ol>`
        }
        ${
          query.open &&
          html`<${Message} key=${query.open} topic=${topic} offset=${query.open} shownAs=${query.as ?? ""}
            dialog=${query.do} onChange=${() => this.reload()} />`
        }
      </div>
    </section>`;
  }

  pager({ topic, page, descending, first, next }, refused) {
    const { query } = this.props;
    const { found, searching, looked } = this.state;
    const offsets = `offsets ${count(topic.first_offset)} to ${count(topic.next_offset)}`;
    const latest = html`<button type="button" onClick=${() => this.latest()}>Latest</button>`;
    if (refused) return html`<p class="pager"><span class="quiet">${offsets}</span>${latest}</p>`;
    const rows = found ?? page.messages;
    const limit = found?.length >= FOUND_MOST ? ` (the limit)` : "";
    const searched = isFiltered(query) ? ` found${limit}, ${count(found ? looked : page.scanned)} searched` : "";
    const gone = rows.filter((message) => message.offset < topic.first_offset).length;
    const deleted = gone ? `; ${count(gone)} deleted since` : "";
    const newer = topic.next_offset - next;
    const atTheEnd = !found && !query.from && !query.at && !query.until;
    const older = { until: first, order: descending ? "" : "asc" };
    return html`<p class="pager">
      <span class="quiet">${offsets}; ${plural(rows.length, "message")}${searched}${deleted}</span>
      <button type="button" disabled=${first <= topic.first_offset || found}
        onClick=${() => this.go(older)}>Older</button>
      <button type="button" disabled=${newer <= 0 || found}
        onClick=${() => this.go({ from: next, order: descending ? "desc" : "" })}>Newer</button>
      ${latest}
      ${isFiltered(query) && (searching ? this.progress(topic, looked) : this.searchButton())}
      ${
        atTheEnd &&
        html`<button type="button" class="newer" disabled=${newer <= 0} onClick=${() => this.reload()}
          >${newer > 0 ? `Show ${plural(newer, "newer message")}` : "No newer messages"}</button>`
      }
    </p>`;
  }

  progress(topic, looked) {
    return html`<progress max=${Math.max(1, topic.messages)} value=${looked} aria-label="Searched"></progress>
      <button type="button" onClick=${() => this.search.abort()}>Stop</button>`;
  }

  searchButton() {
    return html`<button type="button" onClick=${() => this.startSearch()}>Search the whole topic</button>`;
  }
}

const isFiltered = ({ filter, text, json }) => Boolean(filter || text || json);

function emptyText(filtered, { page, down }, searching) {
  if (searching) return "Searching...";
  if (!filtered) return "No messages.";
  if (page.complete) return "No matching messages.";
  const button = down ? "Older" : "Newer";
  return `No match in ${count(page.scanned)} messages. Continue with ${button}, or with Search the whole topic.`;
}

/** A message in the list. A message that the topic no longer keeps is not a link. */
function Row({ message, isOpen, now, isGone }) {
  const { parts, query } = parse(location.hash);
  const attributes = Object.entries(message.attributes).slice(0, 4);
  const tag = ([name, value]) => html`<span class="tag">${name.slice(0, 24)}=${value.slice(0, 24)}</span> `;
  const text = (message.data ?? `${message.data_base64.slice(0, 40)} (binary)`).slice(0, 160);
  const key = message.ordering_key.slice(0, 40);
  return html`<li><${isGone ? "span" : "a"} class=${isOpen ? "message on" : "message"}
    aria-current=${isOpen ? "true" : undefined}
    href=${isGone ? undefined : format(parts, { ...query, open: message.offset, do: "" })}>
    <span class="offset">${count(message.offset)}</span>
    <span class="quiet">${ago(message.publish_time, now)}</span>
    <span class="quiet">${bytes(message.size)}</span>
    <span class="text">${key && html`<span class="tag">${key}</span> `}${attributes.map(tag)}${text}</span>
  <//></li>`;
}
