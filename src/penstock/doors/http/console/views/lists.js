// The lists: topics, subscriptions, queues. Sorting, searching and paging are done by the server, so that thousands of
// resources cost no more than a page of them.

import { get } from "../lib/api.js";
import { ago, bytes, count, duration, lastPart, rate, shownName } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, refine } from "../lib/route.js";
import { html, View } from "../lib/view.js";
import { Sparkline } from "../parts/chart.js";
import { CLIENTS, Copy, Labels, Segments } from "../parts/facts.js";
import { Pager, Search, Table } from "../parts/table.js";
import { CreateQueue, CreateSubscription, CreateTopic } from "./creating.js";
import { isStuck } from "./picture.js";

const ROWS = 50;
const LONG = 24; // letters of a name that has a line of its own in a table
const PROJECTS = 200; // to choose from; where there are more, a name can be typed

class List extends View {
  async load(signal) {
    const { search = "", sort = "name", page = "", project = "" } = this.props.query;
    const [found, projects] = await Promise.all([
      get(this.path, { search, sort, project, page_token: page, page_size: ROWS, recent: 60 }, signal),
      get("/projects", { page_size: PROJECTS }, signal),
    ]);
    return { found, projects };
  }

  componentDidUpdate(before) {
    if (before.query !== this.props.query) this.reload();
  }

  show({ found, projects }) {
    const { query } = this.props;
    const rows = found[this.key];
    const names = query.show === "names";
    const usual = query.project || live.server?.default_project;
    return html`<section aria-label=${this.title}>
      <div class="bar"><h1>${this.title}</h1>
        <${Segments} label="Columns" value=${names ? "names" : "traffic"} options=${[["traffic", "Traffic"], ["names", "Names"]]}
          onChoose=${(value) => refine({ show: value === "names" ? "names" : "" })} />
        ${(projects.total > 1 || query.project) && html`<${Projects} known=${projects} chosen=${query.project ?? ""} />`}
        <${Search} value=${query.search ?? ""} onSearch=${(search) => refine({ search, page: "" })} />
        ${live.canChange && html`<button type="button" class="primary" onClick=${() => refine({ do: "new" })}>${this.create}</button>`}
      </div>
      <${Table} label=${this.title} columns=${names ? this.names(usual) : this.columns(usual)} rows=${rows} sort=${query.sort ?? "name"}
        onSort=${(sort) => refine({ sort: sort === "name" ? "" : sort, page: "" })} href=${this.href}
        empty=${query.search ? `Nothing is called "${query.search}".` : query.project ? `There are none in the project "${query.project}".` : this.empty} keyOf=${(row) => row.topic + row.name} />
      <${Pager} total=${found.total} shown=${rows.length} first=${!query.page} onFirst=${() => refine({ page: "" }, { step: true })}
        next=${found.next_page_token} onNext=${() => refine({ page: found.next_page_token }, { step: true })} />
      ${query.do === "new" && live.canChange && this.dialog(() => {
        refine({ do: "" });
        this.reload();
      })}
    </section>`;
  }

  /** What each kind of client calls it. */
  names(usual) {
    const wide = (client) => client !== "text" && client !== "python";
    const kind = (client, name) => (wide(client) || name.length < LONG ? "" : "wrap");
    const name = (client) => (row) => (row.names[client] ? html`<code class=${kind(client, row.names[client])}>${row.names[client]}</code> <${Copy} text=${row.names[client]} />` : html`<span class="quiet">cannot reach it</span>`);
    return [{ ...this.columns(usual)[0], narrow: true }, ...Object.entries(CLIENTS).map(([client, label]) => ({ label, wide: wide(client), stack: true, cell: name(client) }))];
  }
}

/** A choice of the project; where there are too many for one, a field that proposes the first of them. */
function Projects({ known: { projects, total }, chosen }) {
  const names = projects.map(({ project }) => project);
  const choose = (event) => refine({ project: event.target.value.trim(), page: "" });
  if (total > names.length) return html`<input key=${chosen} aria-label="Project" list="projects" defaultValue=${chosen} placeholder=${`All ${count(total)} projects`} onChange=${choose} />
    <datalist id="projects">${names.map((name) => html`<option value=${name} />`)}</datalist>`;
  if (chosen && !names.includes(chosen)) names.push(chosen); // nothing is in it
  return html`<select aria-label="Project" value=${chosen} onChange=${choose}>
    <option value="">All projects</option>
    ${names.map((name) => html`<option value=${name} selected=${name === chosen}>${name}</option>`)}
  </select>`;
}

const lastMinute = (what) => ({ label: "Last minute", minor: true, cell: (row) => html`<${Sparkline} values=${row.recent} label=${`${what} in the last minute`} />` });
const backlog = [
  { label: "Backlog", number: true, sort: "backlog", cell: (each) => count(each.backlog_messages) },
  { label: "In flight", number: true, sort: "in_flight", cell: (each) => count(each.in_flight_messages) },
  { label: "Oldest", number: true, sort: "oldest", cell: (each) => html`<span class=${isStuck(each) ? "bad" : ""} title=${isStuck(each) ? "Nothing is acked" : ""}>${each.backlog_messages ? duration(each.oldest_age_seconds) : "–"}</span>` },
  { label: "Delivered", number: true, sort: "rate", cell: (each) => rate(each.deliver_rate) },
  lastMinute("Delivered"),
  { label: "Acked", number: true, minor: true, sort: "acks", cell: (each) => rate(each.ack_rate) },
  { label: "Dead letters", number: true, minor: true, sort: "dead_letters", cell: (each) => count(each.dead_lettered) },
];

export class Topics extends List {
  title = "Topics";
  path = "/topics";
  key = "topics";
  create = "New topic";
  empty = "There are no topics yet. A publisher or the button above makes one.";
  href = (topic) => format(["topics", topic.name]);
  dialog = (onClose) => html`<${CreateTopic} project=${this.props.query.project} onClose=${onClose} />`;

  columns(usual) {
    return [
      { label: "Topic", sort: "name", cell: (topic) => shownName(topic, usual) },
      { label: "Messages", number: true, sort: "messages", cell: (topic) => count(topic.messages) },
      { label: "Size", number: true, sort: "bytes", cell: (topic) => bytes(topic.bytes) },
      { label: "Published", number: true, sort: "rate", cell: (topic) => rate(topic.publish_rate) },
      lastMinute("Published"),
      { label: "Subscriptions", number: true, sort: "subscriptions", cell: (topic) => count(topic.subscriptions) },
      { label: "Last publish", number: true, minor: true, sort: "published", cell: (topic) => ago(topic.last_published_at, live.timeOf(topic)) },
      { label: "Labels", minor: true, cell: (topic) => html`<${Labels} labels=${topic.labels} />` },
    ];
  }
}

export class Subscriptions extends List {
  title = "Subscriptions";
  path = "/subscriptions";
  key = "subscriptions";
  create = "New subscription";
  empty = "There are no subscriptions yet.";
  href = (each) => format(["subscriptions", each.name]);
  dialog = (onClose) => html`<${CreateSubscription} project=${this.props.query.project} onClose=${onClose} />`;

  columns(usual) {
    return [
      { label: "Subscription", sort: "name", narrow: true, cell: (each) => shownName(each, usual) },
      { label: "Topic", sort: "topic", narrow: true, cell: (each) => (each.detached ? html`<span class="quiet cut" title=${each.topic}>${lastPart(each.topic)}, deleted</span>` : html`<a class="cut" title=${each.topic} href=${format(["topics", each.topic])}>${lastPart(each.topic)}</a>`) },
      { label: "Kind", minor: true, cell: (each) => (each.detached ? "detached" : each.kind) },
      ...backlog,
    ];
  }
}

export class Queues extends List {
  title = "Queues";
  path = "/queues";
  key = "queues";
  create = "New queue";
  empty = "There are no queues yet: a queue is a topic with one subscription of the same name.";
  href = (queue) => format(["subscriptions", queue.subscription]);
  dialog = (onClose) => html`<${CreateQueue} project=${this.props.query.project} onClose=${onClose} />`;

  columns(usual) {
    return [{ label: "Queue", sort: "name", cell: (queue) => shownName({ project: queue.project, id: queue.name }, usual) }, ...backlog];
  }
}
