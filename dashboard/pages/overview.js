// How things stand, at one glance: what goes out, what fails, what waits, what needs a person.

import { get, offers, query } from "/dashboard/frame/api.js";
import { h, link, put } from "/dashboard/frame/dom.js";
import { bytes, duration, number, percent, shortTime, when } from "/dashboard/frame/format.js";
import { recent } from "/dashboard/frame/live.js";
import { absent, card, empty, heading, region } from "/dashboard/frame/page.js";
import { t, word } from "/dashboard/frame/words.js";
import { barList, bars, delays, legend } from "/dashboard/parts/chart.js";
import * as chips from "/dashboard/parts/chips.js";
import { table } from "/dashboard/parts/table.js";
import { sentPerMinute, throughput } from "/dashboard/parts/throughput.js";

/** Jobs that the figures by attempt are read from. */
const SAMPLE_JOBS = 300;

export function show(page) {
  return [
    heading(t("nav.overview")),
    region(page, { load: standing, draw: drawStanding, every: 5_000, on: (event) => !event.type.startsWith("JobRetry") }),
    h(
      "div",
      { class: "grid two" },
      card(t("overview.throughput"), throughputPart(page)),
      card(t("overview.feed"), feedPart(page)),
      card(t("overview.attempts"), region(page, { load: sample, draw: drawAttempts, every: 15_000 })),
      card(t("overview.curve"), curvePart(page)),
      card(t("overview.codes"), region(page, { load: grouped("lastFailureCode"), draw: drawGroups("lastFailureCode"), on: isAboutDead })),
      card(t("overview.companies"), region(page, { load: grouped("companyId"), draw: drawGroups("companyId"), on: isAboutDead })),
      card(t("overview.hours"), region(page, { load: byHour, draw: drawHours, every: 60_000 })),
      card(t("overview.nodes"), region(page, { load: (signal) => get("/v1/nodes", signal), draw: drawNodes, call: "GET /v1/nodes" })),
      card(t("overview.breakers"), region(page, { load: providers, draw: drawBreakers, on: (event) => event.type.startsWith("CircuitBreaker") })),
    ),
  ];
}

const isAboutDead = (event) => ["JobFailed", "JobReplayed", "JobDiscarded"].includes(event.type);

async function standing(signal) {
  const alerting = async () => ((await offers("GET /v1/alerts")) ? get("/v1/alerts", signal) : null);
  const [ready, alerts, { items }] = await Promise.all([get("/readyz", signal), alerting(), get("/v1/providers", signal)]);
  const troubled = items.filter((one) => one.state !== "CLOSED" || one.paused);
  return { ready, alerts, troubled: troubled.map((one) => one.name), parked: items.reduce((sum, one) => sum + one.parked, 0) };
}

function tile(label, value, { kind = "", to, title } = {}) {
  const content = [h("span", { class: "tile-label" }, label), h("span", { class: "tile-value" }, value)];
  return to ? h("a", { class: `tile ${kind}`, href: to, title, data: { focus: to } }, content) : h("div", { class: `tile ${kind}`, title }, content);
}

function drawStanding({ ready, alerts, troubled, parked }) {
  const { counts, store } = ready;
  const rate = sentPerMinute();
  const firing = alerts?.items?.length;
  return [
    (ready.reasons ?? []).map((why) => h("div", { class: "notice bad" }, t("overview.notReady"), " ", h("q", {}, why))),
    h(
      "div",
      { class: "tiles" },
      tile(t("tile.rate"), rate === null ? "–" : number(rate, rate < 10 ? 1 : 0), { title: t("tile.rate.why") }),
      tile(t("tile.delivering"), number(counts?.leased ?? 0), { to: "#/jobs?status=delivering" }),
      tile(t("tile.ready"), number(counts?.ready ?? 0), { to: "#/jobs", title: t("tile.ready.why") }),
      tile(t("tile.delayed"), number(counts?.delayed ?? 0), { to: "#/jobs", title: t("tile.delayed.why") }),
      tile(t("tile.parked"), number(parked), { to: "#/jobs?status=parked", kind: parked > 0 ? "parked" : "", title: t("tile.parked.why") }),
      tile(t("tile.dead"), number(counts?.deadLetters ?? 0), { to: "#/dlq", kind: counts?.deadLetters > 0 ? "bad" : "good" }),
      tile(t("tile.breakers"), number(troubled.length), { to: "#/providers", kind: troubled.length > 0 ? "bad" : "good", title: troubled.join(", ") || undefined }),
      tile(t("tile.alerts"), firing === undefined ? "–" : number(firing), { to: "#/alerts", kind: firing > 0 ? "bad" : "", title: alerts ? undefined : t("tile.alerts.absent") }),
    ),
    store && h("p", { class: "quiet" }, t("overview.store", { kind: store.kind, durability: store.durability, size: bytes(store.sizeBytes) }), store.freeBytes !== undefined && ` · ${t("overview.free", { size: bytes(store.freeBytes) })}`, counts && ` · ${t("overview.ended", { n: counts.ended })}`),
  ];
}

function throughputPart(page) {
  const series = [["sent", t("series.sent")], ["retried", t("series.retried")], ["failed", t("series.failed")]];
  const box = h("div", {});
  let drawn = "";
  const draw = () => {
    const buckets = throughput();
    const written = JSON.stringify(buckets);
    if (written === drawn) return;
    drawn = written;
    const sum = (name) => buckets.reduce((all, bucket) => all + (bucket.values?.[name] ?? 0), 0);
    const label = series.map(([name, words]) => `${words}: ${number(sum(name))}`).join(", ");
    put(box, bars(label, buckets, series, { when: shortTime }));
  };
  draw();
  page.every(1_000, draw);
  return [box, legend([...series, ["unwatched", t("series.unwatched")]]), h("p", { class: "quiet" }, t("overview.throughput.why"))];
}

const KINDS = { JobSent: "good", JobFailed: "bad", JobRetryExhausted: "bad", JobExpired: "bad", JobRetryScheduled: "warn", CircuitBreakerOpened: "bad", CircuitBreakerHalfOpen: "warn", CircuitBreakerClosed: "good" };

function feedPart(page) {
  const list = h("ol", { class: "feed" });
  const line = (event) => {
    const { data } = event;
    const about = data.jobId ? chips.job(data.jobId) : (data.provider ?? data.endpointId ?? "");
    return h(
      "li",
      {},
      chips.chip(KINDS[event.type] ?? "plain", word("event", event.type), event.type),
      h("span", { class: "feed-what" }, about, " ", event.companyId && chips.company(event.companyId), " ", h("span", { class: "quiet" }, [data.errorCode, data.lastError ?? data.reason].filter(Boolean).join(" "))),
      when(event.timestamp),
    );
  };
  let planned = false;
  const draw = () => {
    planned = false;
    const newest = recent().slice(-12).reverse();
    put(list, newest.length > 0 ? newest.map(line) : empty(t("overview.feed.empty"), t("overview.feed.empty.why")));
  };
  draw();
  page.listen(() => {
    if (planned) return;
    planned = true;
    setTimeout(() => page.signal.aborted || draw(), 250);
  });
  return list;
}

/** Two parts show it: one request serves both, so it ends with neither. */
let sampled = { at: 0, answer: null };

async function sample() {
  if (Date.now() - sampled.at > 5_000) sampled = { at: Date.now(), answer: get(`/v1/jobs${query({ limit: SAMPLE_JOBS })}`) };
  try {
    const { items } = await sampled.answer;
    return items.flatMap(({ route, attempts }) => attempts.map(({ attempt, result, nextRetryDelayMs }) => ({ route, attempt, result, nextRetryDelayMs })));
  } catch (error) {
    sampled.at = 0;
    throw error;
  }
}

function byAttempt(attempts) {
  const groups = new Map();
  for (const one of attempts) groups.set(one.attempt, [...(groups.get(one.attempt) ?? []), one]);
  return [...groups].sort(([a], [b]) => a - b).slice(0, 10);
}

function drawAttempts(attempts) {
  const items = byAttempt(attempts).map(([attempt, tries]) => {
    const sent = tries.filter((one) => one.result === "sent").length;
    const share = sent / tries.length;
    return { name: t("timeline.attempt", { n: attempt }), value: share, write: `${percent(share)} · ${t("of", { some: sent, all: tries.length })}`, kind: share >= 0.9 ? "good" : share >= 0.5 ? "warn" : "bad" };
  });
  if (items.length === 0) return empty(t("overview.attempts.empty"), t("overview.attempts.empty.why"));
  return [barList(items, 1), h("p", { class: "quiet" }, t("overview.sample", { n: SAMPLE_JOBS }))];
}

/** One route at a time: the delays of two policies make no curve. */
function curvePart(page) {
  let chosen = null;
  const part = region(page, { load: sample, draw, every: 15_000 });
  return part;

  function draw(attempts) {
    const waited = attempts.filter((one) => one.nextRetryDelayMs !== null);
    const count = (route) => waited.filter((one) => one.route === route).length;
    const routes = [...new Set(waited.map((one) => one.route))].sort((a, b) => count(b) - count(a));
    if (routes.length === 0) return empty(t("overview.curve.empty"), t("overview.curve.empty.why"));
    const route = routes.includes(chosen) ? chosen : routes[0];
    const points = byAttempt(waited.filter((one) => one.route === route)).map(([attempt, tries]) => {
      const all = tries.map((one) => one.nextRetryDelayMs).sort((a, b) => a - b);
      return { name: t("overview.after", { n: attempt }), low: all[0], usual: all[Math.floor(all.length / 2)], high: all.at(-1) };
    });
    const choose = (event) => {
      chosen = event.target.value;
      part.refresh();
    };
    return [
      h("label", { class: "inline" }, t("route"), " ", h("select", { data: { focus: "curve" }, on: { change: choose } }, routes.map((name) => h("option", { value: name, selected: name === route }, name)))),
      delays(points.map((point) => `${point.name}: ${duration(point.usual)}`).join(", "), points),
      h("p", { class: "quiet" }, t("overview.curve.why", { n: SAMPLE_JOBS })),
    ];
  }
}

const grouped = (by) => (signal) => get(`/v1/dlq/stats${query({ by })}`, signal);

const drawGroups = (by) => ({ items }) => {
  if (items.length === 0) return empty(t("dlq.empty"), t("dlq.empty.why"));
  const name = (key) => (key === null ? t("dlq.none") : link(`#/dlq${query({ [by]: key })}`, key));
  return barList(items.slice(0, 10).map(({ key, count }) => ({ name: name(key), value: count, kind: "bad" })));
};

async function byHour(signal) {
  return (await get("/v1/dlq/stats", signal)).perHour ?? null;
}

function drawHours(hours) {
  if (!hours) return absent("perHour in GET /v1/dlq/stats");
  const total = hours.reduce((sum, { count }) => sum + count, 0);
  const buckets = hours.map(({ hour, count }) => ({ at: hour, values: { failed: count } }));
  return [bars(t("overview.hours.label", { n: total }), buckets, [["failed", t("tile.dead")]], { when: shortTime }), h("p", { class: "quiet" }, t("overview.hours.why"))];
}

const providers = (signal) => get("/v1/providers", signal);

function drawBreakers({ items }) {
  if (items.length === 0) return empty(t("providers.empty"));
  const order = { OPEN: 0, HALF_OPEN: 1, CLOSED: 2 };
  const sorted = items.toSorted((a, b) => order[a.state] - order[b.state] || b.parked - a.parked);
  return h("ul", { class: "plain-list" }, sorted.map((one) => h(
    "li",
    {},
    link(`#/providers?name=${encodeURIComponent(one.name)}`, one.name), " ",
    one.limits.breaker ? chips.breaker(one.state) : chips.chip("faint", t("providers.noBreaker")), " ",
    one.paused && chips.chip("parked", t("paused")), " ",
    one.parked > 0 && h("span", { class: "quiet" }, t("providers.parked", { n: one.parked })),
  )));
}

const HEALTH = { ok: "good", stopping: "warn", silent: "bad" };

function drawNodes({ items }) {
  return table(t("overview.nodes"), [
    { label: t("node"), lead: true, cell: (one) => h("code", {}, one.nodeId) },
    { label: t("status"), cell: (one) => chips.chip(HEALTH[one.health] ?? "plain", word("health", one.health)) },
    { label: t("node.share"), number: true, cell: (one) => percent(one.sharePercent / 100) },
    { label: t("tile.delivering"), number: true, cell: (one) => number(one.running) },
    { label: t("node.version"), cell: (one) => one.version },
    { label: t("since"), cell: (one) => when(one.startedAt) },
  ], items);
}
