// One stream of events for all tabs of a browser: it opens six connections to a server, and a stream keeps one for good.
//
// A tab first asks whether another one has the stream, and then follows what that one passes on. Where nobody answers, or
// the other falls silent, it opens the stream itself. Of two that have it, the one with the larger number gives it up.

import { events } from "./api.js";

const ANSWER = 200; // milliseconds for a tab that has the stream to say so
const SILENT = 3000; // a sample comes every second

const channel = new BroadcastChannel("penstock-events");
const number = Math.random();

/**
 * Events, `passed` on by another tab or not. Where the last one was and it ends, the server may be as it was: the other
 * tab was closed, or has the stream now. It throws when the stream is refused.
 */
export async function* sharedEvents(signal) {
  const heard = await answer();
  if (heard) yield* passedOn(heard, signal);
  else yield* own(signal);
}

/** The last event of a tab that has the stream; null: there is none. */
function answer() {
  return new Promise((resolve) => {
    channel.onmessage = ({ data }) => data.event && resolve(data.event);
    channel.postMessage({ asks: number });
    setTimeout(resolve, ANSWER, null);
  });
}

async function* passedOn(first, signal) {
  const waiting = [{ ...first, passed: true }];
  let wake, over;
  channel.onmessage = ({ data }) => {
    if (data.event) waiting.push({ ...data.event, passed: true });
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

async function* own(signal) {
  const mine = new AbortController();
  signal.addEventListener("abort", () => mine.abort());
  let last = null;
  let heardAt = 0;
  channel.onmessage = ({ data }) => {
    if (data.asks && Date.now() - heardAt < SILENT) channel.postMessage({ number, event: last });
    if (data.number < number) mine.abort();
  };
  const over = () => channel.postMessage({ over: true });
  addEventListener("pagehide", over);
  try {
    for await (const event of events("/events", {}, mine.signal)) {
      heardAt = Date.now();
      if (event.kind === "sample" || !last) {
        last = event; // nothing else is passed on: a notice is for those who may change the server
        channel.postMessage({ number, event });
      }
      yield event;
    }
  } catch (error) {
    if (!mine.signal.aborted || signal.aborted) throw error;
    yield { kind: "handed over", data: {}, passed: true };
  } finally {
    removeEventListener("pagehide", over);
    channel.onmessage = null; // who has no stream says nothing of it
    if (!mine.signal.aborted) over();
  }
}
