// The dialog that seeks, with a slider over the kept messages, a time or a snapshot. It shows the effect beforehand.

import { get, path, post } from "../lib/api.js";
import { clock } from "../lib/format.js";
import { live } from "../lib/live.js";
import { readInstant } from "../lib/route.js";
import { Component, html } from "../lib/view.js";
import { Choice, Dialog } from "../parts/dialog.js";
import { seekResult, seekSentence } from "./snapshots.js";

const STEPS = 1000;
const TARGETS = { beginning: "the oldest kept message", end: "now (skips all messages)" };

export class Seek extends Component {
  state = { topic: null, snapshots: [], place: 0, time: "", typed: "", plan: null, error: null };

  async componentDidMount() {
    const { subscription } = this.props;
    try {
      const [topic, { snapshots }] = await Promise.all([
        get(path("topics", subscription.topic)),
        get("/snapshots", { page_size: 1000 }),
      ]);
      const { messages } = await get(`${path("topics", subscription.topic)}/messages`, {
        from: topic.first_offset,
        max: 1,
        body_bytes: 1,
      });
      const last = live.timeOf(topic);
      const first = messages.length ? Math.min(Date.parse(messages[0].publish_time), last) : last;
      this.range = { first, last };
      this.setState({ topic, snapshots: snapshots.filter((each) => each.topic === topic.name) });
      this.choose(0); // skips no message
    } catch (error) {
      this.setState({ error: error.message });
    }
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
    this.gone = true;
  }

  /** Choose a position of the slider, from the oldest kept message at the left to now at the right. */
  choose(place) {
    const { first, last } = this.range;
    const time = new Date(first + ((last - first) * place) / STEPS).toISOString();
    this.plan({
      place,
      time,
      typed: time,
      snapshot: "",
      to: place === 0 ? "beginning" : place === STEPS ? "end" : null,
    });
  }

  type(typed) {
    clearTimeout(this.timer);
    try {
      const at = readInstant(typed);
      if (!at) throw new Error("Enter a time such as 2026-11-15 10:00, or -10m for 10 minutes ago.");
      this.plan({ time: at, typed, snapshot: "", to: null });
    } catch (error) {
      this.setTarget({ typed, time: "", snapshot: "", to: null });
      this.setState({ error: error.message });
    }
  }

  /** Record a choice at once, because Enter in a field sends the form before the page renders again. */
  setTarget(change) {
    this.chosen = { ...this.chosen, ...change };
    this.setState({ ...change, plan: null, error: null });
  }

  plan(change) {
    this.setTarget(change);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.preview(), 150);
  }

  body() {
    const { snapshot, to, time } = this.chosen;
    if (!snapshot && !to && !time) throw new Error("Choose a time or a snapshot.");
    return snapshot ? { snapshot } : to ? { to } : { time };
  }

  async preview() {
    const { chosen } = this;
    const isCurrent = () => !this.gone && chosen === this.chosen;
    try {
      const plan = await post(`${path("subscriptions", this.props.subscription.name)}/seek`, {
        ...this.body(),
        dry_run: true,
      });
      if (isCurrent()) this.setState({ plan, error: null });
    } catch (error) {
      if (isCurrent()) this.setState({ error: error.message });
    }
  }

  async run() {
    return seekResult(await post(`${path("subscriptions", this.props.subscription.name)}/seek`, this.body()));
  }

  render({ subscription, onClose }, { topic, snapshots, place, time, typed, to, snapshot, plan, error }) {
    if (subscription.detached)
      return html`<${Dialog} title=${`Seek ${subscription.id}`} submit="Close" run=${async () => {}} onClose=${onClose}>
        <p>The topic was deleted, so there are no messages to seek to.</p><//>`;
    const target = snapshot ? "messages that were unacked at the snapshot" : (TARGETS[to] ?? localTime(time));
    const chooseSnapshot = ({ target: { value } }) => (value ? this.plan({ snapshot: value }) : this.type(typed));
    return html`<${Dialog} title=${`Seek ${subscription.id}`} submit="Seek" run=${() => this.run()} onClose=${onClose}>
      ${
        topic &&
        html`
        <div class="field"><label for="seek-slider">Deliver messages published since</label>
          <input id="seek-slider" type="range" min="0" max=${STEPS} value=${place} aria-valuetext=${target}
            onInput=${(event) => this.choose(Number(event.target.value))} /></div>
        <p><strong>${target}</strong></p>
        <label class="field">or a time
          <input value=${typed} aria-label="Time" spellcheck=${false}
            onInput=${(event) => this.setState({ typed: event.target.value })}
            onChange=${(event) => this.type(event.target.value)} /></label>
        ${
          snapshots.length > 0 &&
          html`<${Choice} label="or a snapshot" onChange=${chooseSnapshot}>
          <option value="" selected=${!snapshot}>none</option>
          ${snapshots.map(
            ({ name, id, created_at }) =>
              html`<option value=${name} selected=${name === snapshot}>${id}, ${clock(created_at)}</option>`,
          )}<//>`
        }
        <p class="plan" role="status">${plan ? seekSentence(plan) : error ? "" : "Counting..."}</p>`
      }
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    <//>`;
  }
}

function localTime(time) {
  if (time.startsWith("-")) return `${time.slice(1)} ago`;
  return time ? clock(time) : "–";
}
