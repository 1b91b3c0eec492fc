// Dialogs: a form for one action, which shows the result, or the server's error message.

import { Component, createRef, html } from "../lib/view.js";

// Each open dialog is an entry of the browser's history, so that Back closes the topmost dialog and not the page.
const open = [];
const steps = () => history.state?.dialogs ?? 0;
addEventListener("popstate", () => {
  if (steps() >= open.length) return;
  const dialog = open.at(-1);
  const target = location.hash;
  dialog.closed();
  if (target === dialog.hash) return;
  history.replaceState(history.state, "", target); // the user typed this address while the dialog was open
  dispatchEvent(new HashChangeEvent("hashchange"));
});

/**
 * Properties: title, submit (the label of the button), run(values), which may return a sentence, onClose(done), danger,
 * typed (a name to type as confirmation), children (the fields, whose names become the keys of the values).
 */
export class Dialog extends Component {
  place = createRef();
  form = createRef();
  state = { busy: false, error: null, done: null, typed: "" };

  componentDidMount() {
    this.place.current.showModal();
    open.push(this);
    this.hash = location.hash;
    if (steps() < open.length) history.pushState({ dialogs: open.length }, ""); // after a reload the entry exists
  }

  /** Focus the close button after success. Otherwise the next Enter would go to the page. */
  componentDidUpdate(_, before) {
    if (this.state.done && !before.done) this.form.current.querySelector(".buttons > :last-child").focus();
  }

  componentWillUnmount() {
    this.leave();
  }

  leave() {
    if (open.includes(this)) open.splice(open.indexOf(this), 1);
  }

  /** Close by going back in the history, if this dialog is the current entry. */
  close(done) {
    if (this.done !== undefined) return; // already closing
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
    if (this.state.done) return this.close(true); // Enter in a form that is done
    return this.attempt(async (values) => {
      const sentence = await this.props.run(values);
      if (sentence) this.setState({ done: sentence });
      else this.close(true);
    });
  }

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
    const isDisabled = busy || (typed && this.state.typed !== typed);
    return html`<dialog ref=${this.place} aria-label=${title} onCancel=${(event) => {
      event.preventDefault();
      this.close(Boolean(done));
    }}>
      <form ref=${this.form} onSubmit=${(event) => this.submit(event)}>
        <h2>${title}</h2>
        ${children}
        ${
          typed &&
          !done &&
          html`<label class="field"><span>Type <code>${typed}</code> to confirm</span>
          <input autocomplete="off" spellcheck=${false} value=${this.state.typed}
            onInput=${(event) => this.setState({ typed: event.target.value })} /></label>`
        }
        ${error && html`<p class="problem" role="alert">${error}</p>`}
        ${done && html`<p class="good" role="status">${done}</p>`}
        <div class="buttons">
          ${extra?.(this)}
          <button type="button" onClick=${() => this.close(Boolean(done))}>${done || busy ? "Close" : "Cancel"}</button>
          ${
            !done &&
            html`<button type="submit" class=${danger ? "danger" : "primary"} disabled=${isDisabled}
              >${busy ? "Working..." : submit}</button>`
          }
        </div>
      </form>
    </dialog>`;
  }
}

let fields = 0;

/**
 * A label, a control and a hint. Values are set once, as defaults, so that rendering the page again keeps what the user
 * typed.
 */
class Labelled extends Component {
  id = `field-${(fields += 1)}`;

  render({ label, hint, kind = "input", children, value, checked, ...rest }) {
    const attributes = { ...rest, id: this.id, "aria-describedby": hint ? `${this.id}-hint` : undefined };
    if (kind !== "select") Object.assign(attributes, { defaultValue: value, autocomplete: "off", spellcheck: false });
    return html`<div class="field"><label for=${this.id}>${label}</label>
      ${kind === "input" && html`<input ...${attributes} />`}
      ${kind === "textarea" && html`<textarea ...${attributes}></textarea>`}
      ${kind === "select" && html`<select ...${attributes}>${children}</select>`}
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
