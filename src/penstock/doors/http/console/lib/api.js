// Calls of the admin API, which the command line uses as well.

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

/** Return the path of a resource. Each name is one part, even if it contains slashes. */
export function path(...parts) {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/** Return the UTF-8 bytes of a text as one character each, which is how fetch takes a header value. */
function encodeHeader(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

async function request(method, target, { query = {}, body, signal } = {}) {
  const fields = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const search = fields.length ? `?${new URLSearchParams(fields)}` : "";
  const headers = { Accept: "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${encodeHeader(token.get())}`;
  const options = { method, headers, signal };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(BASE + target + search, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server is not responding.");
  }
  if (response.ok) return response;
  let message = `The server returned status ${response.status}.`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // The body is not an error of the admin API. The status is shown instead.
  }
  if (response.status === 401) dispatchEvent(new CustomEvent("penstock-token-needed"));
  throw new ApiError(response.status, message);
}

async function requestJson(method, target, options) {
  const response = await request(method, target, options);
  return response.status === 204 ? null : response.json();
}

export const get = (target, query, signal) => requestJson("GET", target, { query, signal });
export const post = (target, body = {}, query = {}) => requestJson("POST", target, { body, query });
export const patch = (target, body) => requestJson("PATCH", target, { body });
export const remove = (target) => requestJson("DELETE", target);

export async function* lines(target, query, signal) {
  const response = await request("GET", target, { query, signal });
  for await (const line of textLines(response.body)) if (line) yield JSON.parse(line);
}

/** Yield server-sent events. EventSource cannot send a token, so this reads the stream of a fetch. */
export async function* events(target, query, signal) {
  const response = await request("GET", target, { query, signal });
  let kind = "message";
  let data = "";
  for await (const line of textLines(response.body)) {
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
