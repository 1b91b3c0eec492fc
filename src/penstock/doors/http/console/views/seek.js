// Seeking: a slider over the time the topic holds, or a snapshot; what comes back is said before anything is done.

import { get, path, post } from "../lib/api.js";
import { clock, plural } from "../lib/format.js";
import { Component, html } from "../lib/view.js";
import { Choice, Dialog } from "../parts/dialog.js";
import { seekSentence } from "./snapshots.js";

const STEPS = 1000;

export class Seek extends Component {
  state = { topic: null, first: null, snapshots: [], place: STEPS, time: "", plan: null, error: null };

  async componentDidMount() {
    const { subscription } = this.props;
    try {
      const [topic, { snapshots }] = await Promise.all([get(path("topics", subscription.topic)), get("/snapshots", { page_size: 1000 })]);
      const { messages } = await get(`${path("topics", subscription.topic)}/messages`, { from: topic.first_offset, max: 1, body_bytes: 1 });
      const first = messages.length ? Date.parse(messages[0].publish_time) : Date.now();
      this.setState({ topic, first, snapshots: snapshots.filter((each) => each.topic === topic.name) });
      this.choose(STEPS);
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
    const { first } = this.state;
    const time = new Date(first + ((Date.now() - first) * place) / STEPS).toISOString();
    this.plan({ place, time, snapshot: "", to: place === 0 ? "beginning" : place === STEPS ? "end" : null });
  }

  plan(change) {
    this.setState({ ...change, plan: null, error: null });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), 150);
  }

  body() {
    const { snapshot, to, time } = this.state;
    return snapshot ? { snapshot } : to ? { to } : { time };
  }

  async ask() {
    const body = this.body();
    const still = () => !this.gone && JSON.stringify(body) === JSON.stringify(this.body());
    try {
      const plan = await post(`${path("subscriptions", this.props.subscription.name)}/seek`, { ...body, dry_run: true });
      if (still()) this.setState({ plan, error: null });
    } catch (error) {
      if (still()) this.setState({ error: error.message });
    }
  }

  async run() {
    const done = await post(`${path("subscriptions", this.props.subscription.name)}/seek`, this.body());
    return `${plural(done.backlog_after, "message")} wait now.`;
  }

  render({ subscription, onClose }, { topic, snapshots, place, time, to, snapshot, plan, error }) {
    const where = snapshot ? "what was unacked when the snapshot was taken" : to === "beginning" ? "the oldest message kept" : to === "end" ? "now: nothing comes back, all is skipped" : clock(time);
    return html`<${Dialog} title=${`Seek ${subscription.id}`} submit="Seek" run=${() => this.run()} onClose=${onClose}>
      ${topic && html`
        <div class="field"><label for="seek-slider">Deliver what was published since</label>
          <input id="seek-slider" type="range" min="0" max=${STEPS} value=${place} aria-valuetext=${where} onInput=${(event) => this.choose(Number(event.target.value))} /></div>
        <p><strong>${where}</strong></p>
        <label class="field">or an instant
          <input value=${time} aria-label="Instant" spellcheck=${false} onChange=${(event) => this.plan({ time: event.target.value, snapshot: "", to: null })} /></label>
        ${snapshots.length > 0 && html`<${Choice} label="or a snapshot" onChange=${(event) => this.plan({ snapshot: event.target.value })}>
          <option value="" selected=${!snapshot}>none</option>${snapshots.map((each) => html`<option value=${each.name} selected=${each.name === snapshot}>${each.id}, ${clock(each.created_at)}</option>`)}<//>`}
        <p class="plan" role="status">${plan ? seekSentence(plan) : error ? "" : "Counting."}</p>`}
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    <//>`;
  }
}
