// Addresses after the #. Every view has an address, so that it can be bookmarked and sent.
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
  const fields = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const search = fields.length ? `?${new URLSearchParams(fields.map(([name, value]) => [name, String(value)]))}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${search}`;
}

export function go(parts, query) {
  location.hash = format(parts, query);
}

/** Replace the current address, whose resource is gone, so that Back does not lead to it. */
export function goInstead(parts) {
  location.replace(format(parts));
}

/** Change parts of the query of the address. Back skips the change, unless it is a `step` of its own. */
export function refine(query, { step = false } = {}) {
  const here = parse(location.hash);
  const next = format(here.parts, { ...here.query, ...query });
  if (step && next !== location.hash) history.pushState(null, "", next);
  else history.replaceState(history.state, "", next);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

const INSTANT = /^(\d{4}-(\d\d)-(\d\d))(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?( ?[Zz]|[+-]\d\d:\d\d)?)?$/;

/** Parse a time, in the browser's zone if it names none, or an age (-10m). Return null if the text is neither. */
export function readInstant(text) {
  const typed = text.trim();
  if (/^-(\d+(\.\d+)?(ms|s|m|h|d|w))+$/.test(typed)) return typed;
  const match = INSTANT.exec(typed);
  if (!match) return null;
  const [, day, month, date, hour = "00", minute = "00", second = "00", part = "", zone = ""] = match;
  const time = `${day}T${hour}:${minute}:${second}`;
  const utc = new Date(`${time}Z`); // rolls 31 February over to March, and is invalid for a 13th month
  const at = new Date(time + zone.trim().toUpperCase());
  const exists =
    utc.getUTCMonth() + 1 === Number(month) &&
    utc.getUTCDate() === Number(date) &&
    hour < "24" &&
    !Number.isNaN(at.getTime());
  // A local time that clocks skip when they go forward.
  const skipped =
    match[4] &&
    !zone &&
    [at.getDate(), at.getHours(), at.getMinutes()].join() !== [date, hour, minute].map(Number).join();
  if (!exists || skipped) throw new Error(`${typed} is not a valid time.`);
  return at.toISOString().replace(".000Z", `${part}Z`);
}

export function readOffset(text) {
  return /^-?(\d+|\d{1,3}(,\d{3})+)$/.test(text) ? Number(text.replaceAll(",", "")) : null;
}

/** Parse where a list of messages starts: an offset, a number of messages before the end (-100), or a time. */
export function readPlace(text) {
  const typed = text.trim();
  if (!typed) return {};
  if (readOffset(typed) !== null) return { from: typed.replaceAll(",", "") };
  const at = readInstant(typed);
  if (!at)
    throw new Error(
      "From must be an offset (1,000), -100 for the last 100 messages, -10m for the last 10 minutes, " +
        "or a time (2026-11-16 10:00).",
    );
  return { at };
}
