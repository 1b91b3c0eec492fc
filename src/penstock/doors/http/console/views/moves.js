// Moves of messages: dead letters back to their original topics, or any messages to another topic.

import { get, post, remove } from "../lib/api.js";
import { ago, count, lastPart, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format } from "../lib/route.js";
import { Component, html, View } from "../lib/view.js";
import { Choice, Dialog, Field } from "../parts/dialog.js";
import { Table } from "../parts/table.js";

const ALL = 1000; // the server keeps fewer moves
const POLL = 400; // milliseconds between two requests for a running move

export class Moves extends View {
  async load(signal) {
    const { moves } = await get("/moves", { page_size: ALL }, signal);
    const runs = (move) => Number(move.state === "running");
    return { moves: moves.sort((a, b) => runs(b) - runs(a) || Number(b.id) - Number(a.id)) };
  }

  show({ moves }) {
    const stop = (move) => async () => {
      await remove(`/moves/${encodeURIComponent(move.id)}`).catch(() => {});
      this.reload();
    };
    const source = ({ topic, from }) =>
      html`<a class="cut" title=${topic ?? from} href=${format(topic ? ["topics", topic] : ["subscriptions", from])}
        >${lastPart(topic ?? from)}</a>`;
    const target = ({ to }) =>
      to ? html`<a class="cut" title=${to} href=${format(["topics", to])}>${lastPart(to)}</a>` : "original topics";
    const isRunning = ({ state }) => state === "running";
    const columns = [
      { label: "From", cell: source },
      { label: "To", cell: target },
      { label: "State", cell: (move) => html`<span class=${`state ${move.state}`}>${move.state}</span>` },
      { label: "Progress", cell: (move) => html`<${Bar} move=${move} />` },
      { label: "Moved", number: true, cell: (move) => count(move.moved) },
      { label: "Left", number: true, cell: (move) => count(move.left) },
      { label: "Unknown", number: true, cell: (move) => (isRunning(move) ? "–" : count(move.unknown)) },
      { label: "Max rate", number: true, cell: (move) => (move.rate ? rate(move.rate) : "no limit") },
      { label: "Started", cell: (move) => ago(move.started_at, live.now()) },
      {
        label: "Reason",
        wide: true,
        cell: (move) =>
          isRunning(move) && live.canChange
            ? html`<button type="button" onClick=${stop(move)}>Stop</button>`
            : [move.reason, reasons(move)].filter(Boolean).join("; "),
      },
    ];
    return html`<section aria-label="Moves">
      <div class="bar"><h1>Moves</h1></div>
      <p class="quiet">Moves since the server started. Start a move on the page of a subscription or a topic.</p>
      <${Table} label="Moves" rows=${moves} keyOf=${(move) => move.id} columns=${columns} empty="No moves yet." />
    </section>`;
  }
}

const totalOf = ({ max, total }) => (max ? Math.min(max, total) : total);

function Bar({ move }) {
  const total = Math.max(1, totalOf(move));
  const value = move.state === "done" ? total : move.moved + (move.max ? 0 : move.left);
  return html`<progress max=${total} value=${value} aria-label="Progress"></progress>`;
}

function reasons(move) {
  return Object.entries(move.reasons)
    .map(([reason, number]) => `${reason}: ${count(number)}`)
    .join(", ");
}

export function outcome(move) {
  const isRunning = move.state === "running";
  const moved = `${plural(move.moved, "message")} moved`;
  const left = `${count(move.left)} ${isRunning ? "skipped" : "left"}${move.left ? ` (${reasons(move)})` : ""}`;
  const unknown = `${count(move.unknown)} ${isRunning ? "in progress" : "unknown"}`;
  return `${moved}, ${left}, ${unknown}.${move.reason ? ` ${move.reason}.` : ""}`;
}

/** A move of the messages of a topic, from one of its subscriptions, or from the topic if it has no subscription. */
export class RedriveOf extends Component {
  state = { sources: null, error: null };

  async componentDidMount() {
    const { topic } = this.props;
    try {
      const { subscriptions } = await get("/subscriptions", { topic: topic.name, page_size: 1000 });
      const read = subscriptions
        .filter((each) => each.kind !== "cursor")
        .map((each) => [each.name, `${each.id}: ${backlogOf(each)}`]);
      this.setState({ sources: read.length ? read : [[topic.name, `${topic.id} (no subscriptions)`]] });
    } catch (error) {
      this.setState({ sources: [], error: error.message });
    }
  }

  render({ title, ids, onClose }, { sources, error }) {
    if (sources === null) return null;
    if (error)
      return html`<${Dialog} title=${title} submit="Close" run=${async () => {}} onClose=${onClose}>
        <p class="problem" role="alert">${error}</p><//>`;
    return html`<${Redrive} title=${title} sources=${sources} ids=${ids} onClose=${onClose} />`;
  }
}

/** Properties: from, or sources to choose from; backlog: a sentence; ids: the only messages to move. */
export class Redrive extends Component {
  state = { which: this.props.ids ? "ids" : "all", plan: null, move: null, trouble: "" };
  edits = 0;

  componentWillUnmount() {
    this.gone = true;
  }

  body(values) {
    const { which } = this.state;
    const matching = which === "matching" ? { filter: values.filter, text: values.text, json: values.json } : {};
    const ids = which === "ids" ? { ids: values.ids.split(/[\s,]+/).filter(Boolean) } : {};
    if (which === "ids" && !ids.ids.length) throw new Error("Enter at least one ID.");
    if (which === "matching" && !Object.values(matching).some((each) => each.trim()))
      throw new Error("Enter attributes, a text or a JSON path to match.");
    return {
      from: values.from ?? this.props.from,
      to: values.to || null,
      ...matching,
      ...ids,
      max: Number(values.max) || 0,
      rate: Number(values.rate) || 0,
    };
  }

  async preview(dialog) {
    this.discardPlan();
    const { edits } = this;
    await dialog.attempt(async (values) => {
      const plan = await post("/moves", { ...this.body(values), dry_run: true });
      if (edits === this.edits) this.setState({ plan: sentence(plan) });
    });
  }

  discardPlan() {
    this.edits += 1;
    this.setState({ plan: null });
  }

  async run(values) {
    const started = await post("/moves", this.body(values));
    this.setState({ move: started, plan: null });
    return this.follow(started);
  }

  /** Wait until the move ends. If the dialog is closed, the move continues and is listed on the page of moves. */
  async follow(started) {
    let move = started;
    while (move.state === "running" && !this.gone) {
      await new Promise((resolve) => setTimeout(resolve, POLL));
      try {
        move = await get(`/moves/${encodeURIComponent(started.id)}`);
        if (move.started_at !== started.started_at) throw { status: 404 };
        this.setState({ move, trouble: "" });
      } catch (error) {
        this.setState({ trouble: "" });
        if (error.status === 404)
          throw new Error(
            "The server restarted and no longer knows this move. Start it again: it continues where it stopped.",
          );
        if (error.status === 401) throw error;
        this.setState({ trouble: error.message });
      }
    }
    if (move.state === "failed") throw new Error(outcome(move));
    return `${move.state === "stopped" ? "Stopped: " : ""}${outcome(move)}`;
  }

  render({ title, sources, backlog, ids, onClose }, { which, plan, move, trouble }) {
    const stop = () => remove(`/moves/${encodeURIComponent(move.id)}`).catch(() => {});
    const extra = (dialog) =>
      move
        ? html`<button type="button" disabled=${!dialog.state.busy} onClick=${stop}>Stop</button>`
        : html`<button type="button" disabled=${dialog.state.busy} onClick=${() => this.preview(dialog)}
            >Count</button>`;
    const total = move?.state === "running" && move.total ? ` Total: ${count(totalOf(move))}.` : "";
    return html`<${Dialog} title=${title} submit="Move" run=${(values) => this.run(values)} onClose=${onClose}
      extra=${extra}>
      <div onInput=${() => this.discardPlan()}>
      <p class="quiet">${backlog} Each message is published durably before it is acked here.</p>
      ${
        sources &&
        html`<${Choice} label="From" name="from">
          ${sources.map(([name, label]) => html`<option value=${name}>${label}</option>`)}<//>`
      }
      <${Field} label="To topic" name="to" hint="Empty: each dead letter returns to its original topic" />
      <${Choice} label="Messages" onChange=${(event) => this.setState({ which: event.target.value })}>
        <option value="all" selected=${which === "all"}>All waiting messages</option>
        <option value="matching" selected=${which === "matching"}>Matching messages</option>
        <option value="ids" selected=${which === "ids"}>Messages by ID</option><//>
      ${
        which === "matching" &&
        html`<div class="columns">
        <${Field} label="Attributes" name="filter" hint='attributes.kind = "order"' />
        <${Field} label="Text" name="text" />
        <${Field} label="JSON path" name="json" hint="$.total=5" /></div>`
      }
      ${
        which === "ids" &&
        html`<${Field} label="IDs" name="ids" value=${(ids ?? []).join(" ")} hint="Separated by spaces" />`
      }
      <div class="columns">
        <${Field} label="Max messages" name="max" type="number" min="0" hint="Empty: no limit" />
        <${Field} label="Max messages per second" name="rate" type="number" min="0" step="any" hint="Empty: no limit" />
      </div></div>
      ${plan && html`<p class="plan" role="status">${plan}</p>`}
      ${
        move &&
        html`<p class="plan"><${Bar} move=${move} /> ${outcome(move)}${total}${" "}
          <a href=${format(["moves"])}>All moves</a></p>`
      }
      ${trouble && html`<p class="problem" role="alert">${trouble}</p>`}
    <//>`;
  }
}

export function backlogOf({ backlog_messages, in_flight_messages }) {
  return `${plural(backlog_messages, "message")} in the backlog, ${count(in_flight_messages)} of them in flight.`;
}

export function sentence(plan) {
  const topics = Object.entries(plan.by_topic)
    .map(([topic, number]) => `${count(number)} to ${lastPart(topic)}`)
    .join(", ");
  const moved = `${plural(plan.would_move, "message")} would be moved${topics ? ` (${topics})` : ""}`;
  const left = plan.would_leave ? `, ${count(plan.would_leave)} would be left (${reasons(plan)})` : "";
  return `${moved}${left}.${plan.complete ? "" : " Not all messages were counted."}`;
}
