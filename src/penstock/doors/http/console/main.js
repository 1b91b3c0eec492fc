// The console: the frame around the pages, the keys, and which page an address leads to.

import { get, token } from "./lib/api.js";
import { clock } from "./lib/format.js";
import { live } from "./lib/live.js";
import { format, go, parse } from "./lib/route.js";
import { Component, html, render } from "./lib/view.js";
import { Dialog, Field } from "./parts/dialog.js";
import { Queues, Subscriptions, Topics } from "./views/lists.js";
import { Messages } from "./views/messages.js";
import { Moves } from "./views/moves.js";
import { Overview } from "./views/overview.js";
import { Server } from "./views/server.js";
import { Snapshots } from "./views/snapshots.js";
import { Subscription } from "./views/subscription.js";
import { Topic } from "./views/topic.js";

const PAGES = [
  ["overview", "Overview", "o"],
  ["topics", "Topics", "t"],
  ["subscriptions", "Subscriptions", "s"],
  ["queues", "Queues", "q"],
  ["moves", "Moves", "m"],
  ["snapshots", "Snapshots", "n"],
  ["server", "Server", "v"],
];
const SENTENCES = {
  lost: () => live.problem ? `${live.problem}; trying again.` : `The server ${live.heardAt ? `has not answered since ${clock(live.heardAt).slice(11, 19)}` : "does not answer"}; trying again.`,
  refused: () => "The server refuses this page.",
};
const KEYS = [["/", "search"], ["↓ ↑", "from row to row"], ["Enter", "open"], ["Esc", "leave the search"], ["p", "pause, go on"]];

class App extends Component {
  state = { hash: location.hash, needsToken: false, asked: false, help: false, section: null };

  componentDidMount() {
    addEventListener("hashchange", () => this.arrive());
    // Asked for once: who has none is not asked again with every refresh.
    addEventListener("penstock-token-needed", () => this.state.asked || this.setState({ needsToken: true, asked: true }));
    addEventListener("keydown", (event) => this.key(event));
    live.on("state", () => this.forceUpdate());
    live.on("server", () => this.forceUpdate());
    live.on("section", (section) => this.setState({ section }));
    live.start();
  }

  /** Another page begins at its top, and the next key is for it. */
  arrive() {
    const [before, after] = [this.state.hash, location.hash].map((hash) => parse(hash).parts.join("/"));
    this.setState({ hash: location.hash });
    if (before === after) return;
    this.setState({ section: null });
    document.querySelector("main").focus({ preventScroll: true });
    scrollTo(0, 0);
    requestAnimationFrame(() => document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" }));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("[data-search]")) this.searchKey(event);
    if (event.target.closest("input, textarea, select, dialog")) return;
    if (event.key === "/") {
      document.querySelector("[data-search]")?.focus();
      event.preventDefault();
    } else if (event.key === "?") {
      this.setState({ help: true });
    } else if (event.key === "p") {
      live.pause(!live.paused);
    } else if (event.key === "g") {
      this.went = event.timeStamp;
    } else if (event.timeStamp - (this.went ?? -Infinity) < 1500) {
      const page = PAGES.find(([, , letter]) => letter === event.key);
      if (page) go([page[0]]);
      this.went = undefined;
    } else if (event.key === "ArrowDown" && document.activeElement.matches("body, main")) {
      this.toFirstRow(event);
    }
  }

  searchKey(event) {
    const asks = event.key === "Enter" && event.target.form === null; // in a form, Enter sends it
    if (event.key === "ArrowDown" || asks) this.toFirstRow(event);
    if (event.key !== "Escape") return;
    event.preventDefault(); // a browser would empty the field, and tell nobody
    event.target.blur();
  }

  toFirstRow(event) {
    const first = document.querySelector("main tbody a, main a.message");
    first?.focus();
    if (first) event.preventDefault();
  }

  /** Where it is refused, a page that is live keeps the one it had. */
  async useToken(given) {
    const before = token.get();
    token.set(given);
    try {
      live.server = await get("/server");
    } catch (error) {
      if (live.state === "live") token.set(before);
      throw error;
    }
    this.setState({ asked: false });
    live.tell("server", live.server);
    live.retry();
  }

  /** What happened to the connection, over the page, so that nothing on it moves. */
  notice() {
    const ask = live.state === "refused" && html` <button type="button" onClick=${() => this.setState({ needsToken: true })}>Give a token</button>`;
    if (SENTENCES[live.state]) return html`<p class="toast bad" role="alert">${SENTENCES[live.state]()}${ask}</p>`;
    if (!live.restarted) return null;
    const seen = () => {
      live.restarted = false;
      this.forceUpdate();
    };
    return html`<p class="toast" role="status">The server was started anew; what is shown is from the new one. <button type="button" onClick=${seen}>Good</button></p>`;
  }

  render(_, { hash, needsToken, help, section }) {
    const { parts, query } = parse(hash);
    const here = parts[0] || "overview";
    document.title = parts[1] ? `${parts[1].split("/").pop()} - Penstock` : "Penstock";
    return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>To the content</a>
      <header>
        <a class="brand" href=${format(["overview"])}><img src="/console/icon.svg" alt="" width="22" height="22" />Penstock</a>
        <nav aria-label="Pages">${PAGES.map(([page, label, letter]) => html`<a href=${format([page])} aria-current=${page === (section ?? here) ? "page" : undefined} title=${`g ${letter}`}>${label}</a>`)}</nav>
        <span class=${`connection ${live.paused ? "paused" : live.state}`} role="status">${live.paused ? "paused" : live.state}</span>
        ${live.server && !live.canChange && html`<button type="button" class="quiet" title="This token may only read: nothing is offered that would change anything. Give another" onClick=${() => this.setState({ needsToken: true })}>read only</button>`}
        ${live.paused && here !== "overview" && html`<button type="button" onClick=${() => live.pause(false)}>Go on</button>`}
        <button type="button" class="quiet" aria-label="Keys" onClick=${() => this.setState({ help: true })}>?</button>
      </header>
      <main id="main" tabindex="-1">${page(here, parts, query)}</main>
      ${this.notice()}
      ${needsToken && html`<${Dialog} title="This server asks for a token" submit="Go on" onClose=${() => this.setState({ needsToken: false })}
        run=${(values) => this.useToken(values.token)}>
        <${Field} label="Token" name="token" type="password" required autofocus hint="One of http_tokens or http_read_tokens; kept until this tab is closed" /><//>`}
      ${help && html`<${Dialog} title="Keys" submit="Close" run=${async () => {}} onClose=${() => this.setState({ help: false })}>
        <dl class="facts">${[...KEYS, ...PAGES.map(([, label, letter]) => [`g ${letter}`, label.toLowerCase()]), ["?", "this list"]].map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl><//>`}`;
  }
}

function page(here, parts, query) {
  const name = parts[1];
  if (here === "overview") return html`<${Overview} query=${query} />`;
  if (here === "topics" && parts[2] === "messages") return html`<${Messages} key=${`m${name}`} name=${name} query=${query} />`;
  if (here === "topics" && name) return html`<${Topic} key=${name} name=${name} query=${query} />`;
  if (here === "topics") return html`<${Topics} key="topics" query=${query} />`;
  if (here === "subscriptions" && name) return html`<${Subscription} key=${name} name=${name} query=${query} />`;
  if (here === "subscriptions") return html`<${Subscriptions} key="subscriptions" query=${query} />`;
  if (here === "queues") return html`<${Queues} key="queues" query=${query} />`;
  if (here === "moves") return html`<${Moves} query=${query} />`;
  if (here === "snapshots") return html`<${Snapshots} query=${query} />`;
  if (here === "server") return html`<${Server} query=${query} />`;
  return html`<p class="problem">There is no such page. <a href=${format(["overview"])}>To the overview</a></p>`;
}

render(html`<${App} />`, document.getElementById("app"));
