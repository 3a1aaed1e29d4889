// The state of the server at a glance: alerts, deliveries, failures, queues, dead letters.

import { get, offers, query } from "/dashboard/frame/api.js";
import { h, link, put } from "/dashboard/frame/dom.js";
import { bytes, number, percent, shortTime, when } from "/dashboard/frame/format.js";
import { recent } from "/dashboard/frame/live.js";
import { absent, card, empty, heading, region } from "/dashboard/frame/page.js";
import { language, t, word } from "/dashboard/frame/words.js";
import { message, runbookOf, severity, urgentFirst } from "/dashboard/parts/alert.js";
import { barList, bars, gauge, meter } from "/dashboard/parts/chart.js";
import * as chips from "/dashboard/parts/chips.js";
import { byAttempt, courseChart, kpis, sentPerMinute, WINDOWS, windowTabs } from "/dashboard/parts/course.js";
import { retryCurve } from "/dashboard/parts/retry_curve.js";
import { table } from "/dashboard/parts/table.js";
import { whyNotReady } from "/dashboard/parts/waiting.js";

const ALERTS_SHOWN_MAX = 4;
const FEED_SHOWN_MAX = 10;

/** Companies that what is parked is counted over. */
const COMPANIES_MAX = 1_000;
const HELD = ["breaker", "limit", "pause"];

export function show(page) {
  return [
    heading(t("nav.overview")),
    region(page, { load: standing, draw: drawStanding, every: 5_000, on: (event) => isAboutDead(event) || /^(Alert|Circuit)/.test(event.type) }),
    h(
      "div",
      { class: "grid two" },
      throughputCard(page),
      card(t("overview.feed"), feedPart(page)),
      card(t("overview.attempts"), region(page, { load: (signal) => kpis(WINDOWS["24h"], "", signal), draw: byAttempt, every: 15_000, call: "GET /v1/kpis" })),
      card(t("overview.curve"), retryCurve(page, busiestRoute)),
      card(t("overview.size"), region(page, { load: deadLetters, draw: drawDeadLetters, every: 15_000, on: isAboutDead })),
      card(t("overview.breakers"), region(page, { load: providers, draw: drawBreakers, on: (event) => event.type.startsWith("CircuitBreaker") })),
      card(t("overview.codes"), region(page, { load: grouped("lastFailureCode"), draw: drawGroups("lastFailureCode"), on: isAboutDead })),
      card(t("overview.companies"), region(page, { load: grouped("companyId"), draw: drawGroups("companyId"), on: isAboutDead })),
    ),
    card(t("overview.nodes"), region(page, { load: (signal) => get("/v1/nodes", signal), draw: drawNodes, call: "GET /v1/nodes" })),
  ];
}

const isAboutDead = (event) => ["JobFailed", "JobReplayed", "JobDiscarded"].includes(event.type);

const providers = (signal) => get("/v1/providers", signal);

/** Firing alerts, and the rules; empty from a server that has none. */
async function alerting(signal) {
  return (await offers("GET /v1/alerts")) ? get("/v1/alerts", signal) : { items: [], rules: [] };
}

async function standing(signal) {
  const [ready, alerts, { items }, companies, kpiAnswer] = await Promise.all([
    get("/readyz", signal), alerting(signal), providers(signal), get(`/v1/tenants${query({ limit: COMPANIES_MAX })}`, signal), kpis(WINDOWS["10m"], "", signal),
  ]);
  const troubled = items.filter((one) => one.state !== "CLOSED" || one.paused);
  return { ready, firing: alerts.items, troubled: troubled.map((one) => one.name), parked: parkedOf(companies.items), rate: sentPerMinute(kpiAnswer) };
}

/** Due, and held back by something that a person may want to know of. */
function parkedOf(companies) {
  const held = companies.flatMap(({ routes }) => routes).filter(({ waitingFor }) => HELD.includes(waitingFor?.reason));
  return held.reduce((sum, { queued }) => sum + queued, 0);
}

function tile(label, value, { kind = "", to, title } = {}) {
  const content = [h("span", { class: "tile-label" }, label), h("span", { class: "tile-value" }, value)];
  return to ? h("a", { class: `tile ${kind}`, href: to, title, data: { focus: to } }, content) : h("div", { class: `tile ${kind}`, title }, content);
}

function drawStanding({ ready, firing, troubled, parked, rate }) {
  const { counts, store } = ready;
  return [
    ready.status !== "ready" && h("div", { class: "notice bad" }, t("overview.notReady"), " ", whyNotReady(ready)),
    drawFiring(firing),
    h(
      "div",
      { class: "tiles" },
      tile(t("tile.rate"), rate === null ? "–" : number(rate), { to: "#/kpis?window=10m", title: t("tile.rate.why") }),
      tile(t("tile.delivering"), number(counts?.leased ?? 0), { to: "#/jobs?status=delivering" }),
      tile(t("tile.ready"), number(counts?.ready ?? 0), { to: "#/jobs", title: t("tile.ready.why") }),
      tile(t("tile.delayed"), number(counts?.delayed ?? 0), { to: "#/jobs", title: t("tile.delayed.why") }),
      tile(t("tile.parked"), number(parked), { to: "#/jobs?status=parked", kind: parked > 0 ? "parked" : "", title: t("tile.parked.why") }),
      tile(t("tile.dead"), number(counts?.deadLetters ?? 0), { to: "#/dlq", kind: counts?.deadLetters > 0 ? "bad" : "good" }),
      tile(t("tile.breakers"), number(troubled.length), { to: "#/providers", kind: troubled.length > 0 ? "bad" : "good", title: troubled.join(", ") || undefined }),
      tile(t("tile.alerts"), number(firing.length), { to: "#/alerts", kind: firing.length > 0 ? "bad" : "good" }),
    ),
    store && h("p", { class: "quiet" }, t("overview.store", { kind: store.kind, durability: store.durability, size: bytes(store.sizeBytes) }), store.freeBytes !== undefined && ` · ${t("overview.free", { size: bytes(store.freeBytes) })}`, counts && ` · ${t("overview.ended", { n: counts.ended })}`),
  ];
}

function drawFiring(firing) {
  if (firing.length === 0) return null;
  const line = (alert) => h("li", {}, severity(alert.severity), h("span", { class: "firing-what" }, message(alert)), link(runbookOf(alert.name), t("alerts.whatToDo")));
  const more = firing.length - ALERTS_SHOWN_MAX;
  return h("ul", { class: "notice firing", "aria-label": t("alerts.firing") }, urgentFirst(firing).slice(0, ALERTS_SHOWN_MAX).map(line), more > 0 && h("li", {}, link("#/alerts", t("alerts.more", { n: more }))));
}

function throughputCard(page) {
  let window = "10m";
  const tabs = h("div", {});
  const part = region(page, { load: (signal) => kpis(WINDOWS[window], "", signal), draw: (answer) => [courseChart(answer), h("p", { class: "quiet" }, t("overview.throughput.why"))], every: 5_000, call: "GET /v1/kpis" });
  const choose = (name) => {
    window = name;
    put(tabs, windowTabs(window, choose));
    document.getElementById(`window-${name}`).focus();
    part.refresh();
  };
  put(tabs, windowTabs(window, choose));
  return card(t("overview.throughput"), tabs, part);
}

const KINDS = {
  JobSent: "good", JobFailed: "bad", JobRetryExhausted: "bad", JobExpired: "bad", JobRetryScheduled: "warn",
  CircuitBreakerOpened: "bad", CircuitBreakerHalfOpen: "warn", CircuitBreakerClosed: "good", AlertFired: "bad", AlertResolved: "good",
};

function feedPart(page) {
  const list = h("ol", { class: "feed" });
  const said = ({ errorCode, lastError, reason, reasonPt }) => [errorCode, lastError ?? (language() === "pt" ? reasonPt : null) ?? reason].filter(Boolean).join(" ");
  const line = (event) => {
    const { data } = event;
    const about = data.jobId ? chips.job(data.jobId) : (data.provider ?? data.endpointId ?? (data.alert && word("alert", data.alert)) ?? "");
    return h(
      "li",
      {},
      chips.chip(KINDS[event.type] ?? "plain", word("event", event.type), event.type),
      h("span", { class: "feed-what" }, about, " ", event.companyId && chips.company(event.companyId), " ", h("span", { class: "quiet" }, said(data))),
      when(event.timestamp),
    );
  };
  let planned = false;
  const draw = () => {
    planned = false;
    const newest = recent().slice(-FEED_SHOWN_MAX).reverse();
    put(list, newest.length > 0 ? newest.map(line) : h("li", {}, empty(t("overview.feed.empty"), t("overview.feed.empty.why"))));
  };
  draw();
  page.listen(() => {
    if (planned || list.contains(document.activeElement)) return;
    planned = true;
    setTimeout(() => page.signal.aborted || draw(), 250);
  });
  return list;
}

/** Of the last day: the route whose curve says most. */
async function busiestRoute() {
  const { byRoute } = await kpis(WINDOWS["24h"], "");
  return byRoute.toSorted((a, b) => b.failed - a.failed)[0]?.route ?? null;
}

async function deadLetters(signal) {
  const [{ total, perHour }, { rules }] = await Promise.all([get("/v1/dlq/stats", signal), alerting(signal)]);
  const bound = rules.find((rule) => rule.name === "dlq_size" && rule.enabled)?.threshold ?? null;
  return { total, perHour: perHour ?? null, bound };
}

function drawDeadLetters({ total, perHour, bound }) {
  if (!perHour) return absent("perHour in GET /v1/dlq/stats");
  const came = perHour.reduce((sum, { count }) => sum + count, 0);
  const buckets = perHour.map(({ hour, count }) => ({ at: hour, values: { failed: count } }));
  const against = bound === null ? null : t("overview.size.bound", { n: bound });
  return [
    h("p", { class: "kpi-value" }, link("#/dlq", number(total)), against && h("span", { class: "quiet" }, ` ${against}`)),
    bound !== null && meter(total, bound, against, { kind: total > bound ? "bad" : total > bound / 2 ? "warn" : "" }),
    h("h3", {}, t("overview.hours")),
    bars(t("overview.hours.label", { n: came }), buckets, [["failed", t("tile.dead")]], { when: shortTime, height: 120 }),
    h("p", { class: "quiet" }, t("overview.hours.why")),
  ];
}

const grouped = (by) => (signal) => get(`/v1/dlq/stats${query({ by })}`, signal);

const drawGroups = (by) => ({ items }) => {
  if (items.length === 0) return empty(t("dlq.empty"), t("dlq.empty.why"));
  const name = (key) => (key === null ? t("dlq.none") : link(`#/dlq${query({ [by]: key })}`, key));
  return barList(items.slice(0, 10).map(({ key, count }) => ({ name: name(key), value: count, kind: "bad" })));
};

function drawBreakers({ items }) {
  const guarded = items.filter((one) => one.limits.breaker);
  if (guarded.length === 0) return empty(t("overview.breakers.none"));
  const order = { OPEN: 0, HALF_OPEN: 1, CLOSED: 2 };
  const sorted = guarded.toSorted((a, b) => order[a.state] - order[b.state] || b.failuresInWindow - a.failuresInWindow);
  return [
    h("ul", { class: "breakers" }, sorted.map((one) => h(
      "li",
      {},
      link(`#/providers?name=${encodeURIComponent(one.name)}`, one.name),
      h("span", {}, chips.breaker(one.state), " ", one.paused && chips.chip("parked", t("paused"))),
      h("span", { class: "number" }, t("of", { some: one.failuresInWindow, all: one.limits.breaker.failures })),
      gauge(one.failuresInWindow, one.limits.breaker.failures, t("providers.failures")),
      one.parked > 0 && h("span", { class: "quiet breaker-parked" }, t("providers.parked", { n: one.parked })),
    ))),
    h("p", { class: "quiet" }, t("overview.breakers.why")),
  ];
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
