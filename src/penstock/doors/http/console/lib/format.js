// How values are written for people. Pure functions: tests/console/format.test.mjs runs them on Node.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** Short enough for a tile: 1234567 -> "1.23M". */
export function short(value) {
  const size = Math.abs(value);
  for (const [least, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= least) {
      const base = letter === "k" ? 1e3 : least;
      return Number((value / base).toPrecision(3)) + letter;
    }
  }
  return size >= 100 || Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(2)));
}

export function rate(value) {
  return `${short(value)}/s`;
}

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** 0.0042 -> "4.2 ms", 75 -> "1 min 15 s", 90000 -> "1 d 1 h". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(2))} ms`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = steps.findIndex(([size]) => whole >= size);
  const [size, name] = steps[at];
  const first = `${Math.floor(whole / size)} ${name}`;
  const rest = whole % size;
  const next = steps[at + 1];
  return next && Math.floor(rest / next[0]) > 0 ? `${first} ${Math.floor(rest / next[0])} ${next[1]}` : first;
}

/** How long ago an instant was, or how far ahead it is. */
export function ago(instant, now) {
  if (!instant) return "never";
  const seconds = (now - Date.parse(instant)) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

/** An instant as a clock shows it, in the reader's own time zone, to the millisecond. */
export function clock(instant) {
  if (!instant) return "";
  const at = new Date(instant);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day} ${time}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** The last part of a full name. */
export function lastPart(name) {
  return name.slice(name.lastIndexOf("/") + 1);
}

/** A name as it is shown: without the project where that is the usual one. */
export function shownName(record, usual) {
  return record.project && record.project !== usual ? `${record.project}/${record.id}` : record.id;
}

// ---------------------------------------------------------------- bodies

/** The bytes of a message. */
export function bodyOf(message) {
  if (message.data !== undefined) return new TextEncoder().encode(message.data);
  return Uint8Array.from(atob(message.data_base64 ?? ""), (letter) => letter.charCodeAt(0));
}

export function base64(body) {
  let text = "";
  for (let at = 0; at < body.length; at += 0x8000) text += String.fromCharCode(...body.subarray(at, at + 0x8000));
  return btoa(text);
}

/** Offset, sixteen bytes in hexadecimal, and what of them can be printed. */
export function hexLines(body, most = 4096) {
  const lines = [];
  for (let at = 0; at < Math.min(body.length, most); at += 16) {
    const row = [...body.subarray(at, at + 16)];
    const hex = row.map((each) => each.toString(16).padStart(2, "0"));
    const text = row.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${text}`);
  }
  if (body.length > most) lines.push(`... ${plural(body.length - most, "byte")} more`);
  return lines;
}

/**
 * JSON with line breaks, its numbers and escapes exactly as they were written: a number of twenty digits keeps them.
 * null if the text is not JSON.
 */
export function prettyJson(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, place) => {
    const before = tokens[place - 1];
    if (token === "}" || token === "]") {
      depth -= 1;
      out += before === "{" || before === "[" ? token : line() + token;
    } else {
      if (before === "{" || before === "[" || before === ",") out += line();
      out += token === ":" ? ": " : token;
      if (token === "{" || token === "[") depth += 1;
    }
  });
  return out;
}

/** Pieces of pretty JSON with their kind, for colours: key, string, number, word, mark. */
export function jsonPieces(text) {
  const pieces = [];
  const pattern = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([\s\S])/g;
  for (const [whole, string, colon, number, word] of text.matchAll(pattern)) {
    const kind = string ? (colon ? "key" : "string") : number ? "number" : word ? "word" : "mark";
    const last = pieces[pieces.length - 1];
    if (kind === "mark" && last?.kind === "mark") last.text += whole;
    else pieces.push({ kind, text: whole });
  }
  return pieces;
}
