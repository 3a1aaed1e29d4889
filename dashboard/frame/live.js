// What happens, as it happens: one stream of events for the whole dashboard.
//
// Read by `fetch` and not by `EventSource`, which cannot show a token. A stream that ends is opened again after
// the last event that was heard; where events are missing the server says so, and listeners load again.

import { headers } from "/dashboard/frame/api.js";

const KEPT_EVENTS_MAX = 500;
const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 15_000;

/** Longer than the server is ever silent: it gives a sign of life every 15 s. */
const SILENCE_MAX_MS = 40_000;

/** A line that grows beyond this is not an event. */
const PENDING_MAX_CHARS = 1 << 20;

const listeners = new Set();
const watchers = new Set();
const kept = [];

let state = "connecting";
let lastId = null;
let running = null;

export function recent() {
  return kept;
}

/** Calls `listener` with each event, and with `null` where some are missing. Returns how to stop. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Calls `watcher` with `connecting`, `live` or `away`, now and whenever it changes. */
export function watch(watcher) {
  watchers.add(watcher);
  watcher(state);
  return () => watchers.delete(watcher);
}

function turn(next) {
  if (next === state) return;
  state = next;
  for (const watcher of watchers) watcher(state);
}

/**
 * Opens the stream, anew if it is open: the token may have changed. A hidden tab has none: a browser opens six
 * connections to a server, and a seventh tab could not load.
 */
export function connect() {
  running?.abort();
  running = null;
  if (document.hidden) return;
  running = new AbortController();
  void keepListening(running.signal);
}

document.addEventListener("visibilitychange", connect);

async function keepListening(signal) {
  let wait = RETRY_MIN_MS;
  while (!signal.aborted) {
    const heard = await hear(signal).catch(() => false);
    if (signal.aborted) return;
    wait = heard ? RETRY_MIN_MS : Math.min(wait * 2, RETRY_MAX_MS);
    turn("away");
    await new Promise((resolve) => setTimeout(resolve, wait * (0.75 + Math.random() / 2)));
  }
}

/** Reads one connection to its end; whether it was one. */
async function hear(signal) {
  const quiet = new AbortController();
  let alarm = setTimeout(() => quiet.abort(), SILENCE_MAX_MS);
  const both = AbortSignal.any([signal, quiet.signal]);
  try {
    const from = lastId ? { "last-event-id": lastId } : {};
    const response = await fetch("/v1/events", { headers: { ...headers(), ...from }, signal: both, cache: "no-store" });
    if (!response.ok || !response.body) return false;
    turn("live");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let pending = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return true;
      clearTimeout(alarm);
      alarm = setTimeout(() => quiet.abort(), SILENCE_MAX_MS);
      const blocks = (pending + value).split("\n\n");
      pending = blocks.pop();
      blocks.forEach(dispatch);
      if (pending.length > PENDING_MAX_CHARS) return true;
    }
  } finally {
    clearTimeout(alarm);
  }
}

function dispatch(block) {
  const field = (name) => block.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  const data = field("data");
  if (data === undefined) return;
  let event = null;
  if (field("event") !== "gap") {
    try {
      event = JSON.parse(data);
    } catch {
      return;
    }
    lastId = event.id;
    kept.push(event);
    if (kept.length > KEPT_EVENTS_MAX) kept.splice(0, kept.length - KEPT_EVENTS_MAX);
  }
  for (const listener of listeners) listener(event);
}
