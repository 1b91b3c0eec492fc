// A chart of lines over time, drawn by uPlot. It follows the width of its container and the colours of the system.

import { bytes, duration, rate, short } from "../lib/format.js";
import { Component, createRef, html } from "../lib/view.js";

const WRITE = { rate, bytes, duration, count: short };
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const DURATIONS = [
  ...Array.from({ length: 8 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** (power - 6)))
    .flat()
    .filter((step) => step <= 10),
  ...[0.25, 0.5, 1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60),
  ...[1, 2, 3, 6, 12, 24, 48, 120, 240, 720, 2400, 8760, 87_600].map((hours) => hours * 3600),
]; // steps between the lines of an axis, so that the labels are round numbers
// Seconds to show while the server has run for less than the whole range.
const WINDOWS = { 900: [60, 120, 300, 600, 900], 86400: [3600, 7200, 21600, 43200, 86400] };
const HEIGHT = 170;
const dark = matchMedia("(prefers-color-scheme: dark)");

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const two = (part) => String(part).padStart(2, "0");

function clockOf(seconds, plot) {
  const at = new Date(seconds * 1000);
  const parts = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two);
  return (plot.scales.x.max - plot.scales.x.min < 600 ? parts : parts.slice(0, 2)).join(":");
}

/** Return the width beside the axis that fits its longest label. A label that is cut would show another number. */
function axisWidth(texts) {
  return Math.max(58, 12 + 6.2 * Math.max(...(texts ?? []).map((text) => text?.length ?? 0), 0));
}

const labels = ({ lines }) => lines.map((line) => line.label).join();

/** Properties: title, unit (rate, bytes, duration, count), seconds shown, times, lines: [{label, colour, values}]. */
export class Chart extends Component {
  place = createRef();
  state = { at: null }; // the sample under the pointer

  componentDidMount() {
    this.draw();
    this.observer = new ResizeObserver(() => {
      const width = this.place.current?.clientWidth;
      if (width && this.plot && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
    });
    this.observer.observe(this.place.current);
    this.recolour = () => this.draw();
    dark.addEventListener("change", this.recolour);
  }

  shouldComponentUpdate(next, state) {
    this.moved =
      next.times.at(-1) !== this.drawn || next.times.length !== this.length || next.times !== this.props.times;
    return this.moved || state.at !== this.state.at || labels(next) !== labels(this.props);
  }

  componentDidUpdate(before) {
    if (labels(before) !== labels(this.props) || before.unit !== this.props.unit) this.draw();
    else if (this.moved) this.plot.setData(this.data());
    this.moved = false;
  }

  componentWillUnmount() {
    this.observer.disconnect();
    dark.removeEventListener("change", this.recolour);
    this.plot?.destroy();
  }

  data() {
    const { times, lines } = this.props;
    this.drawn = times.at(-1);
    this.length = times.length;
    return [times, ...lines.map((line) => line.values)];
  }

  range() {
    const { times, seconds } = this.props;
    const end = times.at(-1) ?? Math.floor(Date.now() / 1000);
    const sampled = end - (times[0] ?? end);
    return [end - (WINDOWS[seconds]?.find((window) => sampled <= window) ?? seconds), end];
  }

  draw() {
    this.plot?.destroy();
    const { unit, lines } = this.props;
    const write = WRITE[unit];
    const axis = {
      stroke: colour("quiet"),
      grid: { stroke: colour("line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui",
    };
    const options = {
      width: this.place.current.clientWidth,
      height: HEIGHT,
      cursor: { y: false, points: { size: 6 }, sync: { key: "time" } },
      legend: { show: false },
      padding: [8, 26, 0, 0],
      scales: { x: { range: () => this.range() }, y: { range: (_, least, most) => [0, most > 0 ? most * 1.08 : 1] } },
      axes: [
        { ...axis, size: 24, gap: 4, space: 70, values: (plot, values) => values.map((value) => clockOf(value, plot)) },
        {
          ...axis,
          size: (_, texts) => axisWidth(texts),
          gap: 4,
          space: 34,
          incrs: { bytes: POWERS, duration: DURATIONS }[unit],
          values: (_, values) => values.map((value) => write(value)),
        },
      ],
      series: [
        {},
        ...lines.map((line) => ({
          stroke: colour(line.colour),
          fill: lines.length === 1 ? `${colour(line.colour)}1f` : undefined,
          width: 1.5,
          points: { show: (plot) => plot.data[0].length === 1 },
        })),
      ],
      hooks: { setCursor: [(plot) => this.point(plot.cursor.idx ?? null)] },
    };
    this.plot = new window.uPlot(options, this.data(), this.place.current);
  }

  point(at) {
    if (at !== this.state.at) this.setState({ at });
  }

  render({ title, lines, unit, times }, { at }) {
    const place = at !== null && at < times.length ? at : times.length - 1;
    const write = (line) => (place < 0 ? "" : WRITE[unit](line.values[place] ?? 0));
    const time = at !== null && place >= 0 && new Date(times[place] * 1000).toTimeString().slice(0, 8);
    const now = lines.map((line) => `${line.label} ${write(line) || "no data yet"}`).join(", ");
    return html`<figure class="chart">
      <figcaption><strong>${title}</strong>${time && html` <time>${time}</time>`}
        <span class="legend">${lines.map(
          (line) => html`<span class=${line.colour}>${line.label} <b>${write(line)}</b></span>`,
        )}</span>
      </figcaption>
      <div class="plot" ref=${this.place} role="img" aria-label=${`${title}: ${now}`}
        style=${{ minHeight: `${HEIGHT}px` }}></div>
      ${!times.length && html`<p class="empty">No samples yet.</p>`}
    </figure>`;
  }
}

const SPARK = { width: 90, height: 20, most: 60 };

/** A small line without axes for a table. It shows the last minute, with the present at the right. */
export function Sparkline({ values = [], label }) {
  const { width, height, most } = SPARK;
  const shown = values.slice(-most);
  const highest = Math.max(...shown, 1e-9);
  const x = (at) => width - 1 - (shown.length - 1 - at) * ((width - 2) / (most - 1));
  const y = (value) => height - 1.5 - (value / highest) * (height - 3);
  const points = shown.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  const busy = shown.some(Boolean);
  const line = points.join(" ");
  return html`<svg class="sparkline" viewBox="0 0 ${width} ${height}" role="img"
    aria-label=${busy ? `${label}: peak ${rate(highest)}` : `${label}: none`}>
    <polyline class="base" points=${`1,${height - 1.5} ${width - 1},${height - 1.5}`} />
    ${
      busy &&
      html`<polygon points=${`${x(0)},${height - 1} ${line} ${width - 1},${height - 1}`} /><polyline points=${line} />`
    }
  </svg>`;
}
