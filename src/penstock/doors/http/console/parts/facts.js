// Small pieces that several pages use: lists of facts, names at the doors, tiles.

import { html } from "../lib/view.js";

/** Pairs of a label and what is so; those without a value are left out. */
export function Facts({ rows }) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">${shown.map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Without the browser's clipboard, which is there on secure origins only, and may be refused: as a selection. */
function copySelected(text, beside) {
  const field = Object.assign(document.createElement("textarea"), { value: text, className: "unseen" });
  beside.after(field); // in a dialog, nothing outside it can be selected
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  beside.focus();
  return done;
}

export function Copy({ text }) {
  const copy = async (event) => {
    const button = event.currentTarget;
    const written = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    const done = written || copySelected(text, button);
    if (!done && button.previousElementSibling) getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = done ? "copied" : "press Ctrl+C";
    setTimeout(() => (button.textContent = "copy"), done ? 1200 : 5000);
  };
  return html`<button type="button" class="copy" aria-label=${`Copy ${text}`} onClick=${copy}>copy</button>`;
}

export const CLIENTS = { pubsub: "Google Pub/Sub", azure: "Azure Queue", text: "Text", python: "Python", spark: "Spark" };

/** How clients of each kind call a topic. */
export function DoorNames({ names }) {
  const rows = Object.entries(CLIENTS).map(([client, label]) => [
    label,
    names[client] ? html`<code>${names[client]}</code> <${Copy} text=${names[client]} />` : html`<span class="quiet">cannot reach it</span>`,
  ]);
  return html`<${Facts} rows=${rows} />`;
}

export function Tile({ label, value, hint, alert }) {
  return html`<div class=${alert ? "tile alert" : "tile"}><span class="label">${label}</span><strong>${value}</strong>${hint && html`<small>${hint}</small>`}</div>`;
}

export function Labels({ labels }) {
  const entries = Object.entries(labels ?? {});
  return entries.length ? entries.map(([name, value]) => html`<span class="tag">${name}${value && `=${value}`}</span> `) : null;
}

/** One of a few, as buttons side by side. options: [[value, label], ...] */
export function Segments({ label, value, options, onChoose }) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(([each, text]) => html`<button type="button" aria-pressed=${each === value} onClick=${() => onChoose(each)}>${text}</button>`)}
  </div>`;
}
