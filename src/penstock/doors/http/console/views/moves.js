// Moving messages: dead letters back to where they came from, or any messages to another topic.

import { get, post, remove } from "../lib/api.js";
import { ago, count, lastPart, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format, go } from "../lib/route.js";
import { Component, html, View } from "../lib/view.js";
import { Check, Dialog, Field } from "../parts/dialog.js";
import { Table } from "../parts/table.js";

export class Moves extends View {
  load(signal) {
    return get("/moves", { page_size: 100 }, signal);
  }

  show({ moves }) {
    const stop = (move) => async () => {
      await remove(`/moves/${encodeURIComponent(move.id)}`);
      this.reload();
    };
    return html`<section aria-label="Moves">
      <div class="bar"><h1>Moves</h1></div>
      <p class="quiet">Redrives and moves since the server was started. A new one begins on the page of a subscription.</p>
      <${Table} label="Moves" rows=${moves} keyOf=${(move) => move.id} empty="Nothing was moved yet." columns=${[
        { label: "From", cell: (move) => html`<a href=${format(["subscriptions", move.from])}>${lastPart(move.from)}</a>` },
        { label: "To", cell: (move) => (move.to ? lastPart(move.to) : "where each came from") },
        { label: "State", cell: (move) => html`<span class=${`state ${move.state}`}>${move.state}</span>` },
        { label: "Progress", cell: (move) => html`<progress max=${Math.max(1, move.total)} value=${move.moved + move.left} aria-label="Progress"></progress>` },
        { label: "Moved", number: true, cell: (move) => count(move.moved) },
        { label: "Left", number: true, cell: (move) => html`<span title=${reasons(move)}>${count(move.left)}</span>` },
        { label: "Unknown", number: true, cell: (move) => count(move.unknown) },
        { label: "Rate", number: true, cell: (move) => rate(move.rate) },
        { label: "Started", cell: (move) => ago(move.started_at, Date.now()) },
        { label: "", cell: (move) => (move.state === "running" && live.canChange ? html`<button type="button" onClick=${stop(move)}>Stop</button>` : move.reason) },
      ]} />
    </section>`;
  }
}

function reasons(move) {
  return Object.entries(move.reasons).map(([reason, number]) => `${reason}: ${count(number)}`).join(", ");
}

/** First a plan, then the move: the button says which. */
export class Redrive extends Component {
  state = { plan: null };

  body(values) {
    const ids = values.ids.split(/[\s,]+/).filter(Boolean);
    return {
      from: this.props.subscription.name,
      to: values.to || null,
      filter: values.filter,
      text: values.text,
      ids,
      max: Number(values.max) || 0,
      rate: Number(values.rate) || 0,
    };
  }

  async run(values) {
    const body = this.body(values);
    if (!this.state.plan || values.look === "on") {
      const plan = await post("/moves", { ...body, dry_run: true });
      this.setState({ plan });
      if (values.look === "on") throw new Error(sentence(plan));
    }
    await post("/moves", body);
    go(["moves"]);
  }

  render({ subscription, onClose }) {
    return html`<${Dialog} title=${`Move what waits in ${subscription.id}`} submit="Go" run=${(values) => this.run(values)} onClose=${onClose}>
      <p class="quiet">${plural(subscription.backlog_messages, "message")} wait. Each is published durably before it is acked here.</p>
      <${Field} label="To topic" name="to" hint="Empty: each dead letter goes back to the topic it came from" />
      <div class="columns">
        <${Field} label="Only with attributes" name="filter" hint='attributes.kind = "order"' />
        <${Field} label="Only with text" name="text" />
        <${Field} label="Only these ids" name="ids" hint="with spaces between them" />
        <${Field} label="At most" name="max" type="number" min="0" hint="messages; empty: all" />
        <${Field} label="A second at most" name="rate" type="number" min="0" hint="empty: as fast as it goes" />
      </div>
      <${Check} label="Only count, move nothing" name="look" />
    <//>`;
  }
}

export function sentence(plan) {
  const where = Object.entries(plan.by_topic).map(([topic, number]) => `${count(number)} to ${lastPart(topic)}`).join(", ");
  const left = plan.would_leave ? `; ${plural(plan.would_leave, "message")} would be left` : "";
  return `${plural(plan.would_move, "message")} would be moved${where ? ` (${where})` : ""}${left}${plan.complete ? "" : ", of those looked at so far"}.`;
}
