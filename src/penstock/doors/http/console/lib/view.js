// What every part of the page is made of: Preact's elements by tagged templates, and a view that loads its data.

import htm from "../vendor/htm.mjs";
import { Component, h } from "../vendor/preact.mjs";
import { live } from "./live.js";
import { format, parse } from "./route.js";

export { Component, createRef, Fragment, render } from "../vendor/preact.mjs";
export const html = htm.bind(h);

const REFRESH = 2000;

/**
 * A view with data of the server: `load(signal)` gets it, `show(data)` draws it. It loads again every two seconds while
 * the page is looked at and not paused, and when the server came back; the old data stay until the new are there, so
 * that nothing jumps.
 */
export class View extends Component {
  refreshes = true;

  constructor(properties) {
    super(properties);
    this.state = { data: null, error: null };
    this.ends = [];
  }

  componentDidMount() {
    this.gone = false;
    this.reload();
    if (this.refreshes) this.every(REFRESH, () => !live.paused && !document.hidden && !this.rests() && this.reload());
    this.ends.push(live.on("server", () => this.reload()));
  }

  /** What is gone may come back, but it is asked for less often. */
  rests() {
    this.asked = (this.asked ?? 0) + 1;
    return this.state.error?.status === 404 && this.asked % 5 > 0;
  }

  componentWillUnmount() {
    this.gone = true;
    this.controller?.abort();
    this.ends.forEach((end) => end());
  }

  every(milliseconds, call) {
    const timer = setInterval(call, milliseconds);
    this.ends.push(() => clearInterval(timer));
  }

  async reload() {
    if (this.loading) {
      this.stale = true;
      return;
    }
    this.loading = true;
    this.controller = new AbortController();
    try {
      const data = await this.load(this.controller.signal);
      if (!this.gone) this.setState({ data, error: null });
    } catch (error) {
      if (!this.gone && error.name !== "AbortError") this.setState({ error });
    } finally {
      this.loading = false;
      if (this.stale && !this.gone) {
        this.stale = false;
        this.reload();
      }
    }
  }

  /** From an address whose conditions are refused, where the page has no form to correct them. */
  wayOut() {
    const { parts, query } = parse(location.hash);
    return Object.keys(query).length > 0 && html`<p><a href=${format(parts)}>Show this page without these conditions</a></p>`;
  }

  render() {
    const { data, error } = this.state;
    if (data === null && error === null) return html`<div class="loading" role="status">Loading</div>`;
    if (data === null) return html`<h1>${error.status === 404 ? "Not found" : "Not shown"}</h1><p class="problem" role="alert">${error.message}</p>${error.status === 400 && this.wayOut()}`;
    const said = error && error.status !== 0; // that the server is away is said once, in the frame
    return html`${said && html`<p class="problem" role="alert">${error.message}</p>`}${this.show(data)}`;
  }
}
