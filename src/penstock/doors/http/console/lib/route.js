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

/** The same place with other parts of its query. The way back stays short, unless this is a step of its own. */
export function refine(query, { step = false } = {}) {
  const here = parse(location.hash);
  const next = format(here.parts, { ...here.query, ...query });
  if (step) history.pushState(null, "", next);
  else history.replaceState(null, "", next);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/**
 * What somebody typed as a place among messages: an offset, so many before the end (-100), so long ago (-10m), or an
 * instant; a time without a zone is the reader's own.
 */
export function readPlace(text) {
  const given = text.trim();
  if (/^-?\d+$/.test(given)) return { from: given };
  const local = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(:\d\d(\.\d+)?)?)$/.exec(given);
  return { at: local ? new Date(`${local[1]}T${local[2]}`).toISOString() : given };
}
