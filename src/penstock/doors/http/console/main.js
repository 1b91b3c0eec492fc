// The frame of the console: header, keyboard shortcuts, notices, and the page that the address names.

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
const STATES = { connecting: "connecting", live: "live", lost: "offline", refused: "denied" };
const KEYS = [
  ["/", "search"],
  ["↓ ↑", "move between rows"],
  ["Enter", "open"],
  ["Esc", "leave the search field"],
  ["p", "pause or resume"],
  ...PAGES.map(([, label, letter]) => [`g ${letter}`, label.toLowerCase()]),
  ["?", "show this list"],
];

function connectionProblem() {
  if (live.state === "refused") return "The server denied access.";
  if (live.state !== "lost") return undefined;
  if (live.problem) return `${live.problem.replace(/\.$/, "")}. Retrying.`;
  return live.heardAt
    ? `The server has not responded since ${clock(live.heardAt).slice(11, 19)}. Retrying.`
    : "The server is not responding. Retrying.";
}

class App extends Component {
  state = { hash: location.hash, needsToken: false, promptedForToken: false, help: false, section: null };

  componentDidMount() {
    addEventListener("hashchange", () => this.followAddress());
    // The dialog opens once, not again with every refresh.
    addEventListener(
      "penstock-token-needed",
      () => this.state.promptedForToken || this.setState({ needsToken: true, promptedForToken: true }),
    );
    addEventListener("keydown", (event) => this.handleKey(event));
    live.on("state", () => this.forceUpdate());
    live.on("server", () => this.forceUpdate());
    live.on("section", (section) => this.setState({ section }));
    live.start();
  }

  followAddress() {
    const [before, after] = [this.state.hash, location.hash].map((hash) => parse(hash).parts.join("/"));
    this.setState({ hash: location.hash });
    if (before === after) return;
    this.setState({ section: null });
    document.querySelector("main").focus({ preventScroll: true });
    scrollTo(0, 0);
    requestAnimationFrame(() =>
      document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" }),
    );
  }

  handleKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("[data-search]")) this.handleSearchKey(event);
    if (event.target.closest("input, textarea, select, dialog")) return;
    if (event.key === "/") {
      document.querySelector("[data-search]")?.focus();
      event.preventDefault();
    } else if (event.key === "?") {
      this.setState({ help: true });
    } else if (event.key === "p") {
      live.pause(!live.paused);
    } else if (event.key === "g") {
      this.gPressedAt = event.timeStamp;
    } else if (event.timeStamp - (this.gPressedAt ?? -Infinity) < 1500) {
      const target = PAGES.find(([, , letter]) => letter === event.key);
      if (target) go([target[0]]);
      this.gPressedAt = undefined;
    } else if (event.key === "ArrowDown" && document.activeElement.matches("body, main")) {
      this.focusFirstRow(event);
    }
  }

  handleSearchKey(event) {
    const isEnterAlone = event.key === "Enter" && event.target.form === null; // in a form, Enter submits it
    if (event.key === "ArrowDown" || isEnterAlone) this.focusFirstRow(event);
    if (event.key !== "Escape") return;
    event.preventDefault(); // the browser would clear the field without an event
    event.target.blur();
  }

  focusFirstRow(event) {
    const first = document.querySelector("main tbody a, main a.message");
    first?.focus();
    if (first) event.preventDefault();
  }

  /** Switch to another token. If the server rejects it, a page that is live keeps its previous token. */
  async useToken(newToken) {
    const previous = token.get();
    token.set(newToken);
    try {
      live.server = await get("/server");
    } catch (error) {
      if (live.state === "live") token.set(previous);
      throw error;
    }
    this.setState({ promptedForToken: false });
    live.tell("server", live.server);
    live.retry();
  }

  /** Return the notice about the connection. It lies over the page, so that nothing on the page moves. */
  notice() {
    const problem = connectionProblem();
    const askToken = () => this.setState({ needsToken: true });
    const tokenButton =
      live.state === "refused" && html` <button type="button" onClick=${askToken}>Enter a token</button>`;
    if (problem) return html`<p class="toast bad" role="alert">${problem}${tokenButton}</p>`;
    if (!live.restarted) return null;
    const dismiss = () => {
      live.restarted = false;
      this.forceUpdate();
    };
    return html`<p class="toast" role="status">
      The server restarted. This page now shows the new server's data.${" "}
      <button type="button" onClick=${dismiss}>OK</button></p>`;
  }

  render(_, { hash, needsToken, help, section }) {
    const { parts, query } = parse(hash);
    const here = parts[0] || "overview";
    document.title = parts[1] ? `${parts[1].split("/").pop()} - Penstock` : "Penstock";
    const skip = (event) => {
      event.preventDefault();
      document.querySelector("main").focus();
    };
    const link = ([name, label, letter]) => {
      const current = name === (section ?? here) ? "page" : undefined;
      return html`<a href=${format([name])} aria-current=${current} title=${`g ${letter}`}>${label}</a>`;
    };
    return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
      <header>
        <a class="brand" href=${format(["overview"])}
          ><img src="/console/icon.svg" alt="" width="22" height="22" />Penstock</a>
        <nav aria-label="Pages">${PAGES.map(link)}</nav>
        <span class=${`connection ${live.paused ? "paused" : live.state}`} role="status"
          >${live.paused ? "paused" : STATES[live.state]}</span>
        ${
          live.server &&
          !live.canChange &&
          html`<button type="button" class="quiet" title="This token can only read. Click to enter another token."
            onClick=${() => this.setState({ needsToken: true })}>read-only</button>`
        }
        ${
          live.paused &&
          here !== "overview" &&
          html`<button type="button" onClick=${() => live.pause(false)}>Resume</button>`
        }
        <button type="button" class="quiet" aria-label="Keyboard shortcuts"
          onClick=${() => this.setState({ help: true })}>?</button>
      </header>
      <main id="main" tabindex="-1">${pageOf(here, parts, query)}</main>
      ${this.notice()}
      ${
        needsToken &&
        html`<${Dialog} title="Token required" submit="Continue" onClose=${() => this.setState({ needsToken: false })}
          run=${(values) => this.useToken(values.token)}>
          <${Field} label="Token" name="token" type="password" required autofocus
            hint="A token from http_tokens or http_read_tokens. It is kept until this tab is closed." /><//>`
      }
      ${
        help &&
        html`<${Dialog} title="Keyboard shortcuts" submit="Close" run=${async () => {}}
          onClose=${() => this.setState({ help: false })}>
          <dl class="facts">${KEYS.map(
            ([key, action]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${action}</dd></div>`,
          )}</dl><//>`
      }`;
  }
}

function pageOf(here, parts, query) {
  const name = parts[1];
  if (here === "overview") return html`<${Overview} query=${query} />`;
  if (here === "topics" && parts[2] === "messages")
    return html`<${Messages} key=${`m${name}`} name=${name} query=${query} />`;
  if (here === "topics" && name) return html`<${Topic} key=${name} name=${name} query=${query} />`;
  if (here === "topics") return html`<${Topics} key="topics" query=${query} />`;
  if (here === "subscriptions" && name) return html`<${Subscription} key=${name} name=${name} query=${query} />`;
  if (here === "subscriptions") return html`<${Subscriptions} key="subscriptions" query=${query} />`;
  if (here === "queues") return html`<${Queues} key="queues" query=${query} />`;
  if (here === "moves") return html`<${Moves} query=${query} />`;
  if (here === "snapshots") return html`<${Snapshots} query=${query} />`;
  if (here === "server") return html`<${Server} query=${query} />`;
  return html`<p class="problem">Page not found. <a href=${format(["overview"])}>Go to the overview</a></p>`;
}

render(html`<${App} />`, document.getElementById("app"));
