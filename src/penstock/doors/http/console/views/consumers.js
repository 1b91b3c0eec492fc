// Consumers of a subscription, their leases, and cursors of Spark and Flight readers.

import { ago, bytes, clock, count, plural, protocolName } from "../lib/format.js";
import { live } from "../lib/live.js";
import { format } from "../lib/route.js";
import { html } from "../lib/view.js";
import { Facts } from "../parts/facts.js";
import { Pager, Table } from "../parts/table.js";

const CONNECTIONS = { stream: "stream", pull: "waiting pull", push: "push", cursor: "log reader" };

const holderOf = ({ holder }) => html`<span class="name">${holder ?? "unknown"}</span>`;

/** `now`: the time of the subscription, which dates leases. Connections are dated by the server's time. */
export function Consumers({ found, now }) {
  const columns = [
    { label: "Holder", wide: true, cell: holderOf },
    { label: "Protocol", cell: ({ door }) => protocolName(door) },
    { label: "Connection", cell: ({ kind }) => CONNECTIONS[kind] ?? "none" },
    { label: "Address", cell: ({ address }) => address && html`<code>${address}</code>` },
    { label: "Since", number: true, cell: ({ since, kind }) => since && ago(since, kind ? live.now() : now) },
    { label: "Window", number: true, cell: ({ window }) => window && count(window) },
    { label: "Leases", number: true, cell: ({ leases }) => count(leases) },
    { label: "First deadline", number: true, cell: (consumer) => ago(consumer.next_deadline, now, "") },
  ];
  const keyOf = ({ door, holder, address, since }) => `${door} ${holder} ${address} ${since}`;
  return html`<${Table} label="Consumers" rows=${found.consumers} keyOf=${keyOf} columns=${columns}
      empty="No consumers are connected, and no messages are leased." />
    ${
      found.total > found.consumers.length &&
      html`<p class="quiet">${count(found.consumers.length)} of ${count(found.total)}</p>`
    }
    ${!found.complete && html`<p class="quiet">Counts only the first 20,000 leases.</p>`}`;
}

/** `page`: the token of the current page, empty on the first one. onPage(page) opens another page. */
export function Leases({ leases, topic, now, page, onPage }) {
  const columns = [
    { label: "Offset", cell: ({ offset }) => count(offset) },
    { label: "Protocol", cell: ({ door }) => protocolName(door) },
    { label: "Holder", wide: true, cell: holderOf },
    { label: "Attempts", number: true, cell: ({ attempts }) => attempts },
    { label: "Extended", number: true, cell: ({ extensions }) => extensions },
    { label: "Deadline", number: true, cell: ({ deadline }) => ago(deadline, now, "on disconnect") },
  ];
  const href = ({ offset }) => format(["topics", topic, "messages"], { from: offset, open: offset });
  return html`<${Table} label="Leases" rows=${leases.leases} keyOf=${(lease) => lease.offset} href=${href}
      columns=${columns} empty="No messages are leased." />
    ${
      (leases.total > leases.leases.length || page) &&
      html`<${Pager} total=${leases.total} shown=${leases.leases.length} first=${!page} onFirst=${() => onPage("")}
      next=${leases.next_page_token} onNext=${() => onPage(leases.next_page_token)} />`
    }`;
}

function lastBatch({ last_batch, created_at }) {
  if (!last_batch)
    return Date.parse(created_at) > Date.parse(live.server?.started_at) ? "none yet" : "unknown (server restarted)";
  const { first_offset, next_offset, at } = last_batch;
  const size = plural(next_offset - first_offset, "message");
  return `${size}, offsets ${count(first_offset)} to ${count(next_offset)}, ${ago(at, live.now())}`;
}

export function Cursor({ cursor }) {
  return html`<${Facts} rows=${[
    ["Consumer", html`<code>${cursor.consumer}</code>`],
    ["Offset", count(cursor.offset)],
    ["Lag", `${plural(cursor.lag_messages, "message")}, ${bytes(cursor.lag_bytes)}`],
    ["Last batch", lastBatch(cursor)],
    ["Last used", cursor.last_used_at && clock(cursor.last_used_at)],
  ]} />`;
}

export function Cursors({ cursors }) {
  return html`<${Table} label="Cursors" rows=${cursors} keyOf=${(cursor) => cursor.subscription} empty="No cursors."
    href=${(cursor) => format(["subscriptions", cursor.subscription])} columns=${[
      { label: "Consumer", cell: (cursor) => cursor.consumer },
      { label: "Offset", number: true, cell: (cursor) => count(cursor.offset) },
      { label: "Lag", number: true, cell: (cursor) => plural(cursor.lag_messages, "message") },
      { label: "Lag size", number: true, cell: (cursor) => bytes(cursor.lag_bytes) },
      { label: "Last batch", wide: true, cell: lastBatch },
    ]} />`;
}
