// The waiting messages of a subscription: those that a pull would deliver, or else what they are waiting for.

import { ago, count } from "../lib/format.js";
import { format } from "../lib/route.js";
import { html } from "../lib/view.js";
import { Table } from "../parts/table.js";

export function isBlocked({ backlog_messages, in_flight_messages }, ready) {
  return !ready.length && backlog_messages > in_flight_messages;
}

/** Tell whether as many messages are in flight as the flow control allows. */
function isFull({ in_flight_messages, in_flight_bytes, options: { flow_control: flow } }) {
  const reaches = (used, most) => most > 0 && used >= most;
  return reaches(in_flight_messages, flow?.max_messages) || reaches(in_flight_bytes, flow?.max_bytes);
}

/** `ready`: messages that a pull would deliver. `blocked`: records of the backlog, if a pull would deliver none. */
export function Waiting({ subscription, ready, blocked, now }) {
  const columns = (messageOf) => [
    { label: "Offset", cell: (row) => count(messageOf(row).offset) },
    { label: "Published", cell: (row) => ago(messageOf(row).publish_time, now) },
    { label: "Body", wide: true, cell: (row) => (messageOf(row).data ?? "(binary)").slice(0, 60) },
  ];
  const href = ({ offset }) => format(["topics", subscription.topic, "messages"], { from: offset, open: offset });
  if (!isBlocked(subscription, ready))
    return html`${
      ready.length > 0 &&
      isFull(subscription) &&
      html`<p class="quiet">The limit of flow control is reached. The next message is delivered after an ack.</p>`
    }<${Table} label="Next messages" rows=${ready} keyOf=${(message) => message.offset} href=${href}
      empty=${subscription.backlog_messages ? "All messages are leased." : "No waiting messages."}
      columns=${columns((message) => message)} />`;
  const [offset, published, body] = columns((row) => row.message);
  const cause = { label: "Waiting for", wide: true, cell: (row) => causeOf(row, subscription, now) };
  return html`<p class="quiet">Messages are waiting, but none can be delivered now.</p>
    <${Table} label="Waiting messages" rows=${blocked} keyOf=${(row) => row.message.offset} empty=""
      href=${(row) => href(row.message)} columns=${[offset, published, cause, body]} />`;
}

function causeOf({ stage, until, attempts, message }, { options }, now) {
  const isFuture = (instant) => instant && Date.parse(instant) > now;
  if (stage === "waiting" && isFuture(until))
    return `${attempts ? "its retry" : "the end of its delay"}, ${ago(until, now)}`;
  if (isFuture(message.visible_at)) return `the end of its delay, ${ago(message.visible_at, now)}`;
  if (message.ordering_key && options.enable_message_ordering)
    return html`an earlier message with key <code>${message.ordering_key}</code>`;
  return "a pull";
}
