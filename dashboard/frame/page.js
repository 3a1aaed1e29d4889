// A page while it is shown, and the parts of it that keep themselves fresh.

import { offers, Problem } from "/dashboard/frame/api.js";
import { h, isBeingRead, put, putKeepingFocus } from "/dashboard/frame/dom.js";
import { clockTime } from "/dashboard/frame/format.js";
import { listen } from "/dashboard/frame/live.js";
import { language, t, word } from "/dashboard/frame/words.js";

/** Events come in bursts: a part looks again at most this often because of them. */
const REFRESH_MIN_MS = 1_000;

/** The arguments of a page: its place, and a signal that ends with it. */
export class Page {
  #ended = new AbortController();

  constructor(argument, params) {
    this.argument = argument;
    this.params = params;
  }

  get signal() {
    return this.#ended.signal;
  }

  /** Passes every event on until the page ends. */
  listen(listener) {
    this.signal.addEventListener("abort", listen(listener));
  }

  every(ms, work) {
    const timer = setInterval(work, ms);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  end() {
    this.#ended.abort();
  }
}

/**
 * A part of a page: `load`ed, `draw`n, and drawn again when what it shows has changed. It looks every `every` ms
 * while it is visible, and soon after an event of which `on` says that it matters. `call` names a call that a
 * server may not have.
 */
export function region(page, { load, draw, every = 10_000, on = () => false, call = null }) {
  const body = h("div", { class: "region-body" }, h("p", { class: "quiet" }, t("loading")));
  const note = h("div", { class: "region-note", role: "status" });
  const element = h("div", { class: "region", "aria-busy": "true" }, note, body);
  let shown = null;
  let busy = false;
  /** Asked for while it was busy: `null` not, `true` to be drawn in any case. */
  let again = null;
  let last = 0;
  let planned = null;

  async function refresh(force = false) {
    if (busy) return void (again = force || again === true);
    busy = true;
    last = Date.now();
    try {
      if (call && !(await offers(call))) return put(body, absent(call));
      const value = await load(page.signal);
      if (!page.signal.aborted) show(value, force);
    } catch (error) {
      if (!page.signal.aborted) fail(error);
    } finally {
      busy = false;
      element.removeAttribute("aria-busy");
    }
    if (again !== null && !page.signal.aborted) {
      const forced = again;
      again = null;
      await refresh(force || forced);
    }
  }

  function show(value, force) {
    put(note);
    const written = JSON.stringify(value) ?? "undefined";
    if (!force && (written === shown || (shown !== null && isBeingRead(body)))) return;
    shown = written;
    putKeepingFocus(body, draw(value));
  }

  function fail(error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401 || error.status === 429) return;
    const retry = h("button", { type: "button", on: { click: () => refresh() } }, t("again"));
    const words = explained(error);
    if (shown === null) put(body, h("div", { class: "notice bad" }, h("p", {}, words), retry));
    else put(note, h("div", { class: "notice warn" }, t("stale", { why: words }), " ", retry));
  }

  function soon() {
    if (planned !== null) return;
    const wait = Math.max(0, last + REFRESH_MIN_MS - Date.now());
    planned = setTimeout(() => ((planned = null), page.signal.aborted || refresh()), wait);
  }

  page.listen((event) => (event === null || on(event)) && soon());
  page.every(every, () => document.hidden || refresh());
  const seen = () => document.hidden || soon();
  document.addEventListener("visibilitychange", seen, { signal: page.signal });
  element.refresh = () => refresh(true);
  element.ready = refresh();
  return element;
}

/** What went wrong, in the reader's language; the server's own words are English and stand beside it. */
export function explained(problem) {
  if (problem.status === 0) return t("offline");
  const known = problem.code && language() !== "en" ? word("problem", problem.code) : problem.code;
  return known === problem.code ? problem.message : `${known} (${problem.message})`;
}

/** A box that says why there is nothing to see, and what would be here. */
export function empty(title, ...text) {
  return h("div", { class: "empty" }, h("strong", {}, title), text.length > 0 && h("p", {}, ...text));
}

/** The server has no such call. Never made up for by invented data. */
export function absent(call) {
  return empty(t("absent.title"), t("absent.text", { call }));
}

export function heading(title, ...beside) {
  return h("header", { class: "heading" }, h("h1", { tabindex: "-1" }, title), ...beside);
}

export function card(title, ...content) {
  return h("section", { class: "card" }, title && h("h2", {}, title), ...content);
}

/** Says something for a moment, aloud too. */
export function say(text, kind = "good") {
  const toast = h("p", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), 8_000);
}

/** When something was written down, to the millisecond. */
export function stamp(iso) {
  return h("time", { datetime: iso, class: "stamp" }, clockTime(iso));
}
