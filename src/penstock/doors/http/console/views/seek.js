// Seeking: a slider over the time the topic holds, that says how many messages come back before anything is done.

import { get, path, post } from "../lib/api.js";
import { clock, count, plural } from "../lib/format.js";
import { Component, html } from "../lib/view.js";
import { Dialog } from "../parts/dialog.js";

const STEPS = 1000;

export class Seek extends Component {
  state = { topic: null, first: null, place: STEPS, time: "", plan: null, error: null };

  async componentDidMount() {
    const { subscription } = this.props;
    try {
      const topic = await get(path("topics", subscription.topic));
      const { messages } = await get(`${path("topics", subscription.topic)}/messages`, { from: topic.first_offset, max: 1 });
      const first = messages.length ? Date.parse(messages[0].publish_time) : Date.now();
      this.setState({ topic, first });
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
    this.plan({ place, time, to: place === 0 ? "beginning" : place === STEPS ? "end" : null });
  }

  plan(change) {
    this.setState({ ...change, plan: null, error: null });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), 150);
  }

  body() {
    return this.state.to ? { to: this.state.to } : { time: this.state.time };
  }

  async ask() {
    const body = this.body();
    try {
      const plan = await post(`${path("subscriptions", this.props.subscription.name)}/seek`, { ...body, dry_run: true });
      if (!this.gone) this.setState({ plan, error: null });
    } catch (error) {
      if (!this.gone) this.setState({ error: error.message });
    }
  }

  async run() {
    const done = await post(`${path("subscriptions", this.props.subscription.name)}/seek`, this.body());
    return `${plural(done.backlog_after, "message")} wait now.`;
  }

  render({ subscription, onClose }, { topic, place, time, to, plan, error }) {
    const where = to === "beginning" ? "the oldest message kept" : to === "end" ? "now: nothing comes back, all is skipped" : clock(time);
    return html`<${Dialog} title=${`Seek ${subscription.id}`} submit="Seek" run=${() => this.run()} onClose=${onClose}>
      ${topic && html`
        <div class="field"><label for="seek-slider">Deliver what was published since</label>
          <input id="seek-slider" type="range" min="0" max=${STEPS} value=${place} aria-valuetext=${where} onInput=${(event) => this.choose(Number(event.target.value))} /></div>
        <p><strong>${where}</strong></p>
        <label class="field">or an instant
          <input value=${time} aria-label="Instant" spellcheck=${false} onChange=${(event) => this.plan({ time: event.target.value, to: null })} /></label>
        <p class="plan" role="status">${plan
          ? html`${plural(plan.come_back, "acked message")} come back, ${plural(plan.skipped, "waiting message")} are skipped: ${count(plan.backlog_before)} waiting now, ${plan.exact === false ? "at most " : ""}${count(plan.backlog_after)} afterwards.`
          : "Counting."}</p>`}
      ${error && html`<p class="problem" role="alert">${error}</p>`}
    <//>`;
  }
}
