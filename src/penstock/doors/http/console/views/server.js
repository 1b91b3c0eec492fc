// The server: its state, protocols and settings.

import { get } from "../lib/api.js";
import { bytes, clock, count, duration, protocolName } from "../lib/format.js";
import { refine } from "../lib/route.js";
import { html, View } from "../lib/view.js";
import { Facts } from "../parts/facts.js";
import { Search, Table } from "../parts/table.js";

function allowedClients({ address, guarded }) {
  if (!address) return "";
  const isLocal = /^(127\.|\[::1\]|localhost)/.test(address);
  if (guarded) return isLocal ? "this machine, with credentials if configured" : "clients with credentials";
  return isLocal ? "every program on this machine" : "everyone who can reach the address";
}

function counters({ counts }) {
  const nonZero = Object.entries(counts).filter(([, number]) => number);
  return nonZero.map(([name, number]) => `${name} ${count(number)}`).join(", ");
}

function valueText(value) {
  if (value === null || value === "") return "";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

const PROTOCOL_COLUMNS = [
  { label: "Protocol", cell: (door) => protocolName(door.name) },
  { label: "State", cell: (door) => html`<span class=${`state ${door.state}`}>${door.state}</span>` },
  { label: "Address", stack: true, cell: (door) => (door.address ? html`<code>${door.address}</code>` : door.note) },
  { label: "Allowed clients", stack: true, cell: allowedClients },
  { label: "Counters", stack: true, cell: counters },
];
const SETTING_COLUMNS = [
  { label: "Setting", cell: (setting) => html`<code>${setting.name}</code>` },
  {
    label: "Value",
    cell: ({ changed, value }) => html`<span class=${changed ? "changed" : ""}>${valueText(value)}</span>`,
  },
  { label: "Default", cell: (setting) => valueText(setting.default) },
  { label: "Description", wide: true, cell: (setting) => setting.help },
];

function facts(server) {
  const { durability, data, recovered, journal } = server;
  const uptime = duration((Date.parse(server.now) - Date.parse(server.started_at)) / 1000);
  return [
    ["Version", server.version],
    ["Started", `${clock(server.started_at)} (${uptime} ago)`],
    ["Durability", durability.sentence],
    ["Data", data && html`<code>${data}</code>`],
    [
      "Recovered",
      `${count(recovered.messages)} messages in ${count(recovered.topics)} topics, in ${recovered.milliseconds} ms`,
    ],
    ["Store", `${bytes(journal.bytes)}, plus ${bytes(journal.wal_bytes)} of write-ahead log`],
    ["Free disk space", journal.free_bytes === null ? "" : bytes(journal.free_bytes)],
    ["Memory", bytes(server.memory_bytes)],
    ["Default project", server.default_project],
  ];
}

export class Server extends View {
  async load(signal) {
    const [server, { settings }] = await Promise.all([get("/server", {}, signal), get("/settings", {}, signal)]);
    return { server, settings };
  }

  show({ server, settings }) {
    const search = this.props.query.search ?? "";
    const matches = ({ name, help }) => name.includes(search) || help.toLowerCase().includes(search.toLowerCase());
    return html`<section aria-label="Server">
      <div class="bar"><h1>Server</h1></div>
      <div class="panel"><${Facts} rows=${facts(server)} /></div>
      <div class="bar"><h2>Protocols</h2></div>
      <${Table} label="Protocols" rows=${server.doors} columns=${PROTOCOL_COLUMNS} empty="No protocols are enabled." />
      <div class="bar"><h2>Settings</h2>
        <${Search} label="Search settings" value=${search} onSearch=${(text) => refine({ search: text })} /></div>
      <${Table} label="Settings" rows=${settings.filter(matches)} columns=${SETTING_COLUMNS}
        empty=${`No settings match "${search}".`} />
    </section>`;
  }
}
