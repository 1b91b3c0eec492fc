// What the picture of the flow shows: which boxes, which pipes, and which of them are stuck. Pure functions.

import { lastPart, rate, short, duration, shownName } from "../lib/format.js";
import { format } from "../lib/route.js";

export const SHOWN = 10; // topics, and as many subscriptions
export const STUCK_SECONDS = 60; // a message could have been delivered for longer than this, and nothing is acked

/** What is delayed on purpose waits as it should. */
export function isStuck(each) {
  return each.backlog_messages > 0 && each.due_age_seconds > STUCK_SECONDS && each.ack_rate === 0;
}

const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

/** Of those that are stuck and of those with traffic first a half each; in the order of their topics, so that boxes stay. */
export function chosen(busy, due) {
  const stuck = due.filter(isStuck);
  const flowing = busy.filter((each) => each.deliver_rate > 0);
  const all = [...stuck.slice(0, SHOWN / 2), ...flowing.slice(0, SHOWN / 2), ...stuck, ...flowing, ...due, ...busy];
  const some = [...new Map(all.map((each) => [each.name, each])).values()].slice(0, SHOWN);
  return some.sort((a, b) => (a.topic === b.topic ? byName(a, b) : a.topic < b.topic ? -1 : 1));
}

/** Topics of chosen subscriptions that are not among the busiest: they are asked for one by one. */
export function others({ topics, busy, due }) {
  const known = new Set(topics.topics.map((topic) => topic.name));
  const read = chosen(busy.subscriptions, due.subscriptions).filter((each) => !each.detached && !known.has(each.topic));
  return [...new Set(read.map((each) => each.topic))];
}

/** The properties of a Flow, from what the server said. `read`: the other topics. */
export function picture({ statistics, server, topics, read, busy, due }) {
  const usual = server.default_project;
  const subscriptions = chosen(busy.subscriptions, due.subscriptions);
  const known = new Map([...topics.topics, ...read].map((topic) => [topic.name, topic]));
  const names = [...new Set([...subscriptions.filter((each) => !each.detached).map((each) => each.topic), ...known.keys()])].slice(0, SHOWN).sort();
  const { entered, left } = statistics.flows;
  const out = destinations(subscriptions, statistics, usual);
  const pipes = [
    ...entered.map((flow) => ({ from: `in ${flow.door}`, to: flow.topic, rate: flow.per_second })),
    ...subscriptions.filter((each) => !each.detached).map((each) => ({ from: each.topic, to: each.name, rate: each.deliver_rate, stuck: isStuck(each) })),
    ...left.map((flow) => ({ from: flow.subscription, to: out.pushed.has(flow.subscription) ? "push" : `out ${flow.door}`, rate: flow.per_second })),
    ...out.pipes,
  ];
  return {
    titles: ["Doors", "Topics", "Subscriptions", "Where they go"],
    columns: [doorsIn(statistics, server), names.map((name) => topicBox(name, known.get(name), usual)), subscriptions.map((each) => subscriptionBox(each, usual)), out.boxes],
    pipes,
    cut: topics.total > names.length || busy.total > subscriptions.length,
    stuck: subscriptions.some(isStuck),
  };
}

function doorsIn(statistics, server) {
  return server.doors
    .filter((door) => door.address && statistics.doors[door.name])
    .map(({ name }) => ({ key: `in ${name}`, label: name, note: `in ${rate(statistics.doors[name].per_second.messages_in ?? 0)}`, href: format(["server"]) }));
}

function topicBox(name, topic, usual) {
  const [, project] = name.split("/");
  const note = topic ? `${rate(topic.publish_rate)}${topic.subscriptions ? "" : ", nobody reads it"}` : "";
  return { key: name, label: shownName({ project, id: lastPart(name) }, usual), note, href: format(["topics", name]) };
}

function subscriptionBox(each, usual) {
  const backlog = `backlog ${short(each.backlog_messages)}`;
  const stuck = isStuck(each);
  const note = stuck ? `stuck for ${duration(each.due_age_seconds)}, ${backlog}` : `${rate(each.deliver_rate)}, ${backlog}`;
  return { key: each.name, label: shownName(each, usual), note, href: format(["subscriptions", each.name]), stuck };
}

/** The doors through which messages left, the places they are pushed to, and the topics of dead letters. */
function destinations(subscriptions, statistics, usual) {
  const boxes = new Map();
  const pipes = [];
  const pushed = new Set(subscriptions.filter((each) => each.kind === "push").map((each) => each.name));
  for (const [name, door] of Object.entries(statistics.doors)) {
    if (door.messages_out) boxes.set(`out ${name}`, { key: `out ${name}`, label: name, note: `out ${rate(door.per_second.messages_out ?? 0)}`, href: format(["server"]) });
  }
  if (pushed.size) boxes.set("push", { key: "push", label: "push", note: "to web addresses", href: format(["subscriptions"]) });
  for (const each of subscriptions) {
    const dead = each.options.dead_letter_policy?.dead_letter_topic;
    if (!dead) continue;
    const [, project, , id] = dead.split("/");
    const key = `dead ${dead}`;
    pipes.push({ from: each.name, to: key, rate: each.dead_letter_rate, dead: true });
    const arriving = pipes.filter((pipe) => pipe.to === key).reduce((sum, pipe) => sum + pipe.rate, 0);
    boxes.set(key, { key, label: shownName({ project, id }, usual), note: arriving ? `dead letters, ${rate(arriving)}` : "dead letters", href: format(["topics", dead]) });
  }
  return { boxes: [...boxes.values()], pipes, pushed };
}
