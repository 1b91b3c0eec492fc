// The server itself: its doors, its store, its settings.

import { get } from "../lib/api.js";
import { bytes, clock, count, duration } from "../lib/format.js";
import { html, View } from "../lib/view.js";
import { Facts } from "../parts/facts.js";
import { Search, Table } from "../parts/table.js";
import { refine } from "../lib/route.js";

/** Who a door answers: by what it asks for, or by where it listens. */
function callers(door) {
  if (!door.address) return "";
  const here = /^(127\.|\[::1\]|localhost)/.test(door.address);
  if (door.guarded) return here ? "this machine, with credentials where they are set" : "those with credentials";
  return here ? "every program on this machine" : "everybody who can reach it";
}

export class Server extends View {
  async load(signal) {
    const [server, { settings }] = await Promise.all([get("/server", {}, signal), get("/settings", {}, signal)]);
    return { server, settings };
  }

  show({ server, settings }) {
    const search = this.props.query.search ?? "";
    const shown = settings.filter((each) => each.name.includes(search) || each.help.toLowerCase().includes(search.toLowerCase()));
    const value = (each) => (each === null || each === "" ? "" : Array.isArray(each) ? each.join(", ") : String(each));
    return html`<section aria-label="Server">
      <div class="bar"><h1>Server</h1></div>
      <div class="panel"><${Facts} rows=${[
        ["Version", server.version],
        ["Started", `${clock(server.started_at)} (${duration((Date.parse(server.now) - Date.parse(server.started_at)) / 1000)} ago)`],
        ["Durability", server.durability.sentence],
        ["Data", server.data && html`<code>${server.data}</code>`],
        ["Recovered", `${count(server.recovered.messages)} messages in ${count(server.recovered.topics)} topics, in ${server.recovered.milliseconds} ms`],
        ["Store", `${bytes(server.journal.bytes)}, and ${bytes(server.journal.wal_bytes)} of log before it`],
        ["Free", server.journal.free_bytes === null ? "" : bytes(server.journal.free_bytes)],
        ["Memory", bytes(server.memory_bytes)],
        ["Default project", server.default_project],
      ]} /></div>
      <div class="bar"><h2>Doors</h2></div>
      <${Table} label="Doors" rows=${server.doors} empty="No door is open." columns=${[
        { label: "Door", cell: (door) => door.name },
        { label: "State", cell: (door) => html`<span class=${`state ${door.state}`}>${door.state}</span>` },
        { label: "Address", cell: (door) => (door.address ? html`<code>${door.address}</code>` : door.note) },
        { label: "Callers", cell: (door) => callers(door) },
        { label: "Counted", cell: (door) => Object.entries(door.counts).filter(([, number]) => number).map(([name, number]) => `${name} ${count(number)}`).join(", ") },
      ]} />
      <div class="bar"><h2>Settings</h2><${Search} label="Search settings" value=${search} onSearch=${(text) => refine({ search: text })} /></div>
      <${Table} label="Settings" rows=${shown} empty="No setting is called so." columns=${[
        { label: "Setting", cell: (each) => html`<code>${each.name}</code>` },
        { label: "Value", cell: (each) => html`<span class=${each.changed ? "changed" : ""}>${value(each.value)}</span>` },
        { label: "Default", cell: (each) => value(each.default) },
        { label: "What it is", wide: true, cell: (each) => each.help },
      ]} />
    </section>`;
  }
}
