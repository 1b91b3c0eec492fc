// What the flow diagram shows: its boxes, its pipes, and which of them are stuck. These functions are pure.

import { displayName, duration, lastPart, protocolName, rate, short } from "../lib/format.js";
import { format } from "../lib/route.js";

export const SHOWN = 10; // topics, and the same number of subscriptions
export const STUCK_SECONDS = 60; // a subscription without acks is stuck after this

/** Return whether due messages wait without an ack. Messages that are delayed on purpose do not count. */
export function isStuck({ backlog_messages, due_age_seconds, ack_rate }) {
  return backlog_messages > 0 && due_age_seconds > STUCK_SECONDS && ack_rate === 0;
}

const compareNames = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

/** Return half stuck and half busy subscriptions, sorted by topic so that boxes keep their place. */
export function selectSubscriptions(busy, due) {
  const stuck = due.filter(isStuck);
  const flowing = busy.filter((subscription) => subscription.deliver_rate > 0);
  const all = [...stuck.slice(0, SHOWN / 2), ...flowing.slice(0, SHOWN / 2), ...stuck, ...flowing, ...due, ...busy];
  const selected = [...new Map(all.map((subscription) => [subscription.name, subscription])).values()].slice(0, SHOWN);
  return selected.sort((a, b) => (a.topic === b.topic ? compareNames(a, b) : a.topic < b.topic ? -1 : 1));
}

const topicsOf = (subscriptions) => subscriptions.filter(({ detached }) => !detached).map(({ topic }) => topic);

export function otherTopics({ topics, busy, due }) {
  const busiest = new Set(topics.topics.map((topic) => topic.name));
  const names = topicsOf(selectSubscriptions(busy.subscriptions, due.subscriptions));
  return [...new Set(names.filter((name) => !busiest.has(name)))];
}

export function picture({ statistics, server, topics, others, busy, due }) {
  const project = server.default_project;
  const subscriptions = selectSubscriptions(busy.subscriptions, due.subscriptions);
  const records = new Map([...topics.topics, ...others].map((topic) => [topic.name, topic]));
  const names = [...new Set([...topicsOf(subscriptions), ...records.keys()])].slice(0, SHOWN).sort();
  const { entered, left } = statistics.flows;
  const out = destinations(subscriptions, statistics, project);
  const pipes = [
    ...entered.map(({ door, topic, per_second }) => ({ from: `in ${door}`, to: topic, rate: per_second })),
    ...subscriptions
      .filter(({ detached }) => !detached)
      .map((record) => ({ from: record.topic, to: record.name, rate: record.deliver_rate, stuck: isStuck(record) })),
    ...left.map(({ door, subscription, per_second }) => ({
      from: subscription,
      to: out.pushed.has(subscription) ? "push" : `out ${door}`,
      rate: per_second,
    })),
    ...out.pipes,
  ];
  return {
    titles: ["Protocols", "Topics", "Subscriptions", "Destinations"],
    columns: [
      publishers(statistics, server),
      names.map((name) => topicBox(name, records.get(name), project)),
      subscriptions.map((subscription) => subscriptionBox(subscription, project)),
      out.boxes,
    ],
    pipes,
    cut: topics.total > names.length || busy.total > subscriptions.length,
    stuck: subscriptions.some(isStuck),
  };
}

function protocolBox(direction, name, messagesPerSecond) {
  const note = `${direction} ${rate(messagesPerSecond ?? 0)}`;
  return { key: `${direction} ${name}`, label: protocolName(name), note, href: format(["server"]) };
}

function publishers(statistics, server) {
  return server.doors
    .filter((door) => door.address && statistics.doors[door.name])
    .map(({ name }) => protocolBox("in", name, statistics.doors[name].per_second.messages_in));
}

function topicBox(name, topic, defaultProject) {
  const [, project] = name.split("/");
  const note = topic ? `${rate(topic.publish_rate)}${topic.subscriptions ? "" : ", no subscriptions"}` : "";
  const label = displayName({ project, id: lastPart(name) }, defaultProject);
  return { key: name, label, note, href: format(["topics", name]) };
}

function subscriptionBox(record, defaultProject) {
  const backlog = `backlog ${short(record.backlog_messages)}`;
  const stuck = isStuck(record);
  const activity = stuck ? `stuck for ${duration(record.due_age_seconds)}` : rate(record.deliver_rate);
  const label = displayName(record, defaultProject);
  return {
    key: record.name,
    label,
    note: `${activity}, ${backlog}`,
    href: format(["subscriptions", record.name]),
    stuck,
  };
}

/** Return boxes for the protocols that deliver messages, for push, and for dead letter topics, with their pipes. */
function destinations(subscriptions, statistics, defaultProject) {
  const boxes = new Map();
  const pipes = [];
  const pushed = new Set(subscriptions.filter(({ kind }) => kind === "push").map(({ name }) => name));
  for (const [name, door] of Object.entries(statistics.doors))
    if (door.messages_out) boxes.set(`out ${name}`, protocolBox("out", name, door.per_second.messages_out));
  if (pushed.size)
    boxes.set("push", { key: "push", label: "Push", note: "to web addresses", href: format(["subscriptions"]) });
  for (const { name, options, dead_letter_rate } of subscriptions) {
    const topic = options.dead_letter_policy?.dead_letter_topic;
    if (!topic) continue;
    const [, project, , id] = topic.split("/");
    const key = `dead ${topic}`;
    pipes.push({ from: name, to: key, rate: dead_letter_rate, dead: true });
    const arriving = pipes.filter((pipe) => pipe.to === key).reduce((sum, pipe) => sum + pipe.rate, 0);
    const note = arriving ? `dead letters, ${rate(arriving)}` : "dead letters";
    const label = displayName({ project, id }, defaultProject);
    boxes.set(key, { key, label, note, href: format(["topics", topic]) });
  }
  return { boxes: [...boxes.values()], pipes, pushed };
}
