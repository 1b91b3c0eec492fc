// One stream of events for all tabs of a browser, which opens at most six connections to a server.
//
// A tab first asks whether another tab has the stream, and then follows the events that the other tab relays. If no tab
// answers, or the other tab falls silent, the tab opens the stream itself. Of two tabs with a stream, the tab with the
// larger number closes its stream.

import { events } from "./api.js";

const ANSWER = 200; // milliseconds for a tab that has the stream to say so
const SILENT = 3000; // a sample comes every second

const channel = new BroadcastChannel("penstock-events");
const number = Math.random();

/**
 * Yield events, with `relayed` set if they come from another tab. If the last event was relayed, the end does not mean
 * that the server is gone: the other tab was closed, or another tab has the stream. Throw if the stream is refused.
 */
export async function* sharedEvents(signal) {
  const event = await askOtherTabs();
  if (event) yield* relayedEvents(event, signal);
  else yield* ownEvents(signal);
}

/** Return the last event of a tab that has the stream, or null if no tab has it. */
function askOtherTabs() {
  return new Promise((resolve) => {
    channel.onmessage = ({ data }) => data.event && resolve(data.event);
    channel.postMessage({ asks: number });
    setTimeout(resolve, ANSWER, null);
  });
}

async function* relayedEvents(first, signal) {
  const waiting = [{ ...first, relayed: true }];
  let wake, over;
  channel.onmessage = ({ data }) => {
    if (data.event) waiting.push({ ...data.event, relayed: true });
    over ||= data.over;
    wake?.();
  };
  while (!over && !signal.aborted) {
    yield* waiting.splice(0);
    const heard = await new Promise((resolve) => {
      const timer = setTimeout(resolve, SILENT, false);
      wake = () => (clearTimeout(timer), resolve(true));
      if (waiting.length || over) wake();
    });
    if (!heard) return;
  }
}

async function* ownEvents(signal) {
  const stream = new AbortController();
  signal.addEventListener("abort", () => stream.abort());
  let last = null;
  let heardAt = 0;
  channel.onmessage = ({ data }) => {
    if (data.asks && Date.now() - heardAt < SILENT) channel.postMessage({ number, event: last });
    if (data.number < number) stream.abort();
  };
  const announceEnd = () => channel.postMessage({ over: true });
  addEventListener("pagehide", announceEnd);
  try {
    for await (const event of events("/events", {}, stream.signal)) {
      heardAt = Date.now();
      if (event.kind === "sample" || !last) {
        last = event; // notices are not relayed: the other tab's token may not permit them
        channel.postMessage({ number, event });
      }
      yield event;
    }
  } catch (error) {
    if (!stream.signal.aborted || signal.aborted) throw error;
    yield { kind: "handed over", data: {}, relayed: true };
  } finally {
    removeEventListener("pagehide", announceEnd);
    channel.onmessage = null; // a tab without a stream does not answer
    if (!stream.signal.aborted) announceEnd();
  }
}
