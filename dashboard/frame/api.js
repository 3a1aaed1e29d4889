// The HTTP API, and nothing beside it. The token lives in this tab's session, the operator's name in this browser.

const TOKEN = "recado.token";
const ACTOR = "recado.actor";

/** Longest that an answer may take before the page says so. */
const PATIENCE_MS = 20_000;

/** Why a request got no answer of its own kind: an RFC 9457 problem, or no connection (`status` 0). */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `HTTP ${status}`);
    this.status = status;
    this.code = body.code ?? null;
    this.faults = body.errors ?? [];
  }
}

let whenRefused = () => {};

/** Called when the server wants a token that it has not been shown. */
export function onRefused(listener) {
  whenRefused = listener;
}

export function token() {
  return sessionStorage.getItem(TOKEN);
}

export function keepToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

export function actor() {
  return localStorage.getItem(ACTOR) ?? "";
}

let whenNamed = () => {};

/** Called when the operator has said who they are. */
export function onNamed(listener) {
  whenNamed = listener;
}

export function keepActor(name) {
  localStorage.setItem(ACTOR, name);
  whenNamed();
}

/** A header holds bytes; the server reads them as UTF-8. */
function asHeader(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

/** Acts and reads of personal data are on the audit trail with who asked. */
export function headers() {
  const given = {};
  if (token()) given.authorization = `Bearer ${asHeader(token())}`;
  if (actor()) given["x-recado-actor"] = asHeader(actor());
  return given;
}

/** `{a: 1, b: ""}` as `?a=1`. */
export function query(params) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

/** Path segments are names from outside. */
export function path(parts, ...names) {
  return parts.reduce((whole, part, at) => whole + encodeURIComponent(names[at - 1]) + part);
}

async function ask(method, url, { body, signal, patienceMs = PATIENCE_MS } = {}) {
  const asked = { method, headers: headers(), cache: "no-store", credentials: "same-origin" };
  if (body !== undefined) {
    asked.body = body;
    asked.headers["content-type"] = "application/json";
  }
  const patience = AbortSignal.timeout(patienceMs);
  asked.signal = signal ? AbortSignal.any([signal, patience]) : patience;
  let response, text;
  try {
    response = await fetch(url, asked);
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, {});
  }
  const value = parsed(text);
  if (response.ok || (url === "/readyz" && response.status === 503)) return { value, text };
  if (response.status === 401 || response.status === 429) whenRefused();
  throw new Problem(response.status, value ?? {});
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The answer as a value. */
export async function get(url, signal) {
  return (await ask("GET", url, { signal })).value;
}

/** The answer as a value and as it was written: numbers that JavaScript cannot hold stay whole in the text. */
export function getWithText(url, signal) {
  return ask("GET", url, { signal });
}

/** The answer, or `null` when there is no such thing. */
export async function getIfAny(url, signal) {
  try {
    return await get(url, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

let described = null;

/** Whether this server has a call such as `GET /v1/alerts`: its own description says so, and is asked once. */
export async function offers(call) {
  described ??= get("/openapi.json");
  const [method, where] = call.split(" ");
  try {
    const { paths } = await described;
    return Boolean(paths[where]?.[method.toLowerCase()]);
  } catch (error) {
    described = null;
    throw error;
  }
}

/** What a person does: it carries their name. `body` is a value, or JSON that is already written. */
export async function act(method, url, body, patienceMs = PATIENCE_MS) {
  const written = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  return (await ask(method, url, { body: written, patienceMs })).value;
}
