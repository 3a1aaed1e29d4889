// How a window went: sent, retried, given up, as the server counted it. Times before it began to count are
// shown as such, never as zero.

import { get, query } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { number, percent, shortTime, weekday } from "/dashboard/frame/format.js";
import { empty } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import { barList, bars, legend } from "/dashboard/parts/chart.js";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Windows to choose from, by the name in the address. */
export const WINDOWS = { "10m": 10 * MINUTE, "1h": 60 * MINUTE, "24h": DAY, "7d": 7 * DAY };

export const kpis = (windowMs, route, signal) => get(`/v1/kpis${query({ windowMs, route })}`, signal);

const series = () => [["sent", t("series.sent")], ["retried", t("series.retried")], ["failed", t("series.failed")]];

/** Every part of the window; `values` is `null` where nothing was counted. */
function buckets({ course, coursePartMs, windowMs }) {
  const known = course.map(({ at, sent, retried, dead }) => ({ at: new Date(at).getTime(), values: { sent, retried, failed: dead } }));
  const first = known[0]?.at ?? Date.now();
  const missing = Math.max(0, Math.round(windowMs / coursePartMs) - known.length);
  return [...Array.from({ length: missing }, (_, at) => ({ at: first - (missing - at) * coursePartMs, values: null })), ...known];
}

export function courseChart(answer) {
  const parts = buckets(answer);
  const sum = (name) => parts.reduce((all, { values }) => all + (values?.[name] ?? 0), 0);
  const label = series().map(([name, words]) => `${words}: ${number(sum(name))}`).join(", ");
  const uncounted = parts.some(({ values }) => values === null);
  return [
    bars(label, parts, series(), { when: answer.windowMs > DAY ? weekday : shortTime }),
    legend(uncounted ? [...series(), ["unwatched", t("series.unwatched")]] : series()),
  ];
}

/** Jobs sent in the last whole minute, of a window in parts of ten seconds; `null` while that is not known. */
export function sentPerMinute({ course }) {
  const whole = course.slice(-7, -1);
  return whole.length < 6 ? null : whole.reduce((sum, { sent }) => sum + sent, 0);
}

/** Attempts that have a bar of their own; those of replays count on, and stand together. */
const ATTEMPTS_SHOWN_MAX = 6;

/** Success of the first, the second and each later attempt. */
export function byAttempt({ byAttempt: rates }) {
  if (rates.length === 0) return empty(t("overview.attempts.empty"), t("overview.attempts.empty.why"));
  const later = rates.slice(ATTEMPTS_SHOWN_MAX);
  const sum = (name) => later.reduce((all, rate) => all + rate[name], 0);
  const row = (name, ended, sent) => {
    const share = sent / ended;
    return { name, value: share, write: `${percent(share)} · ${t("of", { some: sent, all: ended })}`, kind: share >= 0.9 ? "good" : share >= 0.5 ? "warn" : "bad" };
  };
  const rows = rates.slice(0, ATTEMPTS_SHOWN_MAX).map(({ attempt, ended, sent }) => row(t("timeline.attempt", { n: attempt }), ended, sent));
  if (later.length > 0) rows.push(row(t("timeline.attempts.later", { n: later[0].attempt }), sum("ended"), sum("sent")));
  return barList(rows, 1);
}

/** The choice of a window. */
export function windowTabs(chosen, choose) {
  const tab = (name) => h("button", { type: "button", id: `window-${name}`, "aria-pressed": String(name === chosen), on: { click: () => choose(name) } }, t(`window.${name}`));
  return h("div", { class: "tabs", role: "group", "aria-label": t("window") }, Object.keys(WINDOWS).map(tab));
}
