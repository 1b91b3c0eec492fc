// Lists of topics, subscriptions and queues, which the server sorts, searches and pages.

import { get } from "../lib/api.js";
import { ago, bytes, count, displayName, duration, lastPart, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, refine } from "../lib/route.js";
import { html, View } from "../lib/view.js";
import { Sparkline } from "../parts/chart.js";
import { CLIENTS, Copy, Labels, Segments } from "../parts/facts.js";
import { Pager, Search, Table } from "../parts/table.js";
import { CreateQueue, CreateSubscription, CreateTopic } from "./creating.js";
import { isStuck } from "./picture.js";

const ROWS = 50;
const LONG = 24; // characters of a name that gets a line of its own in a table
const PROJECTS = 200; // in the choice; if there are more, the name can be typed
const COLUMN_SETS = [
  ["traffic", "Traffic"],
  ["names", "Names"],
];

class List extends View {
  async load(signal) {
    const { search = "", sort = "name", page = "", project = "" } = this.props.query;
    const [list, projects] = await Promise.all([
      get(this.path, { search, sort, project, page_token: page, page_size: ROWS, recent: 60 }, signal),
      get("/projects", { page_size: PROJECTS }, signal),
    ]);
    return { list, projects };
  }

  componentDidUpdate(before) {
    if (before.query !== this.props.query) this.reload();
  }

  show({ list, projects }) {
    const { query } = this.props;
    const rows = list[this.key];
    const names = query.show === "names";
    const project = query.project || live.server?.default_project;
    const columns = names ? this.nameColumns(project) : this.columns(project);
    const close = () => {
      refine({ do: "" });
      this.reload();
    };
    return html`<section aria-label=${this.title}>
      <div class="bar"><h1>${this.title}</h1>
        <${Segments} label="Columns" value=${names ? "names" : "traffic"} options=${COLUMN_SETS}
          onChoose=${(value) => refine({ show: value === "names" ? "names" : "" })} />
        ${(projects.total > 1 || query.project) && html`<${Projects} list=${projects} chosen=${query.project ?? ""} />`}
        <${Search} value=${query.search ?? ""} onSearch=${(search) => refine({ search, page: "" })} />
        ${
          live.canChange &&
          html`<button type="button" class="primary" onClick=${() => refine({ do: "new" })}>${this.create}</button>`
        }
      </div>
      <${Table} label=${this.title} columns=${columns} rows=${rows} sort=${query.sort ?? "name"} href=${this.href}
        onSort=${(sort) => refine({ sort: sort === "name" ? "" : sort, page: "" })}
        empty=${this.emptyText()} keyOf=${(row) => row.topic + row.name} />
      <${Pager} total=${list.total} shown=${rows.length} first=${!query.page} next=${list.next_page_token}
        onFirst=${() => refine({ page: "" }, { step: true })}
        onNext=${() => refine({ page: list.next_page_token }, { step: true })} />
      ${query.do === "new" && live.canChange && this.dialog(close)}
    </section>`;
  }

  emptyText() {
    const { search, project } = this.props.query;
    if (search) return `No names match "${search}".`;
    return project ? `No ${this.key} in project "${project}".` : this.empty;
  }

  nameColumns(project) {
    const isWide = (client) => client !== "text" && client !== "python";
    const kind = (client, name) => (isWide(client) || name.length < LONG ? "" : "wrap");
    const cell = (client) => (row) => {
      const name = row.names[client];
      if (!name) return html`<span class="quiet">not available</span>`;
      return html`<code class=${kind(client, name)}>${name}</code> <${Copy} text=${name} />`;
    };
    return [
      { ...this.columns(project)[0], narrow: true },
      ...Object.entries(CLIENTS).map(([client, label]) => ({
        label,
        wide: isWide(client),
        stack: true,
        cell: cell(client),
      })),
    ];
  }
}

/** A choice of the project. If there are too many projects, it is a field that suggests the first of them. */
function Projects({ list: { projects, total }, chosen }) {
  const names = projects.map(({ project }) => project);
  const choose = (event) => refine({ project: event.target.value.trim(), page: "" });
  if (total > names.length)
    return html`<input key=${chosen} aria-label="Project" list="projects" defaultValue=${chosen}
        placeholder=${`All ${count(total)} projects`} onChange=${choose} />
      <datalist id="projects">${names.map((name) => html`<option value=${name} />`)}</datalist>`;
  if (chosen && !names.includes(chosen)) names.push(chosen); // an empty project
  return html`<select aria-label="Project" value=${chosen} onChange=${choose}>
    <option value="">All projects</option>
    ${names.map((name) => html`<option value=${name} selected=${name === chosen}>${name}</option>`)}
  </select>`;
}

const lastMinute = (label) => ({
  label: "Last minute",
  minor: true,
  cell: (row) => html`<${Sparkline} values=${row.recent} label=${`${label} in the last minute`} />`,
});

function oldest(subscription) {
  const { backlog_messages, oldest_age_seconds } = subscription;
  const age = backlog_messages ? duration(oldest_age_seconds) : "–";
  if (!isStuck(subscription)) return html`<span>${age}</span>`;
  return html`<span class="bad" title="Messages are waiting, and none is acked">${age}</span>`;
}

const BACKLOG_COLUMNS = [
  { label: "Backlog", number: true, sort: "backlog", cell: (row) => count(row.backlog_messages) },
  { label: "In flight", number: true, sort: "in_flight", cell: (row) => count(row.in_flight_messages) },
  { label: "Oldest", number: true, sort: "oldest", cell: oldest },
  { label: "Delivered", number: true, sort: "rate", cell: (row) => rate(row.deliver_rate) },
  lastMinute("Delivered"),
  { label: "Acked", number: true, minor: true, sort: "acks", cell: (row) => rate(row.ack_rate) },
  { label: "Dead letters", number: true, minor: true, sort: "dead_letters", cell: (row) => count(row.dead_lettered) },
];

export function NoTopics() {
  const pubsub = live.server?.doors.find((door) => door.name === "pubsub" && door.address);
  const lines = [
    `penstock topics create orders --address ${location.host}`,
    pubsub && `export PUBSUB_EMULATOR_HOST=${pubsub.address}`,
  ].filter(Boolean);
  const create = live.canChange ? html`<a href=${format(["topics"], { do: "new" })}>Create one</a>` : "Create one";
  return html`No topics yet. ${create}, or paste one of these lines:
    ${lines.map((line) => html`<br /><code>${line}</code> <${Copy} text=${line} />`)}`;
}

export class Topics extends List {
  title = "Topics";
  path = "/topics";
  key = "topics";
  create = "New topic";
  href = (topic) => format(["topics", topic.name]);
  dialog = (onClose) => html`<${CreateTopic} project=${this.props.query.project} onClose=${onClose} />`;

  get empty() {
    return html`<${NoTopics} />`; // a new element each time, so that it renders again
  }

  columns(project) {
    return [
      { label: "Topic", sort: "name", cell: (topic) => displayName(topic, project) },
      { label: "Messages", number: true, sort: "messages", cell: (topic) => count(topic.messages) },
      { label: "Size", number: true, sort: "bytes", cell: (topic) => bytes(topic.bytes) },
      { label: "Published", number: true, sort: "rate", cell: (topic) => rate(topic.publish_rate) },
      lastMinute("Published"),
      { label: "Subscriptions", number: true, sort: "subscriptions", cell: (topic) => count(topic.subscriptions) },
      {
        label: "Last published",
        number: true,
        minor: true,
        sort: "published",
        cell: (topic) => ago(topic.last_published_at, live.timeOf(topic)),
      },
      { label: "Labels", minor: true, cell: (topic) => html`<${Labels} labels=${topic.labels} />` },
    ];
  }
}

export class Subscriptions extends List {
  title = "Subscriptions";
  path = "/subscriptions";
  key = "subscriptions";
  create = "New subscription";
  empty = "No subscriptions yet.";
  href = (subscription) => format(["subscriptions", subscription.name]);
  dialog = (onClose) => html`<${CreateSubscription} project=${this.props.query.project} onClose=${onClose} />`;

  columns(project) {
    return [
      { label: "Subscription", sort: "name", narrow: true, cell: (row) => displayName(row, project) },
      {
        label: "Topic",
        sort: "topic",
        narrow: true,
        cell: (row) =>
          row.detached
            ? html`<span class="quiet cut" title=${row.topic}>${lastPart(row.topic)}, deleted</span>`
            : html`<a class="cut" title=${row.topic} href=${format(["topics", row.topic])}>${lastPart(row.topic)}</a>`,
      },
      { label: "Kind", minor: true, cell: (row) => (row.detached ? "detached" : row.kind) },
      ...BACKLOG_COLUMNS,
    ];
  }
}

export class Queues extends List {
  title = "Queues";
  path = "/queues";
  key = "queues";
  create = "New queue";
  empty = "No queues yet. A queue is a topic with one subscription of the same name.";
  href = (queue) => format(["subscriptions", queue.subscription]);
  dialog = (onClose) => html`<${CreateQueue} project=${this.props.query.project} onClose=${onClose} />`;

  columns(project) {
    return [
      { label: "Queue", sort: "name", cell: (queue) => displayName({ ...queue, id: queue.name }, project) },
      ...BACKLOG_COLUMNS,
    ];
  }
}
