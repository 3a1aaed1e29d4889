// Numbers, durations and times as people read them.

import { h } from "/dashboard/frame/dom.js";
import { locale, t } from "/dashboard/frame/words.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function number(value, digits = 0) {
  return new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(value);
}

export function percent(share) {
  const digits = share > 0.99 && share < 1 ? 1 : 0;
  return new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: digits }).format(share);
}

/** A figure by what it is: `share`, `count`, `seconds` or `times`. */
export function figure(value, unit) {
  if (unit === "share") return new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: 1 }).format(value);
  if (unit === "seconds") return duration(value * SECOND);
  if (unit === "times") return `${number(value, 1)}×`;
  return number(value, 2);
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return `${number(value, value < 10 && at > 0 ? 1 : 0)} ${units[at]}`;
}

/** The two largest units that matter: `850 ms`, `1.5 s`, `5 min`, `2 h 10 min`, `6 d 3 h`. */
export function duration(ms) {
  if (ms < SECOND) return `${number(ms)} ms`;
  if (ms < 10 * SECOND) return `${number(ms / SECOND, 1)} s`;
  const units = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [SECOND, "s"]];
  let rest = Math.round(ms / SECOND) * SECOND;
  const parts = [];
  for (const [size, name] of units) {
    const count = Math.floor(rest / size);
    if (count > 0) parts.push(`${number(count)} ${name}`);
    else if (parts.length > 0) break;
    rest -= count * size;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** A span of delays: one value when there is no jitter. */
export function range(lowMs, highMs) {
  return lowMs === highMs ? duration(lowMs) : t("range", { low: duration(lowMs), high: duration(highMs) });
}

export function exactTime(iso) {
  const time = { dateStyle: "medium", timeStyle: "medium" };
  return new Intl.DateTimeFormat(locale(), time).format(new Date(iso));
}

/** Hour and minute. */
export function shortTime(at) {
  return new Intl.DateTimeFormat(locale(), { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(new Date(at));
}

/** Day of the week and hour. */
export function weekday(at) {
  return new Intl.DateTimeFormat(locale(), { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(new Date(at));
}

export function clockTime(iso) {
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" };
  const at = new Date(iso);
  const today = new Date().toDateString() === at.toDateString();
  return new Intl.DateTimeFormat(locale(), today ? time : { ...time, month: "short", day: "numeric" }).format(at);
}

function relative(at, now) {
  const away = Math.abs(at - now);
  const words = new Intl.RelativeTimeFormat(locale(), { style: "short", numeric: "always" });
  const sign = at < now ? -1 : 1;
  if (away < SECOND) return t("now");
  if (away < MINUTE) return words.format(sign * Math.floor(away / SECOND), "second");
  if (away < HOUR) return words.format(sign * Math.floor(away / MINUTE), "minute");
  if (away < 2 * DAY) return words.format(sign * Math.floor(away / HOUR), "hour");
  return words.format(sign * Math.floor(away / DAY), "day");
}

/** A time as the distance from now, kept right while it is on the page; the exact time is its tooltip. */
export function when(iso) {
  const at = new Date(iso).getTime();
  return h("time", { datetime: iso, title: exactTime(iso), data: { at } }, relative(at, Date.now()));
}

/** Moves every distance on the page along. */
export function keepTimesRight() {
  setInterval(() => {
    const now = Date.now();
    for (const time of document.querySelectorAll("time[data-at]")) {
      const text = relative(Number(time.dataset.at), now);
      if (time.textContent !== text) time.textContent = text;
    }
  }, SECOND);
}
