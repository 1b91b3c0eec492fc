// A chart of lines over time, drawn by uPlot; it follows the width of its place and the colours of the system.

import { bytes, duration, rate, short } from "../lib/format.js";
import { Component, createRef, html } from "../lib/view.js";

const WRITE = { rate, bytes, duration, count: short };
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const dark = matchMedia("(prefers-color-scheme: dark)");

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The time at a tick: with seconds where less than five minutes are shown. */
function clockOf(seconds, plot) {
  const at = new Date(seconds * 1000);
  const parts = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0"));
  return (plot.scales.x.max - plot.scales.x.min < 300 ? parts : parts.slice(0, 2)).join(":");
}

/** Properties: title, unit (rate, bytes, duration, count), times, lines: [{label, colour, values}]. */
export class Chart extends Component {
  place = createRef();

  componentDidMount() {
    this.draw();
    this.observer = new ResizeObserver(() => {
      const width = this.place.current?.clientWidth;
      if (width && this.plot && width !== this.plot.width) this.plot.setSize({ width, height: this.height() });
    });
    this.observer.observe(this.place.current);
    this.recolour = () => this.draw();
    dark.addEventListener("change", this.recolour);
  }

  componentDidUpdate(before) {
    const labels = (properties) => properties.lines.map((line) => line.label).join();
    if (labels(before) !== labels(this.props) || before.unit !== this.props.unit) this.draw();
    else this.plot.setData(this.data());
  }

  componentWillUnmount() {
    this.observer.disconnect();
    dark.removeEventListener("change", this.recolour);
    this.plot?.destroy();
  }

  height() {
    return this.props.height ?? 190;
  }

  data() {
    return [this.props.times, ...this.props.lines.map((line) => line.values)];
  }

  draw() {
    this.plot?.destroy();
    const { unit } = this.props;
    const write = WRITE[unit];
    const quiet = colour("quiet");
    const axis = { stroke: quiet, grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const options = {
      width: this.place.current.clientWidth,
      height: this.height(),
      cursor: { y: false, points: { size: 6 } },
      legend: { live: true },
      padding: [8, 12, 0, 4],
      scales: {
        x: { range: (_, least, most) => (this.props.seconds ? [most - this.props.seconds, most] : [least, most]) },
        y: { range: (_, least, most) => [0, most > 0 ? most * 1.08 : 1] },
      },
      axes: [
        { ...axis, size: 26, gap: 4, space: 70, values: (plot, values) => values.map((value) => clockOf(value, plot)) },
        { ...axis, size: 62, gap: 4, incrs: unit === "bytes" ? POWERS : undefined, values: (_, values) => values.map((value) => write(value)) },
      ],
      series: [
        { label: "at", value: "{HH}:{mm}:{ss}" },
        ...this.props.lines.map((line) => ({
          label: line.label,
          stroke: colour(line.colour),
          width: 1.5,
          points: { show: false },
          value: (_, value) => (value === null || value === undefined ? "" : write(value)),
        })),
      ],
    };
    this.plot = new window.uPlot(options, this.data(), this.place.current);
  }

  render({ title, lines, unit, times }) {
    const write = WRITE[unit];
    const last = times.length - 1;
    const now = lines.map((line) => `${line.label} ${last < 0 ? "none" : write(line.values[last] ?? 0)}`).join(", ");
    return html`<figure class="chart" role="img" aria-label=${`${title}: ${now}`}>
      <figcaption>${title}</figcaption>
      <div class="plot" ref=${this.place} style=${{ minHeight: `${this.height() + 28}px` }}></div>
    </figure>`;
  }
}

/** A small line without axes, for tables. */
export function Sparkline({ values, label }) {
  const width = 90;
  const height = 20;
  const most = Math.max(...values, 1e-9);
  const step = values.length > 1 ? width / (values.length - 1) : width;
  const points = values.map((value, at) => `${(at * step).toFixed(1)},${(height - 1 - (value / most) * (height - 2)).toFixed(1)}`);
  return html`<svg class="sparkline" viewBox="0 0 ${width} ${height}" role="img" aria-label=${label}>
    ${points.length > 1 && html`<polyline points=${points.join(" ")} />`}
  </svg>`;
}
