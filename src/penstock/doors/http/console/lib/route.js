// Where the reader is: everything that can be shown has an address after the #, so that it can be kept and sent.
//
//   #/topics/projects%2Fp%2Ftopics%2Forders/messages?from=-100&filter=...

export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(safeDecode);
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

function safeDecode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function format(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const tail = given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${tail}`;
}

export function go(parts, query) {
  location.hash = format(parts, query);
}

/** Where the reader is now is gone: the way back does not lead there. */
export function goInstead(parts) {
  location.replace(format(parts));
}

/** The same place with other parts of its query. The way back stays short, unless this is a step of its own. */
export function refine(query, { step = false } = {}) {
  const here = parse(location.hash);
  const next = format(here.parts, { ...here.query, ...query });
  if (step && next !== location.hash) history.pushState(null, "", next);
  else history.replaceState(history.state, "", next);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

const INSTANT = /^(\d{4}-(\d\d)-(\d\d))(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?( ?[Zz]|[+-]\d\d:\d\d)?)?$/;

/** An instant as somebody types it, without a zone in the reader's own, or so long ago (-10m); null if it is neither. */
export function readInstant(text) {
  const given = text.trim();
  if (/^-(\d+(\.\d+)?(ms|s|m|h|d|w))+$/.test(given)) return given;
  const found = INSTANT.exec(given);
  if (!found) return null;
  const [, day, month, date, hour = "00", minute = "00", second = "00", part = "", zone = ""] = found;
  const time = `${day}T${hour}:${minute}:${second}`;
  const there = new Date(`${time}Z`); // rolls 31 February over to March, and knows no 13th month
  const at = new Date(time + zone.trim().toUpperCase());
  const exists = there.getUTCMonth() + 1 === Number(month) && there.getUTCDate() === Number(date) && hour < "24" && !Number.isNaN(at.getTime());
  const skipped = found[4] && !zone && [at.getDate(), at.getHours(), at.getMinutes()].join() !== [date, hour, minute].map(Number).join(); // as clocks go forward
  if (!exists || skipped) throw new Error(`There is no such time as ${given}.`);
  return at.toISOString().replace(".000Z", `${part}Z`);
}

/** An offset as somebody types it, 1000 or 1,000, or -100; null if it is none. */
export function readOffset(text) {
  return /^-?(\d+|\d{1,3}(,\d{3})+)$/.test(text) ? Number(text.replaceAll(",", "")) : null;
}

/** What somebody typed as a place among messages: an offset, so many before the end (-100), or an instant. */
export function readPlace(text) {
  const given = text.trim();
  if (!given) return {};
  if (readOffset(given) !== null) return { from: given.replaceAll(",", "") };
  const at = readInstant(given);
  if (!at) throw new Error("From is an offset such as 1,000, -100 for the last hundred, -10m for the last ten minutes, or a time such as 2026-11-16 10:00.");
  return { at };
}
