// Snapshots of subscriptions and of projects: which messages were unacked at an instant, to seek back to.

import { get, path, post, remove } from "../lib/api.js";
import { ago, clock, count, displayName, lastPart, plural } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, refine } from "../lib/route.js";
import { Component, html, View } from "../lib/view.js";
import { Choice, Dialog, Field } from "../parts/dialog.js";
import { Pager, Search, Table } from "../parts/table.js";
import { projectOf } from "./creating.js";

export class Snapshots extends View {
  async load(signal) {
    const { search = "", page = "", project = live.server?.default_project ?? "" } = this.props.query;
    const [projects, own] = await Promise.all([
      get("/projects", { page_size: 1000 }, signal),
      get("/snapshots", { search, page_token: page, page_size: 50 }, signal),
    ]);
    const chosen = project || projects.projects[0]?.project || "";
    const [whole, time] = chosen
      ? await Promise.all([
          get(path("projects", chosen, "snapshots"), { page_size: 100 }, signal),
          get(path("projects", chosen, "clock"), {}, signal),
        ])
      : [{ snapshots: [], total: 0 }, null];
    return { projects: projects.projects, own, whole, chosen, now: time ? live.timeOf(time) : live.now() };
  }

  componentDidUpdate(before) {
    if (before.query !== this.props.query) this.reload();
  }

  open(dialog, snapshot) {
    refine({ do: dialog ?? "", of: snapshot?.name ?? "" });
  }

  show({ projects, own, whole, chosen, now }) {
    const { query } = this.props;
    const names = [...new Set([chosen, ...projects.map(({ project }) => project)])].filter(Boolean);
    return html`<section aria-label="Snapshots">
      <div class="bar"><h1>Snapshots</h1></div>
      <p class="quiet">A snapshot records which messages are unacked now, and keeps these messages.</p>
      <div class="bar"><h2>Project snapshots</h2>
        <select aria-label="Project" onChange=${(event) => refine({ project: event.target.value })}>
          ${names.map((name) => html`<option value=${name} selected=${name === chosen}>${name}</option>`)}</select>
        ${this.button("New project snapshot", "primary", "whole")}</div>
      <${Table} label="Project snapshots" rows=${whole.snapshots} columns=${this.projectColumns(now)}
        empty="No snapshots of this project." />
      <div class="bar"><h2>Subscription snapshots</h2>
        <${Search} value=${query.search ?? ""} onSearch=${(search) => refine({ search, page: "" })} />
        ${this.button("New snapshot", "primary", "one")}</div>
      <${Table} label="Snapshots" rows=${own.snapshots} columns=${this.columns()}
        empty=${query.search ? `No names match "${query.search}".` : "No snapshots."} />
      <${Pager} total=${own.total} shown=${own.snapshots.length} first=${!query.page} next=${own.next_page_token}
        onFirst=${() => refine({ page: "" })} onNext=${() => refine({ page: own.next_page_token })} />
      ${this.dialog(chosen, own.snapshots, whole.snapshots, now)}
    </section>`;
  }

  button(label, kind, dialog, snapshot) {
    if (!live.canChange) return null;
    return html`<button type="button" class=${kind} onClick=${() => this.open(dialog, snapshot)}>${label}</button>`;
  }

  projectColumns(now) {
    const excluded = ({ without }) => {
      const reasons = without.map(({ name, reason }) => `${lastPart(name)}: ${reason}`);
      return html`<span title=${reasons.join("\n")}>${count(without.length)}</span>`;
    };
    const actions = (snapshot) =>
      html`<span class="row">
      ${this.button("Restore", "", "restore", snapshot)}
      ${this.button("Delete", "danger", "dropWhole", snapshot)}</span>`;
    return [
      { label: "Snapshot", cell: (snapshot) => snapshot.name },
      { label: "Created", cell: (snapshot) => created(snapshot, now) },
      { label: "Expires", cell: (snapshot) => ago(snapshot.expires_at, now, "") },
      { label: "Topics", number: true, cell: (snapshot) => count(snapshot.topics) },
      { label: "Subscriptions", number: true, cell: (snapshot) => count(snapshot.subscriptions) },
      { label: "Excluded", number: true, cell: excluded },
      { label: "Actions", cell: actions },
    ];
  }

  columns() {
    const project = live.server?.default_project;
    const actions = (snapshot) => {
      const [whole, part] = snapshot.id.split("~");
      const remover = this.button("Delete", "danger", "drop", snapshot);
      return html`<span class="row">${this.button("Seek", "", "seek", snapshot)}${
        part === undefined ? remover : html`<span class="quiet">part of ${whole}</span>`
      }</span>`;
    };
    const topicLink = ({ topic }) =>
      html`<a class="cut" title=${topic} href=${format(["topics", topic])}>${lastPart(topic)}</a>`;
    const name = (snapshot) => html`<span class="cut" title=${snapshot.name}>${displayName(snapshot, project)}</span>`;
    return [
      { label: "Snapshot", cell: name },
      { label: "Topic", cell: topicLink },
      { label: "Created", cell: (snapshot) => created(snapshot, live.timeOf(snapshot)) },
      { label: "Expires", cell: (snapshot) => ago(snapshot.expires_at, live.timeOf(snapshot)) },
      { label: "First unacked", number: true, minor: true, cell: (snapshot) => count(snapshot.first_unacked) },
      { label: "Actions", cell: actions },
    ];
  }

  dialog(project, own, whole, now) {
    const { do: dialog, of } = this.props.query;
    const ofProject = dialog === "restore" || dialog === "dropWhole";
    const snapshot = (ofProject ? whole : own).find(({ name }) => name === of);
    if (!live.canChange || (of && !snapshot)) return null;
    const close = () => {
      this.open(null);
      this.reload();
    };
    switch (dialog) {
      case "one":
        return html`<${CreateSnapshot} project=${project} onClose=${close} />`;
      case "whole":
        return html`<${Dialog} title=${`New snapshot of ${project}`} submit="Create" onClose=${close}
          run=${async (values) => contents(await post(path("projects", project, "snapshots"), { name: values.name }))}>
          <${Field} label="Name" name="name" required autofocus
            hint="Records the unacked messages of every subscription at the same instant" /><//>`;
      case "seek":
        return html`<${SeekToSnapshot} snapshot=${snapshot} onClose=${close} />`;
      case "restore":
        return html`<${Restore} snapshot=${snapshot} now=${now} onClose=${close} />`;
      case "drop":
        return html`<${Dialog} title="Delete this snapshot" danger submit="Delete" typed=${snapshot.id} onClose=${close}
          run=${async () => void (await remove(path("snapshots", snapshot.name)))}>
          <p>Subscriptions can no longer seek to it. Messages that only this snapshot needs are deleted.</p><//>`;
      case "dropWhole":
        return html`<${Dialog} title="Delete this project snapshot" danger submit="Delete" typed=${snapshot.name}
          onClose=${close}
          run=${async () => void (await remove(path("projects", snapshot.project, "snapshots", snapshot.name)))}>
          <p>The project ${snapshot.project} can no longer be restored to it.</p><//>`;
      default:
        return null;
    }
  }
}

const created = ({ created_at }, now) => html`<span title=${clock(created_at)}>${ago(created_at, now)}</span>`;

function contents({ subscriptions, topics, without }) {
  const excluded = without.length ? ` Excluded: ${plural(without.length, "subscription")} (${without[0].reason}).` : "";
  return `Contains ${plural(subscriptions, "subscription")} of ${plural(topics, "topic")}.${excluded}`;
}

export function CreateSnapshot({ subscription, project, onClose }) {
  const run = async (values) => {
    const source = subscription ?? values.subscription;
    const snapshot = await post("/snapshots", {
      name: values.name,
      subscription: source,
      project: projectOf(values.name, projectOf(source, project)),
    });
    const { id, first_unacked, expires_at } = snapshot;
    return `Created snapshot ${id}. First unacked offset: ${count(first_unacked)}. Expires: ${clock(expires_at)}.`;
  };
  return html`<${Dialog} title="New snapshot" submit="Create" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus />
    ${
      subscription
        ? html`<p class="quiet">Subscription: <code>${subscription}</code></p>`
        : html`<${Field} label="Subscription" name="subscription" required />`
    }
  <//>`;
}

class SeekToSnapshot extends Component {
  state = { names: null, name: "", plan: null, error: null };

  async componentDidMount() {
    try {
      const { subscriptions } = await get("/subscriptions", { topic: this.props.snapshot.topic, page_size: 1000 });
      this.setState({ names: subscriptions.map((each) => each.name) });
      if (subscriptions.length) await this.choose(subscriptions[0].name);
    } catch (error) {
      this.setState({ names: [], error: error.message });
    }
  }

  seek(name, more) {
    return post(`${path("subscriptions", name)}/seek`, { snapshot: this.props.snapshot.name, ...more });
  }

  async choose(name) {
    this.setState({ name, plan: null, error: null });
    try {
      this.setState({ plan: await this.seek(name, { dry_run: true }) });
    } catch (error) {
      this.setState({ error: error.message });
    }
  }

  render({ snapshot, onClose }, { names, name, plan, error }) {
    if (names === null) return null;
    const title = `Seek to ${snapshot.id}`;
    if (!names.length)
      return html`<${Dialog} title=${title} submit="Close" run=${async () => {}} onClose=${onClose}>
      <p>${error ?? `${lastPart(snapshot.topic)} has no subscriptions.`}</p><//>`;
    const run = async () => seekResult(await this.seek(name));
    const option = (full) => html`<option value=${full} selected=${full === name}>${lastPart(full)}</option>`;
    return html`<${Dialog} title=${title} submit="Seek" run=${run} onClose=${onClose}>
      <${Choice} label="Subscription" onChange=${(event) => this.choose(event.target.value)}>${names.map(option)}<//>
      <p class="plan" role="status">${plan ? seekSentence(plan) : error ? "" : "Counting..."}</p>
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    <//>`;
  }
}

export function seekSentence({ exact, come_back, skipped, backlog_before, backlog_after }) {
  const most = exact ? "" : "at most "; // the filter is not compared before the messages are read
  const redelivered = `${most}${plural(come_back, "acked message")} will be delivered again`;
  const effect = `${redelivered}, and ${most}${plural(skipped, "message")} skipped.`;
  const backlog = `Backlog: ${most}${count(backlog_before)} now, ${most}${count(backlog_after)} afterwards.`;
  return `${effect[0].toUpperCase()}${effect.slice(1)} ${backlog}`;
}

export function seekResult({ exact, backlog_after }) {
  return `The backlog is now ${exact ? "" : "at most "}${plural(backlog_after, "message")}.`;
}

class Restore extends Component {
  state = { plan: null, error: null };

  async componentDidMount() {
    try {
      this.setState({ plan: await this.restore({ dry_run: true }) });
    } catch (error) {
      this.setState({ error: error.message });
    }
  }

  restore(body) {
    const { project, name } = this.props.snapshot;
    return post(`${path("projects", project, "snapshots", name)}/restore`, body);
  }

  render({ snapshot, now, onClose }, { plan, error }) {
    const { name, project, created_at } = snapshot;
    const problems = plan?.subscriptions.filter(({ reason }) => reason) ?? [];
    const problem = (record) =>
      html`<li><code>${lastPart(record.name)}</code>: ${record.outcome}, ${record.reason}</li>`;
    const effect = plan && `Restores every subscription of ${project} to its state ${ago(created_at, now)}`;
    const newer = plan?.untouched.slice(0, 20).map(lastPart).join(", ");
    const waiting = error ? "" : "Checking...";
    return html`<${Dialog} title=${`Restore ${name}`} danger submit="Restore" typed=${name} onClose=${onClose}
      run=${async () => `Done: ${restoreSentence(await this.restore({}))}`}>
      <p class="plan" role="status">${plan ? `${effect}: ${restoreSentence(plan)}` : waiting}</p>
      ${problems.length > 0 && html`<ul>${problems.slice(0, 20).map(problem)}</ul>`}
      ${plan?.untouched.length > 0 && html`<p class="quiet">Created later and not changed: ${newer}</p>`}
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    <//>`;
  }
}

function restoreSentence({ restored, made_again, missing }) {
  return `${count(restored)} restored, ${count(made_again)} recreated, ${count(missing)} missing.`;
}
