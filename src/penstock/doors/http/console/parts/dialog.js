// Dialogs: a form that does one thing, says what came of it, and shows the server's own sentence when it was refused.

import { Component, createRef, html } from "../lib/view.js";

// Each open dialog is a step of the way back, so that the browser's Back closes the topmost and leaves the page alone.
const open = [];
const steps = () => history.state?.dialogs ?? 0;
addEventListener("popstate", () => {
  if (steps() >= open.length) return;
  const dialog = open.at(-1);
  const there = location.hash;
  dialog.closed();
  if (there === dialog.hash) return;
  history.replaceState(history.state, "", there); // another address was given: what closing made of it does not count
  dispatchEvent(new HashChangeEvent("hashchange"));
});

/**
 * Properties: title, submit (the label of its button), run(values) -> a sentence or nothing, onClose(done), danger,
 * typed: a name to type first, children: the fields, whose `name`s become the keys of the values.
 */
export class Dialog extends Component {
  place = createRef();
  form = createRef();
  state = { busy: false, error: null, done: null, typed: "" };

  componentDidMount() {
    this.place.current.showModal();
    open.push(this);
    this.hash = location.hash;
    if (steps() < open.length) history.pushState({ dialogs: open.length }, ""); // after a reload it is there
  }

  /** Its button is gone with the work: without this the next Enter would be for the page. */
  componentDidUpdate(_, before) {
    if (this.state.done && !before.done) this.form.current.querySelector(".buttons > :last-child").focus();
  }

  componentWillUnmount() {
    this.leave();
  }

  leave() {
    if (open.includes(this)) open.splice(open.indexOf(this), 1);
  }

  /** By a step back, where this dialog is one. */
  close(done) {
    if (this.done !== undefined) return; // on its way
    this.done = done;
    if (open.at(-1) === this && steps() === open.length) history.back();
    else this.closed();
  }

  closed() {
    this.leave();
    this.place.current?.close();
    this.props.onClose(this.done ?? Boolean(this.state.done));
  }

  submit(event) {
    event.preventDefault();
    if (this.state.busy) return undefined;
    if (this.state.done) return this.close(true); // Enter, in a form that has done what it does
    return this.attempt(async (values) => {
      const sentence = await this.props.run(values);
      if (sentence) this.setState({ done: sentence });
      else this.close(true);
    });
  }

  /** Do something with what is filled in; what is refused is shown. */
  async attempt(act) {
    this.setState({ busy: true, error: null });
    try {
      await act(Object.fromEntries(new FormData(this.form.current)));
    } catch (error) {
      this.setState({ error: error.message });
    } finally {
      this.setState({ busy: false });
    }
  }

  render({ title, submit, danger, typed, children, extra }, { busy, error, done }) {
    const held = busy || (typed && this.state.typed !== typed);
    return html`<dialog ref=${this.place} aria-label=${title} onCancel=${(event) => {
      event.preventDefault();
      this.close(Boolean(done));
    }}>
      <form ref=${this.form} onSubmit=${(event) => this.submit(event)}>
        <h2>${title}</h2>
        ${children}
        ${typed && !done && html`<label class="field">To go on, type <code>${typed}</code>
          <input autocomplete="off" spellcheck=${false} value=${this.state.typed}
            onInput=${(event) => this.setState({ typed: event.target.value })} /></label>`}
        ${error && html`<p class="problem" role="alert">${error}</p>`}
        ${done && html`<p class="good" role="status">${done}</p>`}
        <div class="buttons">
          ${extra?.(this)}
          <button type="button" onClick=${() => this.close(Boolean(done))}>${done || busy ? "Close" : "Cancel"}</button>
          ${!done && html`<button type="submit" class=${danger ? "danger" : "primary"} disabled=${held}>${busy ? "Working" : submit}</button>`}
        </div>
      </form>
    </dialog>`;
  }
}

let fields = 0;

/**
 * A label, a control and a hint. Values are given once, as defaults: a page that is drawn anew while somebody types
 * must not take away what was typed.
 */
class Labelled extends Component {
  id = `field-${(fields += 1)}`;

  render({ label, hint, kind = "input", children, value, checked, ...rest }) {
    const given = { ...rest, id: this.id, "aria-describedby": hint ? `${this.id}-hint` : undefined };
    if (kind !== "select") Object.assign(given, { defaultValue: value, autocomplete: "off", spellcheck: false });
    return html`<div class="field"><label for=${this.id}>${label}</label>
      ${kind === "input" && html`<input ...${given} />`}
      ${kind === "textarea" && html`<textarea ...${given}></textarea>`}
      ${kind === "select" && html`<select ...${given}>${children}</select>`}
      ${hint && html`<small id=${`${this.id}-hint`}>${hint}</small>`}
    </div>`;
  }
}

export const Field = (properties) => html`<${Labelled} ...${properties} />`;
export const Area = (properties) => html`<${Labelled} kind="textarea" ...${properties} />`;

export const Choice = (properties) => html`<${Labelled} kind="select" ...${properties} />`;

export function Check({ label, name, checked }) {
  return html`<label class="check"><input type="checkbox" name=${name} defaultChecked=${checked} /> ${label}</label>`;
}
