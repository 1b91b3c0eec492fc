// Small parts of several pages: lists of facts, names of resources for each client, tiles.

import { html } from "../lib/view.js";

export function Facts({ rows }) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">${shown.map(
    ([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`,
  )}</dl>`;
}

/** Copy through a selection. The browser's clipboard needs a secure origin and may be refused. */
function copySelected(text, beside) {
  const field = Object.assign(document.createElement("textarea"), { value: text, className: "unseen" });
  beside.after(field); // while a dialog is open, nothing outside it can be selected
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  beside.focus();
  return done;
}

export function Copy({ text }) {
  const copy = async (event) => {
    const button = event.currentTarget;
    const written = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    const done = written || copySelected(text, button);
    if (!done && button.previousElementSibling) getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = done ? "copied" : "press Ctrl+C";
    setTimeout(() => (button.textContent = "copy"), done ? 1200 : 5000);
  };
  return html`<button type="button" class="copy" aria-label=${`Copy ${text}`} onClick=${copy}>copy</button>`;
}

export const CLIENTS = {
  pubsub: "Google Pub/Sub",
  azure: "Azure Queue",
  text: "Text protocol",
  python: "Python",
  spark: "Spark",
};

export function ClientNames({ names }) {
  const rows = Object.entries(CLIENTS).map(([client, label]) => [
    label,
    names[client]
      ? html`<code>${names[client]}</code> <${Copy} text=${names[client]} />`
      : html`<span class="quiet">not available</span>`,
  ]);
  return html`<${Facts} rows=${rows} />`;
}

export function Tile({ label, value, hint, alert }) {
  return html`<div class=${alert ? "tile alert" : "tile"}>
    <span class="label">${label}</span><strong>${value}</strong>${hint && html`<small>${hint}</small>`}</div>`;
}

export function Labels({ labels }) {
  const entries = Object.entries(labels ?? {});
  return entries.length
    ? entries.map(([name, value]) => html`<span class="tag">${name}${value && `=${value}`}</span> `)
    : null;
}

/** A choice of a few options as buttons side by side. options: [[value, label], ...] */
export function Segments({ label, value, options, onChoose }) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(
      ([option, text]) =>
        html`<button type="button" aria-pressed=${option === value} onClick=${() => onChoose(option)}>${text}</button>`,
    )}
  </div>`;
}
