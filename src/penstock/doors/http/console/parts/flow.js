// The picture of the flow: doors -> the log -> topics -> subscriptions -> where dead letters go. Widths by rate.

import { rate, short } from "../lib/format.js";
import { format } from "../lib/route.js";
import { html } from "../lib/view.js";

const WIDTH = 1000;
const ROW = 46;
const BOX = 34;
const COLUMNS = [0, 230, 520, 810]; // where doors, topics, subscriptions and dead letters begin
const WIDE = 180;

/** doors: [{name, in, out}], topics: [{name, label, rate}], subscriptions: [{name, label, topic, rate, backlog, stuck, dead}]. */
export function Flow({ doors, topics, subscriptions }) {
  const dead = [...new Set(subscriptions.map((each) => each.dead).filter(Boolean))];
  const rows = Math.max(doors.length, topics.length, subscriptions.length, dead.length, 1);
  const height = rows * ROW + 16;
  const middle = (column, at) => 8 + ((rows - column.length) * ROW) / 2 + at * ROW + BOX / 2;
  const most = Math.max(1, ...doors.map((each) => each.in), ...topics.map((each) => each.rate), ...subscriptions.map((each) => each.rate));
  const width = (value) => (value > 0 ? 1.5 + 14 * Math.sqrt(value / most) : 1);
  const bus = 205;
  return html`<svg class="flow" viewBox="0 0 ${WIDTH} ${height}" role="group" aria-label="How messages flow: doors, topics, subscriptions, dead letters">
    <line class="bus" x1=${bus} x2=${bus} y1="8" y2=${height - 8} />
    ${doors.map((door, at) => {
      const y = middle(doors, at);
      return html`<path class=${door.in > 0 ? "pipe on" : "pipe"} stroke-width=${width(door.in)} d="M${COLUMNS[0] + 160},${y} H${bus}" />
        <${Box} x=${COLUMNS[0]} y=${y} wide=${160} label=${door.name} note=${`in ${rate(door.in)}, out ${rate(door.out)}`} href=${format(["server"])} />`;
    })}
    ${topics.map((topic, at) => {
      const y = middle(topics, at);
      return html`<path class=${topic.rate > 0 ? "pipe on" : "pipe"} stroke-width=${width(topic.rate)} d="M${bus},${y} H${COLUMNS[1]}" />
        <${Box} x=${COLUMNS[1]} y=${y} wide=${WIDE} label=${topic.label} note=${rate(topic.rate)} href=${format(["topics", topic.name])} />`;
    })}
    ${subscriptions.map((each, at) => {
      const from = topics.findIndex((topic) => topic.name === each.topic);
      const y = middle(subscriptions, at);
      const kind = each.stuck ? "pipe stuck" : each.rate > 0 ? "pipe on" : "pipe";
      return html`${from >= 0 && html`<path class=${kind} stroke-width=${width(each.rate)} d=${curve(COLUMNS[1] + WIDE, middle(topics, from), COLUMNS[2], y)} />`}
        ${each.dead && html`<path class="pipe dead" d=${curve(COLUMNS[2] + WIDE, y, COLUMNS[3], middle(dead, dead.indexOf(each.dead)))} />`}
        <${Box} x=${COLUMNS[2]} y=${y} wide=${WIDE} label=${each.label} stuck=${each.stuck}
          note=${`${rate(each.rate)}, ${short(each.backlog)} waiting`} href=${format(["subscriptions", each.name])} />`;
    })}
    ${dead.map((name, at) => html`<${Box} x=${COLUMNS[3]} y=${middle(dead, at)} wide=${WIDE} label=${name.slice(name.lastIndexOf("/") + 1)} note="dead letters" href=${format(["topics", name])} />`)}
  </svg>`;
}

function curve(x1, y1, x2, y2) {
  const between = (x1 + x2) / 2;
  return `M${x1},${y1} C${between},${y1} ${between},${y2} ${x2},${y2}`;
}

function Box({ x, y, wide, label, note, href, stuck }) {
  const text = label.length > 24 ? `${label.slice(0, 22)}…` : label;
  return html`<a href=${href} class=${stuck ? "box stuck" : "box"}><title>${label}</title>
    <rect x=${x} y=${y - BOX / 2} width=${wide} height=${BOX} rx="6" />
    <text x=${x + 10} y=${y - 3}>${text}</text>
    <text class="note" x=${x + 10} y=${y + 11}>${note}</text>
  </a>`;
}
