// The admin API: what the command line uses, from a page.

const BASE = "/admin/v1";
const TOKEN = "penstock-token";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

/** The path of a resource: names are one part each, whatever they hold. */
export function path(...parts) {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/** A header is bytes, which fetch takes as letters below 256 each: those of UTF-8, as the server compares them. */
function asHeader(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

async function request(method, where, { query = {}, body, signal } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const tail = given.length ? `?${new URLSearchParams(given)}` : "";
  const headers = { Accept: "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${asHeader(token.get())}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(BASE + where + tail, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer.");
  }
  if (answer.ok) return answer;
  let message = `The server answered ${answer.status}.`;
  try {
    message = (await answer.json()).error.message;
  } catch {
    // Not ours: the status says enough.
  }
  if (answer.status === 401) dispatchEvent(new CustomEvent("penstock-token-needed"));
  throw new ApiError(answer.status, message);
}

async function decoded(method, where, options) {
  const answer = await request(method, where, options);
  return answer.status === 204 ? null : answer.json();
}

export const get = (where, query, signal) => decoded("GET", where, { query, signal });
export const post = (where, body = {}, query = {}) => decoded("POST", where, { body, query });
export const patch = (where, body) => decoded("PATCH", where, { body });
export const remove = (where) => decoded("DELETE", where);

/** The lines of a streamed answer, each decoded, until it ends or the signal stops it. */
export async function* lines(where, query, signal) {
  const answer = await request("GET", where, { query, signal });
  for await (const line of textLines(answer.body)) if (line) yield JSON.parse(line);
}

/** Server-sent events: EventSource cannot send a token, a fetch can. */
export async function* events(where, query, signal) {
  const answer = await request("GET", where, { query, signal });
  let kind = "message";
  let data = "";
  for await (const line of textLines(answer.body)) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5).trim();
    else if (line === "" && data) {
      yield { kind, data: JSON.parse(data) };
      kind = "message";
      data = "";
    }
  }
}

async function* textLines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield* parts;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
