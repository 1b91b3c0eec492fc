// Moving messages: dead letters back to where they came from, or any messages to another topic.

import { get, post, remove } from "../lib/api.js";
import { ago, count, lastPart, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format } from "../lib/route.js";
import { Component, html, View } from "../lib/view.js";
import { Choice, Dialog, Field } from "../parts/dialog.js";
import { Table } from "../parts/table.js";

const ALL = 1000; // the server keeps fewer
const LOOK = 400; // milliseconds between two looks at a move that runs

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
    return html`<section aria-label="Moves">
      <div class="bar"><h1>Moves</h1></div>
      <p class="quiet">Redrives and moves since the server was started. A new one begins on the page of a subscription or of a topic.</p>
      <${Table} label="Moves" rows=${moves} keyOf=${(move) => move.id} empty="Nothing was moved yet." columns=${[
        { label: "From", cell: (move) => html`<a class="cut" title=${move.topic ?? move.from} href=${move.topic ? format(["topics", move.topic]) : format(["subscriptions", move.from])}>${lastPart(move.topic ?? move.from)}</a>` },
        { label: "To", cell: (move) => (move.to ? html`<a class="cut" title=${move.to} href=${format(["topics", move.to])}>${lastPart(move.to)}</a>` : "where each came from") },
        { label: "State", cell: (move) => html`<span class=${`state ${move.state}`}>${move.state}</span>` },
        { label: "Progress", cell: (move) => html`<${Bar} move=${move} />` },
        { label: "Moved", number: true, cell: (move) => count(move.moved) },
        { label: "Left", number: true, cell: (move) => count(move.left) },
        { label: "Unknown", number: true, cell: (move) => (move.state === "running" ? "–" : count(move.unknown)) },
        { label: "At most", number: true, cell: (move) => (move.rate ? rate(move.rate) : "no limit") },
        { label: "Started", cell: (move) => ago(move.started_at, live.now()) },
        { label: "Why", wide: true, cell: (move) => (move.state === "running" && live.canChange ? html`<button type="button" onClick=${stop(move)}>Stop</button>` : [move.reason, reasons(move)].filter(Boolean).join("; ")) },
      ]} />
    </section>`;
  }
}

/** More than `max` are not moved. */
const totalOf = ({ max, total }) => (max ? Math.min(max, total) : total);

function Bar({ move }) {
  const total = Math.max(1, totalOf(move));
  return html`<progress max=${total} value=${move.state === "done" ? total : move.moved + (move.max ? 0 : move.left)} aria-label="Progress"></progress>`;
}

function reasons(move) {
  return Object.entries(move.reasons).map(([reason, number]) => `${reason}: ${count(number)}`).join(", ");
}

/** What came of a move, in one sentence. */
export function outcome(move) {
  const why = move.reason ? ` ${move.reason}.` : "";
  const [stay, open] = move.state === "running" ? ["passed over", "under way"] : ["left", "unknown"]; // while it runs, the rest is to come
  return `${plural(move.moved, "message")} moved, ${count(move.left)} ${stay}${move.left ? ` (${reasons(move)})` : ""}, ${count(move.unknown)} ${open}.${why}`;
}

/** The same of a topic: of one of its subscriptions, or of the topic itself where nobody reads it. */
export class RedriveOf extends Component {
  state = { sources: null, error: null };

  async componentDidMount() {
    const { topic } = this.props;
    try {
      const { subscriptions } = await get("/subscriptions", { topic: topic.name, page_size: 1000 });
      const read = subscriptions.filter((each) => each.kind !== "cursor").map((each) => [each.name, `${each.id}: ${backlogOf(each)}`]);
      this.setState({ sources: read.length ? read : [[topic.name, `${topic.id}, which nobody reads`]] });
    } catch (error) {
      this.setState({ sources: [], error: error.message });
    }
  }

  render({ title, ids, onClose }, { sources, error }) {
    if (sources === null) return null;
    if (error) return html`<${Dialog} title=${title} submit="Close" run=${async () => {}} onClose=${onClose}><p class="problem" role="alert">${error}</p><//>`;
    return html`<${Redrive} title=${title} sources=${sources} ids=${ids} onClose=${onClose} />`;
  }
}

/** Properties: from, or sources to choose from; backlog: a sentence; ids: only these. First a plan, then the move. */
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
    if (which === "ids" && !ids.ids.length) throw new Error("Give at least one id.");
    if (which === "matching" && !Object.values(matching).some((each) => each.trim())) throw new Error("Say what they are to match: attributes, a text or a JSON path.");
    return { from: values.from ?? this.props.from, to: values.to || null, ...matching, ...ids, max: Number(values.max) || 0, rate: Number(values.rate) || 0 };
  }

  async look(dialog) {
    this.edited();
    const { edits } = this;
    await dialog.attempt(async (values) => {
      const plan = await post("/moves", { ...this.body(values), dry_run: true });
      if (edits === this.edits) this.setState({ plan: sentence(plan) });
    });
  }

  /** What was counted was of what stood there before. */
  edited() {
    this.edits += 1;
    this.setState({ plan: null });
  }

  async run(values) {
    const started = await post("/moves", this.body(values));
    this.setState({ move: started, plan: null });
    return this.follow(started);
  }

  /** Until it is over. It goes on by itself: who closes the dialog finds it among the moves. */
  async follow(started) {
    let move = started;
    while (move.state === "running" && !this.gone) {
      await new Promise((resolve) => setTimeout(resolve, LOOK));
      try {
        move = await get(`/moves/${encodeURIComponent(started.id)}`);
        if (move.started_at !== started.started_at) throw { status: 404 };
        this.setState({ move, trouble: "" });
      } catch (error) {
        this.setState({ trouble: "" });
        if (error.status === 404) throw new Error("The server was started anew and does not know this move any more. Start it again: it goes on where it was.");
        if (error.status === 401) throw error;
        this.setState({ trouble: error.message });
      }
    }
    if (move.state === "failed") throw new Error(outcome(move));
    return `${move.state === "stopped" ? "Stopped: " : ""}${outcome(move)}`;
  }

  render({ title, sources, backlog, ids, onClose }, { which, plan, move, trouble }) {
    return html`<${Dialog} title=${title} submit="Move" run=${(values) => this.run(values)} onClose=${onClose}
      extra=${(dialog) => (move
        ? html`<button type="button" disabled=${!dialog.state.busy} onClick=${() => remove(`/moves/${encodeURIComponent(move.id)}`).catch(() => {})}>Stop</button>`
        : html`<button type="button" disabled=${dialog.state.busy} onClick=${() => this.look(dialog)}>Only count</button>`)}>
      <div onInput=${() => this.edited()}>
      <p class="quiet">${backlog} Each is published durably before it is acked here.</p>
      ${sources && html`<${Choice} label="From" name="from">${sources.map(([name, label]) => html`<option value=${name}>${label}</option>`)}<//>`}
      <${Field} label="To topic" name="to" hint="Empty: each dead letter goes back to the topic it came from" />
      <${Choice} label="Which" onChange=${(event) => this.setState({ which: event.target.value })}>
        <option value="all" selected=${which === "all"}>All that wait</option>
        <option value="matching" selected=${which === "matching"}>Those that match</option>
        <option value="ids" selected=${which === "ids"}>These ids</option><//>
      ${which === "matching" && html`<div class="columns">
        <${Field} label="Attributes" name="filter" hint='attributes.kind = "order"' />
        <${Field} label="Text" name="text" />
        <${Field} label="JSON path" name="json" hint="$.total=5" /></div>`}
      ${which === "ids" && html`<${Field} label="Ids" name="ids" value=${(ids ?? []).join(" ")} hint="with spaces between them" />`}
      <div class="columns">
        <${Field} label="At most" name="max" type="number" min="0" hint="messages; empty: all" />
        <${Field} label="A second at most" name="rate" type="number" min="0" step="any" hint="empty: as fast as it goes" />
      </div></div>
      ${plan && html`<p class="plan" role="status">${plan}</p>`}
      ${move && html`<p class="plan"><${Bar} move=${move} /> ${outcome(move)} ${move.state === "running" && move.total ? `Of ${count(totalOf(move))}.` : ""} <a href=${format(["moves"])}>All moves</a></p>`}
      ${trouble && html`<p class="problem" role="alert">${trouble}</p>`}
    <//>`;
  }
}

export function backlogOf({ backlog_messages, in_flight_messages }) {
  return `${plural(backlog_messages, "message")} in the backlog, ${count(in_flight_messages)} of them in flight.`;
}

export function sentence(plan) {
  const where = Object.entries(plan.by_topic).map(([topic, number]) => `${count(number)} to ${lastPart(topic)}`).join(", ");
  const left = plan.would_leave ? `; ${plural(plan.would_leave, "message")} would be left (${reasons(plan)})` : "";
  return `${plural(plan.would_move, "message")} would be moved${where ? ` (${where})` : ""}${left}${plan.complete ? "" : ", of those looked at so far"}.`;
}
