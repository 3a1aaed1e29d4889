// Charts, drawn at the size they are shown at. Each says in words what it shows, for people who cannot see it.

import { h, put, s } from "/dashboard/frame/dom.js";
import { duration, number } from "/dashboard/frame/format.js";

const LEFT = 52;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 20;

/** A drawing that is made anew when its width changes. */
export function drawing(label, height, draw) {
  const box = h("div", { class: "chart", role: "img", "aria-label": label });
  let drawn = 0;
  new ResizeObserver(([{ contentRect }]) => {
    const width = Math.floor(contentRect.width);
    if (width === drawn || width < 40) return;
    drawn = width;
    put(box, s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, draw(width, height)));
  }).observe(box);
  box.style.setProperty("min-height", `${height}px`);
  return box;
}

/** A round number at or above `value`, so that ticks can be read. */
export function roundUp(value) {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * size).find((step) => step >= value);
}

/** Durations that read well on an axis, in seconds. */
const ROUND_SECONDS = [0.1, 0.2, 0.5, 1, 2, 4, 10, 20, 40, 60, 120, 240, 600, 1200, 2400, 3600, 7200, 14400, 28800, 86400];

function roundDuration(ms) {
  return 1000 * (ROUND_SECONDS.find((seconds) => seconds * 1000 >= ms) ?? roundUp(ms / 86_400_000) * 86_400);
}

function grid(width, height, ticks, write) {
  return ticks.map(({ value, y }) => [
    s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
    s("text", { class: "tick", x: LEFT - 6, y: y + 4, "text-anchor": "end" }, write(value)),
  ]);
}

/**
 * Bars over time, one series on top of the other. `buckets`: `{at, values}` or `{at, values: null}` where nothing
 * looked; `series`: `[name, words]`.
 */
export function bars(label, buckets, series, { height = 150, write = number, when }) {
  const total = (bucket) => (bucket.values ? series.reduce((sum, [name]) => sum + (bucket.values[name] ?? 0), 0) : 0);
  const top = Math.max(roundUp(Math.max(...buckets.map(total), 0)), 4);
  return drawing(label, height, (width, height) => {
    const floor = height - BOTTOM;
    const y = (value) => floor - (value / top) * (floor - TOP);
    const step = (width - LEFT - RIGHT) / buckets.length;
    const ticks = [0, top / 2, top].map((value) => ({ value, y: y(value) }));
    const bar = (bucket, at) => {
      const x = LEFT + at * step;
      if (!bucket.values) return s("rect", { class: "unwatched", x, y: TOP, width: step, height: floor - TOP });
      let below = 0;
      const parts = series.map(([name, words]) => {
        const value = bucket.values[name] ?? 0;
        if (value === 0) return null;
        below += value;
        const box = { x: x + step * 0.1, y: y(below), width: step * 0.8, height: Math.max(1, y(below - value) - y(below)) };
        return s("rect", { class: `bar ${name}`, ...box }, s("title", {}, `${when(bucket.at)} · ${words}: ${write(value)}`));
      });
      return parts;
    };
    const marks = [0, Math.floor(buckets.length / 2), buckets.length - 1];
    const label = (at, place) => s("text", { class: "tick", x: LEFT + (at + 0.5) * step, y: height - 5, "text-anchor": ["start", "middle", "end"][place] }, when(buckets[at].at));
    return [grid(width, height, ticks, write), buckets.map(bar), marks.map(label)];
  });
}

/**
 * Delays before each attempt: a line, the band in which chance lets them fall, and those that were waited for.
 * `points`: `{name, low, usual, high, seen?}` in milliseconds; `axis` says what the names are.
 */
export function delays(label, points, axis, { height = 170 } = {}) {
  const top = roundDuration(Math.max(...points.flatMap((point) => [point.high, ...(point.seen ?? [])]), 1));
  return drawing(label, height, (width, height) => {
    const floor = height - BOTTOM;
    const step = points.length > 1 ? (width - LEFT - RIGHT - 56) / (points.length - 1) : 0;
    const x = (at) => LEFT + 28 + at * step;
    const y = (value) => floor - (value / top) * (floor - TOP - 14);
    const ticks = [0, top / 2, top].map((value) => ({ value, y: y(value) }));
    const line = (key) => points.map((point, at) => `${x(at)},${y(point[key])}`);
    const band = [...line("high"), ...line("low").reverse()].join(" ");
    const dots = points.map((point, at) => [
      s("line", { class: "whisker", x1: x(at), x2: x(at), y1: y(point.low), y2: y(point.high) }),
      s("circle", { class: "dot", cx: x(at), cy: y(point.usual), r: 3.5 }, s("title", {}, `${point.name}: ${duration(point.low)} – ${duration(point.high)}`)),
      (point.seen ?? []).map((waited) => s("circle", { class: "seen", cx: x(at), cy: y(waited), r: 2.5 })),
      s("text", { class: "value", x: x(at), y: y(Math.max(point.high, ...(point.seen ?? []))) - 7, "text-anchor": "middle" }, duration(point.usual)),
      s("text", { class: "tick", x: x(at), y: height - 5, "text-anchor": "middle" }, point.name),
    ]);
    return [
      grid(width, height, ticks, (value) => (value === 0 ? "0" : duration(value))),
      s("text", { class: "tick", x: 0, y: height - 5 }, axis),
      s("polygon", { class: "band", points: band }),
      s("polyline", { class: "curve", points: line("usual").join(" ") }),
      dots,
    ];
  });
}

/** Rows of words with a bar each. `items`: `{name, value, write?, kind?}`; bars fill at `top`. */
export function barList(items, top = Math.max(...items.map((item) => item.value), 1)) {
  return h("ul", { class: "bar-list" }, items.map((item) => {
    const bar = h("span", { class: `share ${item.kind ?? ""}`, "aria-hidden": "true" });
    bar.style.setProperty("--share", String(Math.min(1, item.value / top)));
    return h("li", {}, h("span", { class: "bar-name" }, item.name), h("span", { class: "bar-value" }, item.write ?? number(item.value)), bar);
  }));
}

/** How much of a bound is used. */
export function gauge(value, bound, label) {
  const kind = value >= bound ? "bad" : value >= bound * 0.8 ? "warn" : "";
  const bar = h("span", { class: `share ${kind}`, role: "img", "aria-label": label });
  bar.style.setProperty("--share", String(bound > 0 ? Math.min(1, value / bound) : 0));
  return bar;
}

/** A figure beside the bound it is held against: a bar, and a mark where the bound is. */
export function meter(value, bound, label, { kind = "", top = Math.max(value, bound) * 1.25 || 1 } = {}) {
  const bar = h("span", { class: `meter ${kind}`, role: "img", "aria-label": label });
  bar.style.setProperty("--share", String(Math.min(1, value / top)));
  bar.style.setProperty("--mark", String(Math.min(1, bound / top)));
  return bar;
}

export function legend(series) {
  return h("ul", { class: "legend" }, series.map(([name, words]) => h("li", { class: name }, words)));
}
