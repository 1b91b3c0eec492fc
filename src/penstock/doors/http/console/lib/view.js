// The base of all pages: Preact elements from tagged templates, and a view that loads its data.

import htm from "../vendor/htm.mjs";
import { Component, h } from "../vendor/preact.mjs";
import { live } from "./live.js";
import { format, parse } from "./route.js";

export { Component, createRef, Fragment, render } from "../vendor/preact.mjs";
export const html = htm.bind(h);

const REFRESH = 2000;

/**
 * A view of data of the server: `load(signal)` requests the data, `show(data)` returns the elements. The view loads
 * again every two seconds while the page is visible and not paused, and when the server is back. The old data stay
 * until the new data arrive, so that nothing jumps.
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
    const refresh = () => !live.paused && !document.hidden && !this.skipsRefresh() && this.reload();
    if (this.refreshes) this.every(REFRESH, refresh);
    this.ends.push(live.on("server", () => this.reload()));
  }

  /** Return whether to skip this refresh. A resource that was not found is requested every fifth time. */
  skipsRefresh() {
    this.refreshCount = (this.refreshCount ?? 0) + 1;
    return this.state.error?.status === 404 && this.refreshCount % 5 > 0;
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

  clearFiltersLink() {
    const { parts, query } = parse(location.hash);
    return Object.keys(query).length > 0 && html`<p><a href=${format(parts)}>Clear all filters</a></p>`;
  }

  render() {
    const { data, error } = this.state;
    if (data === null && error === null) return html`<div class="loading" role="status">Loading</div>`;
    if (data === null)
      return html`<h1>${error.status === 404 ? "Not found" : "Error"}</h1>
        <p class="problem" role="alert">${error.message}</p>
        ${error.status === 400 && this.clearFiltersLink()}`;
    const isShown = error && error.status !== 0; // the header already shows that the server is offline
    return html`${isShown && html`<p class="problem" role="alert">${error.message}</p>`}${this.show(data)}`;
  }
}
