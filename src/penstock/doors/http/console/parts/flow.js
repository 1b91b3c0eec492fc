// The flow diagram: protocols -> topics -> subscriptions -> destinations. The width of a pipe is its rate.

import { Component, createRef, html } from "../lib/view.js";

const ROW = 50;
const BOX = 38;
const WIDEST = 26; // sum of all pipes at one side of a box
const NARROWEST = 560; // a narrower diagram scrolls
const SHARES = [0.14, 0.23, 0.27, 0.2]; // of the width: the boxes of each column

/**
 * columns: four lists of boxes {key, label, note, href, stuck}; pipes: [{from, to, rate, stuck, dead}], between keys.
 * Boxes are links of the page, so that long text is cut and the keyboard reaches every box.
 */
export class Flow extends Component {
  place = createRef();
  state = { width: 0 };

  componentDidMount() {
    this.observer = new ResizeObserver(() => this.setState({ width: this.place.current.clientWidth }));
    this.observer.observe(this.place.current);
  }

  componentWillUnmount() {
    this.observer.disconnect();
  }

  render({ columns, pipes, titles }, { width }) {
    const { boxes, paths, height, wide, lefts } = arrange(columns, pipes, Math.max(width, NARROWEST));
    return html`<div class="flow" ref=${this.place} role="group" aria-label="Message flow" tabindex="0">
      <div class="flow-inner" style=${{ width: `${wide}px`, height: `${height}px` }}>
        ${
          width > 0 &&
          html`
          <svg width=${wide} height=${height} aria-hidden="true">${paths.map(
            (path) => html`<path key=${path.key} class=${path.kind} stroke-width=${path.width} d=${path.line} />`,
          )}</svg>
          ${titles.map(
            (title, at) => html`<span class="flow-title" style=${{ left: `${lefts[at]}px` }}>${title}</span>`,
          )}
          ${boxes.map(
            (box) =>
              html`<a key=${box.key} class=${box.stuck ? "box stuck" : "box"} href=${box.href}
                title=${`${box.label}: ${box.note}`}
                style=${{ left: `${box.left}px`, top: `${box.top}px`, width: `${box.wide}px`, height: `${BOX}px` }}
                ><span>${box.label}</span><small>${box.note}</small></a>`,
          )}`
        }
      </div>
    </div>`;
  }
}

export function arrange(columns, pipes, wide) {
  const top = 22; // height of the titles
  const rows = Math.max(1, ...columns.map((column) => column.length));
  const height = top + rows * ROW;
  const widths = SHARES.map((share) => Math.min(share * wide, 330));
  const gap = (wide - widths.reduce((sum, each) => sum + each, 0)) / (SHARES.length - 1);
  const lefts = widths.map((_, at) => widths.slice(0, at).reduce((sum, each) => sum + each + gap, 0));
  const boxes = columns.flatMap((column, at) =>
    column.map((box, row) => ({
      ...box,
      left: lefts[at],
      wide: widths[at],
      top: top + ((rows - column.length) * ROW) / 2 + row * ROW + (ROW - BOX) / 2,
    })),
  );
  const byKey = new Map(boxes.map((box) => [box.key, box]));
  const drawn = pipes.filter((pipe) => byKey.has(pipe.from) && byKey.has(pipe.to));
  return { boxes, paths: connect(drawn, byKey), height, wide, lefts };
}

/** Return pipes that leave and enter a box side by side, in the order of their other ends. */
function connect(pipes, byKey) {
  const ends = new Map(); // key and side -> pipes
  const at = (key, side) => ends.get(key + side) ?? ends.set(key + side, []).get(key + side);
  for (const pipe of pipes) {
    at(pipe.from, ">").push(pipe);
    at(pipe.to, "<").push(pipe);
  }
  const most = Math.max(1e-9, ...[...ends.values()].map((all) => all.reduce((sum, each) => sum + each.rate, 0)));
  const width = (pipe) => Math.max(pipe.stuck ? 3 : pipe.rate > 0 ? 1.5 : 1, (WIDEST * pipe.rate) / most);
  const places = new Map(pipes.map((pipe) => [pipe, {}]));
  for (const [key, all] of ends) {
    const box = byKey.get(key.slice(0, -1));
    const side = key.at(-1);
    const other = (pipe) => byKey.get(side === ">" ? pipe.to : pipe.from).top;
    let y = box.top + BOX / 2 - all.reduce((sum, each) => sum + width(each), 0) / 2;
    for (const pipe of all.toSorted((a, b) => other(a) - other(b))) {
      places.get(pipe)[side] = y + width(pipe) / 2;
      y += width(pipe);
    }
  }
  return pipes.map((pipe) => {
    const [from, to, { ">": y1, "<": y2 }] = [byKey.get(pipe.from), byKey.get(pipe.to), places.get(pipe)];
    const [x1, x2] = [from.left + from.wide, to.left];
    const between = (x1 + x2) / 2;
    const kind = `pipe${pipe.stuck ? " stuck" : pipe.rate > 0 ? " on" : ""}${pipe.dead ? " dead" : ""}`;
    const point = (x, y) => `${x.toFixed(1)},${y.toFixed(1)}`;
    const line = `M${point(x1, y1)} C${point(between, y1)} ${point(between, y2)} ${point(x2, y2)}`;
    return { key: `${pipe.from} ${pipe.to}`, kind, width: width(pipe).toFixed(1), line };
  });
}
