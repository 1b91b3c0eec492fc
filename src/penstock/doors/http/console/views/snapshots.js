// Snapshots: what was unacked at an instant, of one subscription or of a whole project, to go back to.

import { get, path, post, remove } from "../lib/api.js";
import { ago, clock, count, lastPart, plural, shownName } from "../lib/format.js";
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
    const [whole, clock] = chosen
      ? await Promise.all([get(path("projects", chosen, "snapshots"), { page_size: 100 }, signal), get(path("projects", chosen, "clock"), {}, signal)])
      : [{ snapshots: [], total: 0 }, null];
    return { projects: projects.projects, own, whole, chosen, now: clock ? live.timeOf(clock) : live.now() };
  }

  componentDidUpdate(before) {
    if (before.query !== this.props.query) this.reload();
  }

  open(dialog, what) {
    refine({ do: dialog ?? "", of: what?.name ?? "" }); // an address of its own, as everything that is shown
  }

  show({ projects, own, whole, chosen, now }) {
    const { query } = this.props;
    const usual = live.server?.default_project;
    const act = (label, dialog, danger) => (what) =>
      live.canChange && html`<button type="button" class=${danger ? "danger" : ""} onClick=${() => this.open(dialog, what)}>${label}</button>`;
    const [seek, drop, restore, dropWhole] = [act("Seek to it", "seek"), act("Delete", "drop", true), act("Go back", "restore"), act("Delete", "dropWhole", true)];
    return html`<section aria-label="Snapshots">
      <div class="bar"><h1>Snapshots</h1></div>
      <p class="quiet">A snapshot remembers what is unacked now, and keeps the messages for it.</p>
      <div class="bar"><h2>Of the whole project</h2>
        <select aria-label="Project" onChange=${(event) => refine({ project: event.target.value })}>
          ${[...new Set([chosen, ...projects.map((each) => each.project)])].filter(Boolean).map((each) => html`<option value=${each} selected=${each === chosen}>${each}</option>`)}</select>
        ${live.canChange && html`<button type="button" class="primary" onClick=${() => this.open("whole")}>New project snapshot</button>`}</div>
      <${Table} label="Project snapshots" rows=${whole.snapshots} empty="This project has no snapshot." columns=${[
        { label: "Snapshot", cell: (each) => each.name },
        { label: "Taken", cell: (each) => html`<span title=${clock(each.created_at)}>${ago(each.created_at, now)}</span>` },
        { label: "Ends", cell: (each) => each.expires_at && ago(each.expires_at, now) },
        { label: "Topics", number: true, cell: (each) => count(each.topics) },
        { label: "Subscriptions", number: true, cell: (each) => count(each.subscriptions) },
        { label: "Not in it", number: true, cell: (each) => html`<span title=${each.without.map((one) => `${lastPart(one.name)}: ${one.reason}`).join("\n")}>${count(each.without.length)}</span>` },
        { label: "Actions", cell: (each) => html`<span class="row">${restore(each)}${dropWhole(each)}</span>` },
      ]} />
      <div class="bar"><h2>Of one subscription</h2><${Search} value=${query.search ?? ""} onSearch=${(search) => refine({ search, page: "" })} />
        ${live.canChange && html`<button type="button" class="primary" onClick=${() => this.open("one")}>New snapshot</button>`}</div>
      <${Table} label="Snapshots" rows=${own.snapshots} empty=${query.search ? `Nothing is called "${query.search}".` : "There are no snapshots."} columns=${[
        { label: "Snapshot", cell: (each) => html`<span class="cut" title=${each.name}>${shownName(each, usual)}</span>` },
        { label: "Topic", cell: (each) => html`<a class="cut" title=${each.topic} href=${format(["topics", each.topic])}>${lastPart(each.topic)}</a>` },
        { label: "Taken", cell: (each) => html`<span title=${clock(each.created_at)}>${ago(each.created_at, live.timeOf(each))}</span>` },
        { label: "Ends", cell: (each) => ago(each.expires_at, live.timeOf(each)) },
        { label: "First unacked", number: true, cell: (each) => count(each.first_unacked) },
        { label: "Actions", cell: (each) => html`<span class="row">${seek(each)}${each.id.includes("~") ? html`<span class="quiet">part of ${each.id.split("~")[0]}</span>` : drop(each)}</span>` },
      ]} />
      <${Pager} total=${own.total} shown=${own.snapshots.length} first=${!query.page} onFirst=${() => refine({ page: "" })} next=${own.next_page_token} onNext=${() => refine({ page: own.next_page_token })} />
      ${this.dialog(chosen, own.snapshots, whole.snapshots, now)}
    </section>`;
  }

  dialog(project, own, whole, now) {
    const { do: dialog, of } = this.props.query;
    const ofProject = dialog === "restore" || dialog === "dropWhole";
    const what = (ofProject ? whole : own).find((each) => each.name === of);
    if (!live.canChange || (of && !what)) return null; // it is gone, or on another page
    const close = () => {
      this.open(null);
      this.reload();
    };
    switch (dialog) {
      case "one":
        return html`<${CreateSnapshot} project=${project} onClose=${close} />`;
      case "whole":
        return html`<${Dialog} title=${`Snapshot of ${project}`} submit="Take it" onClose=${close}
          run=${async (values) => taken(await post(path("projects", project, "snapshots"), { name: values.name }))}>
          <${Field} label="Name" name="name" required autofocus hint="What is unacked on every subscription, at one instant" /><//>`;
      case "seek":
        return html`<${SeekToSnapshot} snapshot=${what} onClose=${close} />`;
      case "restore":
        return html`<${Restore} snapshot=${what} now=${now} onClose=${close} />`;
      case "drop":
        return html`<${Dialog} title="Delete this snapshot" danger submit="Delete" typed=${what.id} onClose=${close}
          run=${async () => void (await remove(path("snapshots", what.name)))}>
          <p>No subscription can go back to it any more; messages that only it needs are forgotten.</p><//>`;
      case "dropWhole":
        return html`<${Dialog} title="Delete this project snapshot" danger submit="Delete" typed=${what.name} onClose=${close}
          run=${async () => void (await remove(path("projects", what.project, "snapshots", what.name)))}>
          <p>${plural(what.subscriptions, "subscription")} of ${what.project} cannot go back to it any more.</p><//>`;
      default:
        return null;
    }
  }
}

function taken(snapshot) {
  const without = snapshot.without.length ? ` ${plural(snapshot.without.length, "subscription")} could not be held: ${snapshot.without[0].reason}` : "";
  return `${plural(snapshot.subscriptions, "subscription")} of ${plural(snapshot.topics, "topic")} are in it.${without}`;
}

export function CreateSnapshot({ subscription, project, onClose }) {
  const run = async (values) => {
    const of = subscription ?? values.subscription;
    const made = await post("/snapshots", { name: values.name, subscription: of, project: projectOf(values.name, projectOf(of, project)) });
    return `Snapshot ${made.id} remembers what is unacked from offset ${count(made.first_unacked)} on, until ${clock(made.expires_at)}.`;
  };
  return html`<${Dialog} title="New snapshot" submit="Take it" run=${run} onClose=${onClose}>
    <${Field} label="Name" name="name" required autofocus />
    ${subscription ? html`<p class="quiet">Of <code>${subscription}</code></p>` : html`<${Field} label="Subscription" name="subscription" required />`}
  <//>`;
}

/** Which subscription of the topic goes back; what that changes is said first. */
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
    if (!names.length) return html`<${Dialog} title=${`Seek to ${snapshot.id}`} submit="Close" run=${async () => {}} onClose=${onClose}>
      <p>${error ?? `No subscription reads ${lastPart(snapshot.topic)}.`}</p><//>`;
    const run = async () => sought(await this.seek(name));
    return html`<${Dialog} title=${`Seek to ${snapshot.id}`} submit="Seek" run=${run} onClose=${onClose}>
      <${Choice} label="Subscription" onChange=${(event) => this.choose(event.target.value)}>${names.map((each) => html`<option value=${each} selected=${each === name}>${lastPart(each)}</option>`)}<//>
      <p class="plan" role="status">${plan ? seekSentence(plan) : error ? "" : "Counting."}</p>
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    <//>`;
  }
}

export function seekSentence(plan) {
  const most = plan.exact ? "" : "at most "; // its filter is only asked when they are read
  const sentence = `${most}${plural(plan.come_back, "acked message")} come back, ${most}${plural(plan.skipped, "message")} of the backlog are skipped: it is ${most}${count(plan.backlog_before)} now, ${most}${count(plan.backlog_after)} afterwards.`;
  return sentence[0].toUpperCase() + sentence.slice(1);
}

/** What a seek came to. */
export function sought({ exact, backlog_after }) {
  return `The backlog is ${exact ? "" : "at most "}${plural(backlog_after, "message")} now.`;
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
    const odd = plan?.subscriptions.filter((each) => each.reason) ?? [];
    return html`<${Dialog} title=${`Go back to ${snapshot.name}`} danger submit="Go back" typed=${snapshot.name} onClose=${onClose}
      run=${async () => `Done: ${restoreSentence(await this.restore({}))}`}>
      <p class="plan" role="status">${plan ? `Every subscription of ${snapshot.project} goes back to what was unacked ${ago(snapshot.created_at, now)}: ${restoreSentence(plan)}` : error ? "" : "Looking."}</p>
      ${odd.length > 0 && html`<ul>${odd.slice(0, 20).map((each) => html`<li><code>${lastPart(each.name)}</code>: ${each.outcome}, ${each.reason}</li>`)}</ul>`}
      ${plan?.untouched.length > 0 && html`<p class="quiet">Came later, and stay as they are: ${plan.untouched.slice(0, 20).map(lastPart).join(", ")}</p>`}
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    <//>`;
  }
}

function restoreSentence(plan) {
  return `${count(plan.restored)} restored, ${count(plan.made_again)} made again, ${count(plan.missing)} missing.`;
}
