// Values as text for people. These functions are pure, and tests/console/test_format.py calls them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
// Made once, because making it takes a tenth of the time of a page.
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value) {
  return WHOLE.format(Math.round(value));
}

/** Return a number that fits on a tile: 1234567 -> "1.23M". */
export function short(value) {
  const size = Math.abs(value);
  for (const [least, letter] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ]) {
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
  const steps = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const at = steps.findIndex(([size]) => whole >= size);
  const [size, name] = steps[at];
  const first = `${Math.floor(whole / size)} ${name}`;
  const rest = whole % size;
  const next = steps[at + 1];
  return next && Math.floor(rest / next[0]) > 0 ? `${first} ${Math.floor(rest / next[0])} ${next[1]}` : first;
}

/** Return how long ago an instant was, or how far ahead it is, or `absent` if there is no instant. */
export function ago(instant, now, absent = "never") {
  if (!instant) return absent;
  const seconds = (now - Date.parse(instant)) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

/** Return date and time of an instant to the millisecond, in the browser's time zone. */
export function clock(instant) {
  if (!instant) return "";
  const at = new Date(instant);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day} ${time}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/**
 * Return a sentence of the server with its UTC times converted to the browser's time zone. A day equal to the day of
 * `at` is left out.
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

export function lastPart(name) {
  return name.slice(name.lastIndexOf("/") + 1);
}

export function displayName(record, defaultProject) {
  return record.project && record.project !== defaultProject ? `${record.project}/${record.id}` : record.id;
}

const PROTOCOLS = { pubsub: "Pub/Sub", azure: "Azure", text: "Text", flight: "Flight", http: "HTTP" };

export function protocolName(door) {
  return door ? (PROTOCOLS[door] ?? door) : "unknown";
}

export function bodyOf(message) {
  if (message.data !== undefined) return new TextEncoder().encode(message.data);
  return Uint8Array.from(atob(message.data_base64 ?? ""), (letter) => letter.charCodeAt(0));
}

export function base64(body) {
  let text = "";
  for (let at = 0; at < body.length; at += 0x8000) text += String.fromCharCode(...body.subarray(at, at + 0x8000));
  return btoa(text);
}

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
  if (body.length > most) lines.push(`... ${plural(body.length - most, "byte")} more (use Save to get the whole body)`);
  return lines;
}

/** Return the end of the JSON string that opens at `start`, or the end of the text if nothing closes the string. */
function stringEnd(text, start) {
  for (let at = start + 1; ; at += 1) {
    at = text.indexOf('"', at);
    if (at < 0) return text.length;
    let slashes = 0;
    while (text[at - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
}

const AROUND = ' \t\n\r[]{},:"'; // characters that end a number or a word

/**
 * Yield the marks, strings, numbers and words of a JSON text, each with its end. It uses no regular expression, because
 * a string of megabytes is too long for one.
 */
function* tokensOf(text) {
  for (let at = 0, end; at < text.length; at = end) {
    end = text[at] === '"' ? stringEnd(text, at) : at + 1;
    if (!AROUND.includes(text[at])) while (end < text.length && !AROUND.includes(text[end])) end += 1;
    if (text.charCodeAt(at) > 32) yield [text.slice(at, end), end];
  }
}

/**
 * Return JSON with line breaks. Numbers and escapes stay exactly as they were written, so a number of twenty digits
 * keeps them. The result ends after `most` characters, and `left` counts the characters of the text that it leaves out.
 * Return null if the text is not JSON.
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

/** Return a text unchanged if one line can hold it. Otherwise, or if it contains one of `marks`, return it as JSON. */
export function quoted(text, marks = "") {
  const plain = text === text.trim() && !/^"|\p{Cc}/u.test(text) && ![...marks].some((mark) => text.includes(mark));
  return plain ? text : JSON.stringify(text);
}

/** Return the text that `quoted` wrote, or that a user typed. */
export function unquoted(text) {
  if (!text.startsWith('"')) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`Text that starts with a double quote must be a valid JSON string: ${text.slice(0, 80)}`);
  }
}

export function writeAttributes(attributes, marks = "", between = "\n") {
  return Object.entries(attributes)
    .map(([name, value]) => `${quoted(name, `=${marks}`) || '""'}=${quoted(value, marks)}`)
    .join(between);
}

export function readAttributes(text, noun = "attribute") {
  const attributes = Object.create(null);
  for (const line of text
    .split("\n")
    .map((each) => each.trim())
    .filter(Boolean)) {
    const at = line.indexOf("=", line.startsWith('"') ? stringEnd(line, 0) : 0);
    if (at <= 0) throw new Error(`Invalid ${noun}, expected name=value: ${line}`);
    const name = unquoted(line.slice(0, at).trim());
    if (name in attributes) throw new Error(`Duplicate ${noun}: ${name}`);
    attributes[name] = unquoted(line.slice(at + 1).trim());
  }
  return attributes;
}

/** Parse labels, which stand in one line with commas between. A name or value with a comma is in double quotes. */
export function readLabels(text) {
  const separators = /(?<=(?:^|[,=])\s*)"(?:[^"\\]|\\.)*"|,/g;
  return readAttributes(
    text.replace(separators, (match) => (match === "," ? "\n" : match)),
    "label",
  );
}

export function writeLabels(labels) {
  return writeAttributes(labels ?? {}, ",", ", ");
}
