// Who is there for the messages of a subscription: consumers, what they have, and readers of the log with a cursor.

import { ago, bytes, clock, count, plural } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format } from "../lib/route.js";
import { html } from "../lib/view.js";
import { Facts } from "../parts/facts.js";
import { Pager, Table } from "../parts/table.js";

const KINDS = { stream: "open stream", pull: "waits in a pull", push: "pushed to", cursor: "reads the log" };

/** `now`: the time of the subscription; who is connected is dated by the server, leases by it. */
export function Consumers({ found, now }) {
  return html`<${Table} label="Consumers" rows=${found.consumers} keyOf=${(each) => `${each.door} ${each.holder} ${each.address} ${each.since}`}
      empty="Nobody is connected, and nobody has messages." columns=${[
        { label: "Consumer", wide: true, cell: (each) => html`<span class="name">${each.holder ?? "not known"}</span>` },
        { label: "Door", cell: (each) => each.door ?? "not known" },
        { label: "Connected", cell: (each) => KINDS[each.kind] ?? "not connected" },
        { label: "Address", cell: (each) => each.address && html`<code>${each.address}</code>` },
        { label: "Since", number: true, cell: (each) => each.since && ago(each.since, each.kind ? live.now() : now) },
        { label: "Window", number: true, cell: (each) => each.window && count(each.window) },
        { label: "Has", number: true, cell: (each) => count(each.leases) },
        { label: "First ends", number: true, cell: (each) => each.next_deadline && ago(each.next_deadline, now) },
      ]} />
    ${found.total > found.consumers.length && html`<p class="quiet">${count(found.consumers.length)} of ${count(found.total)}</p>`}
    ${!found.complete && html`<p class="quiet">Only the first 20,000 leases were looked at.</p>`}`;
}

/** `page`: the place in the list, empty at its beginning; onPage(page) goes to another. */
export function Leases({ leases, topic, now, page, onPage }) {
  return html`<${Table} label="Leases" rows=${leases.leases} keyOf=${(lease) => lease.offset} empty="Nothing is leased."
      href=${(lease) => format(["topics", topic, "messages"], { from: lease.offset, open: lease.offset })} columns=${[
        { label: "Offset", cell: (lease) => count(lease.offset) },
        { label: "Door", cell: (lease) => lease.door ?? "not known" },
        { label: "Consumer", wide: true, cell: (lease) => html`<span class="name">${lease.holder ?? "not known"}</span>` },
        { label: "Attempt", number: true, cell: (lease) => lease.attempts },
        { label: "Extended", number: true, cell: (lease) => lease.extensions },
        { label: "Ends", number: true, cell: (lease) => (lease.deadline ? ago(lease.deadline, now) : "with its consumer") },
      ]} />
    ${(leases.total > leases.leases.length || page) && html`<${Pager} total=${leases.total} shown=${leases.leases.length} first=${!page} onFirst=${() => onPage("")}
      next=${leases.next_page_token} onNext=${() => onPage(leases.next_page_token)} />`}`;
}

function lastBatch({ last_batch, created_at }) {
  if (!last_batch) return Date.parse(created_at) > Date.parse(live.server?.started_at) ? "none yet" : "not known since the server was started";
  const size = last_batch.next_offset - last_batch.first_offset;
  return `${plural(size, "message")}, ${count(last_batch.first_offset)} to ${count(last_batch.next_offset)}, ${ago(last_batch.at, live.now())}`;
}

/** One cursor, on the page of its subscription. */
export function Cursor({ cursor }) {
  return html`<${Facts} rows=${[
    ["Reader", html`<code>${cursor.consumer}</code>`],
    ["Is at offset", count(cursor.offset)],
    ["Behind by", `${plural(cursor.lag_messages, "message")}, ${bytes(cursor.lag_bytes)}`],
    ["Last batch", lastBatch(cursor)],
    ["Last seen", cursor.last_used_at && clock(cursor.last_used_at)],
  ]} />`;
}

/** All of a topic. */
export function Cursors({ cursors }) {
  return html`<${Table} label="Cursors" rows=${cursors} keyOf=${(each) => each.subscription} empty="No reader of the log has a cursor here."
    href=${(each) => format(["subscriptions", each.subscription])} columns=${[
      { label: "Reader", cell: (each) => each.consumer },
      { label: "Offset", number: true, cell: (each) => count(each.offset) },
      { label: "Behind by", number: true, cell: (each) => plural(each.lag_messages, "message") },
      { label: "In bytes", number: true, cell: (each) => bytes(each.lag_bytes) },
      { label: "Last batch", wide: true, cell: lastBatch },
    ]} />`;
}
