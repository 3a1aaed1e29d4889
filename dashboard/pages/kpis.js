// Retry KPIs beside their targets, by route and window, and what they are made of.

import { query } from "/dashboard/frame/api.js";
import { h, link } from "/dashboard/frame/dom.js";
import { exactTime, figure, number } from "/dashboard/frame/format.js";
import { card, empty, heading, region } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import { barList, meter } from "/dashboard/parts/chart.js";
import * as chips from "/dashboard/parts/chips.js";
import { byAttempt, courseChart, kpis, WINDOWS, windowTabs } from "/dashboard/parts/course.js";
import { fillWithNames } from "/dashboard/parts/list.js";
import { facts, table } from "/dashboard/parts/table.js";

/** The KPIs in their order: business first, then technical. */
const FIGURES = [
  ["successAfterRetry", "share"],
  ["lostShare", "share"],
  ["meanAttempts", "count"],
  ["timeToSuccessSeconds", "seconds"],
  ["permanentShare", "share"],
  ["atCapShare", "share"],
  ["jitterDeviation", "share"],
  ["meanBackoffSeconds", "seconds"],
];

const WINDOW_DEFAULT = "24h";

/** Of a list that the server bounds itself, those that are drawn. */
const NAMED_MAX = 10;

export function show(page) {
  const route = page.params.get("route") ?? "";
  const asked = page.params.get("window");
  const window = Object.hasOwn(WINDOWS, asked) ? asked : WINDOW_DEFAULT;
  const go = (changes) => (location.hash = `#/kpis${query({ route, window, ...changes })}`);
  return [
    heading(t("nav.kpis"), h("p", { class: "quiet" }, t("kpis.what"))),
    h("div", { class: "toolbar" }, windowTabs(window, (name) => go({ window: name })), routeChoice(page, route, (name) => go({ route: name }))),
    region(page, { load: (signal) => kpis(WINDOWS[window], route, signal), draw: (answer) => draw(answer, route), every: 10_000, call: "GET /v1/kpis" }),
  ];
}

function routeChoice(page, route, choose) {
  const select = h("select", { id: "kpis-route", on: { change: (event) => choose(event.target.value) } }, h("option", { value: "" }, t("kpis.everyRoute")), route && h("option", { value: route, selected: true }, route));
  void fillWithNames(select, "routes", page.signal, route);
  return h("label", { class: "inline" }, t("route"), " ", select);
}

function draw(answer, route) {
  return [
    h("p", { class: "quiet" }, t("kpis.since", { time: exactTime(answer.since) })),
    h("div", { class: "kpis" }, FIGURES.map(([name, unit]) => indicator(name, unit, answer[name]))),
    h(
      "div",
      { class: "grid two" },
      card(t("kpis.course"), courseChart(answer)),
      card(t("kpis.routes"), routes(answer.byRoute)),
      card(t("kpis.attempts"), byAttempt(answer)),
      card(t("kpis.dead"), flow(answer.deadLetters)),
    ),
    route && h("p", { class: "quiet" }, t("kpis.overAll")),
  ];
}

/** How each verdict looks, and its word. */
const VERDICTS = { met: ["good", "kpis.met"], missed: ["bad", "kpis.missed"], tooFew: ["faint", "kpis.tooFew"] };

function indicator(name, unit, { value, atLeast, atMost, verdict, volume, minVolume }) {
  const target = atLeast ?? atMost;
  const wanted = t(atLeast === undefined ? "kpis.atMost" : "kpis.atLeast", { target: figure(target, unit) });
  const [kind, said] = VERDICTS[verdict];
  const shown = value === undefined ? "–" : figure(value, unit);
  return h(
    "section",
    { class: `card kpi ${kind}`, data: { kpi: name } },
    h("h2", {}, t(`kpi.${name}`)),
    h("p", { class: "kpi-value" }, shown, " ", value !== undefined && chips.chip(kind, t(said))),
    value === undefined ? h("p", { class: "quiet" }, t("kpis.nothing")) : meter(value, target, `${shown}, ${wanted}`, { kind, top: unit === "share" ? Math.max(1, value) : undefined }),
    h("p", { class: "quiet" }, wanted),
    h("p", { class: "quiet" }, t(`kpi.${name}.why`), value !== undefined && ` ${t("kpis.volume", { n: volume })}`, value !== undefined && verdict === "tooFew" && ` ${t("kpis.tooFew.why", { n: minVolume })}`),
  );
}

function routes(flows) {
  if (flows.length === 0) return empty(t("kpis.routes.empty"));
  return table(t("kpis.routes"), [
    { label: t("route"), lead: true, cell: (one) => link(`#/kpis${query({ route: one.route })}`, one.route) },
    { label: t("attempts"), number: true, cell: (one) => number(one.attempts) },
    { label: t("kpis.failed"), number: true, cell: (one) => (one.attempts > 0 ? figure(one.failed / one.attempts, "share") : "–") },
    { label: t("kpis.sent"), number: true, cell: (one) => number(one.sent) },
    { label: t("kpis.buried"), number: true, cell: (one) => (one.dead > 0 ? link(`#/dlq${query({ route: one.route })}`, number(one.dead)) : "0") },
  ], flows);
}

function flow({ entries, perHour, shareOfSends, byCompany, byErrorCode }) {
  if (entries === 0) return empty(t("kpis.dead.empty"));
  const list = (items, by) => barList(items.slice(0, NAMED_MAX).map(({ name, count }) => ({ name: link(`#/dlq${query({ [by]: name })}`, name), value: count, kind: "bad" })));
  return [
    facts([[t("kpis.dead.entries"), number(entries)], [t("kpis.dead.perHour"), number(perHour, 1)], [t("kpis.dead.share"), shareOfSends !== undefined && figure(shareOfSends, "share")]]),
    h("h3", {}, t("dlq.by.companyId")),
    list(byCompany, "companyId"),
    h("h3", {}, t("dlq.by.lastFailureCode")),
    list(byErrorCode, "lastFailureCode"),
  ];
}
