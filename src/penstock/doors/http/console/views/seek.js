// Seeking: a slider over the time the topic holds, or a snapshot; what comes back is said before anything is done.

import { get, path, post } from "../lib/api.js";
import { clock } from "../lib/format.js";
import { live } from "../lib/live.js";
import { readInstant } from "../lib/route.js";
import { Component, html } from "../lib/view.js";
import { Choice, Dialog } from "../parts/dialog.js";
import { seekSentence, sought } from "./snapshots.js";

const STEPS = 1000;

export class Seek extends Component {
  state = { topic: null, snapshots: [], place: 0, time: "", typed: "", plan: null, error: null };

  async componentDidMount() {
    const { subscription } = this.props;
    try {
      const [topic, { snapshots }] = await Promise.all([get(path("topics", subscription.topic)), get("/snapshots", { page_size: 1000 })]);
      const { messages } = await get(`${path("topics", subscription.topic)}/messages`, { from: topic.first_offset, max: 1, body_bytes: 1 });
      const last = live.timeOf(topic);
      const first = messages.length ? Math.min(Date.parse(messages[0].publish_time), last) : last;
      this.range = { first, last };
      this.setState({ topic, snapshots: snapshots.filter((each) => each.topic === topic.name) });
      this.choose(0); // the end at which nothing is lost
    } catch (error) {
      this.setState({ error: error.message });
    }
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
    this.gone = true;
  }

  /** Where the slider stands: its left end is the oldest message kept, its right end is now. */
  choose(place) {
    const { first, last } = this.range;
    const time = new Date(first + ((last - first) * place) / STEPS).toISOString();
    this.plan({ place, time, typed: time, snapshot: "", to: place === 0 ? "beginning" : place === STEPS ? "end" : null });
  }

  /** An instant as somebody writes one; without a zone it is the reader's own, as on the page of messages. */
  type(typed) {
    clearTimeout(this.timer);
    try {
      const at = readInstant(typed);
      if (!at) throw new Error("Give an instant, such as 2026-11-15 10:00, or how long ago, such as -10m.");
      this.plan({ time: at, typed, snapshot: "", to: null });
    } catch (error) {
      this.want({ typed, time: "", snapshot: "", to: null });
      this.setState({ error: error.message });
    }
  }

  /** Noted at once: Enter in a field tells the change and then sends the form, before the page is drawn anew. */
  want(change) {
    this.wanted = { ...this.wanted, ...change };
    this.setState({ ...change, plan: null, error: null });
  }

  plan(change) {
    this.want(change);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), 150);
  }

  body() {
    const { snapshot, to, time } = this.wanted;
    if (!snapshot && !to && !time) throw new Error("Nothing was done.");
    return snapshot ? { snapshot } : to ? { to } : { time };
  }

  async ask() {
    const { wanted } = this;
    const still = () => !this.gone && wanted === this.wanted;
    try {
      const plan = await post(`${path("subscriptions", this.props.subscription.name)}/seek`, { ...this.body(), dry_run: true });
      if (still()) this.setState({ plan, error: null });
    } catch (error) {
      if (still()) this.setState({ error: error.message });
    }
  }

  async run() {
    return sought(await post(`${path("subscriptions", this.props.subscription.name)}/seek`, this.body()));
  }

  render({ subscription, onClose }, { topic, snapshots, place, time, typed, to, snapshot, plan, error }) {
    const where = snapshot ? "what was unacked when the snapshot was taken" : to === "beginning" ? "the oldest message kept" : to === "end" ? "now: nothing comes back, all is skipped" : written(time);
    if (subscription.detached) return html`<${Dialog} title=${`Seek ${subscription.id}`} submit="Close" run=${async () => {}} onClose=${onClose}><p>Its topic is deleted: there is nothing to seek in.</p><//>`;
    return html`<${Dialog} title=${`Seek ${subscription.id}`} submit="Seek" run=${() => this.run()} onClose=${onClose}>
      ${topic && html`
        <div class="field"><label for="seek-slider">Deliver what was published since</label>
          <input id="seek-slider" type="range" min="0" max=${STEPS} value=${place} aria-valuetext=${where} onInput=${(event) => this.choose(Number(event.target.value))} /></div>
        <p><strong>${where}</strong></p>
        <label class="field">or an instant
          <input value=${typed} aria-label="Instant" spellcheck=${false} onInput=${(event) => this.setState({ typed: event.target.value })} onChange=${(event) => this.type(event.target.value)} /></label>
        ${snapshots.length > 0 && html`<${Choice} label="or a snapshot" onChange=${(event) => (event.target.value ? this.plan({ snapshot: event.target.value }) : this.type(typed))}>
          <option value="" selected=${!snapshot}>none</option>${snapshots.map((each) => html`<option value=${each.name} selected=${each.name === snapshot}>${each.id}, ${clock(each.created_at)}</option>`)}<//>`}
        <p class="plan" role="status">${plan ? seekSentence(plan) : error ? "" : "Counting."}</p>`}
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    <//>`;
  }
}

/** An instant in the reader's zone; what is counted back from now is left as it was written. */
function written(time) {
  if (time.startsWith("-")) return `${time.slice(1)} ago`;
  return time ? clock(time) : "–";
}
