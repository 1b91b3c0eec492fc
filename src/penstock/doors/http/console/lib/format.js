// How values are written for people. Pure functions: tests/console/test_format.py calls them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 }); // made once: a tenth of what a page costs

export function count(value) {
  return WHOLE.format(Math.round(value));
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

/**
 * A sentence of the server, whose times are in UTC, with those of the reader's own clock. `at`: when it happened; the day
 * is left out where it is the same.
 */
export function inLocalTime(sentence, at = "") {
  return sentence.replace(/(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d:\d\d) UTC/g, (_, day, time) => {
    const here = clock(`${day ?? at.slice(0, 10)}T${time}Z`).slice(0, 19);
    return here.slice(0, 10) === clock(at).slice(0, 10) ? here.slice(11) : here;
  });
}

export function timeZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
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
export function hexLines(body, most = 65_536) {
  const lines = [];
  for (let at = 0; at < Math.min(body.length, most); at += 16) {
    const row = [...body.subarray(at, at + 16)];
    const hex = row.map((each) => each.toString(16).padStart(2, "0"));
    const text = row.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${text}`);
  }
  if (body.length > most) lines.push(`... ${plural(body.length - most, "byte")} more: Save has all of them`);
  return lines;
}

/** Where a string of JSON that opens at `start` ends; at the end of the text where nothing closes it. */
function stringEnd(text, start) {
  for (let at = start + 1; ; at += 1) {
    at = text.indexOf('"', at);
    if (at < 0) return text.length;
    let slashes = 0;
    while (text[at - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
}

const AROUND = ' \t\n\r[]{},:"'; // what ends a number or a word

/** The marks, strings, numbers and words of a JSON text, each with where it ends. Without patterns: a string of megabytes
 * is too long for one. */
function* tokensOf(text) {
  for (let at = 0, end; at < text.length; at = end) {
    end = text[at] === '"' ? stringEnd(text, at) : at + 1;
    if (!AROUND.includes(text[at])) while (end < text.length && !AROUND.includes(text[end])) end += 1;
    if (text.charCodeAt(at) > 32) yield [text.slice(at, end), end];
  }
}

/**
 * JSON with line breaks, its numbers and escapes exactly as they were written: a number of twenty digits keeps them.
 * Made as far as `most` characters; `left` is how many of the text's own come after. null if the text is not JSON.
 */
export function prettyJson(text, most = Infinity) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let pretty = "";
  let depth = 0;
  let before = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token, end] of tokensOf(text)) {
    const opened = before === "{" || before === "[";
    if (token === "}" || token === "]") depth -= 1;
    if (token === "}" || token === "]" ? !opened : opened || before === ",") pretty += line();
    if (pretty.length + token.length > most) {
      const room = Math.max(0, most - pretty.length);
      return { pretty: pretty.slice(0, most) + token.slice(0, room), left: text.length - end + token.length - room };
    }
    pretty += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return { pretty, left: 0 };
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

// ---------------------------------------------------------------- attributes, one a line

/** A text as it is where a line can say it, and else as JSON writes it, in double quotes: with one of `marks` in it, too. */
export function quoted(text, marks = "") {
  const plain = text === text.trim() && !/^"|[\u0000-\u001f\u007f-\u009f]/.test(text) && ![...marks].some((mark) => text.includes(mark));
  return plain ? text : JSON.stringify(text);
}

/** What `quoted` wrote, or somebody typed. */
export function unquoted(text) {
  if (!text.startsWith('"')) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`What begins with a double quote is a string of JSON; this is none: ${text.slice(0, 80)}`);
  }
}

export function writeAttributes(attributes, marks = "", between = "\n") {
  return Object.entries(attributes).map(([name, value]) => `${quoted(name, `=${marks}`) || '""'}=${quoted(value, marks)}`).join(between);
}

export function readAttributes(text, what = "An attribute") {
  const attributes = Object.create(null);
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=", line.startsWith('"') ? stringEnd(line, 0) : 0);
    if (at <= 0) throw new Error(`${what} is name=value, not: ${line}`);
    const name = unquoted(line.slice(0, at).trim());
    if (name in attributes) throw new Error(`${what} is given twice: ${name}`);
    attributes[name] = unquoted(line.slice(at + 1).trim());
  }
  return attributes;
}

/** The same in one line, with commas between: a name or value with a comma is in double quotes. */
export function readLabels(text) {
  const apart = /(?<=(?:^|[,=])\s*)"(?:[^"\\]|\\.)*"|,/g;
  return readAttributes(text.replace(apart, (found) => (found === "," ? "\n" : found)), "A label");
}

export function writeLabels(labels) {
  return writeAttributes(labels ?? {}, ",", ", ");
}
