// Firing alerts, alerts since the page was opened, and the rules.

import { get } from "/dashboard/frame/api.js";
import { h, link } from "/dashboard/frame/dom.js";
import { duration, figure } from "/dashboard/frame/format.js";
import { recent } from "/dashboard/frame/live.js";
import { card, empty, heading, region, stamp } from "/dashboard/frame/page.js";
import { language, t, word } from "/dashboard/frame/words.js";
import { firing, runbookOf, severity, urgentFirst } from "/dashboard/parts/alert.js";
import * as chips from "/dashboard/parts/chips.js";
import { table } from "/dashboard/parts/table.js";

const HISTORY_MAX = 20;

export const isAboutAlerts = (event) => event.type.startsWith("Alert");

export const loadAlerts = (signal) => get("/v1/alerts", signal);

export function show(page) {
  const changes = async () => recent().filter(isAboutAlerts).slice(-HISTORY_MAX).reverse();
  return [
    heading(t("nav.alerts"), h("p", { class: "quiet" }, t("alerts.what"))),
    region(page, { load: loadAlerts, draw: drawFiring, every: 5_000, on: isAboutAlerts, call: "GET /v1/alerts" }),
    card(t("alerts.history"), region(page, { load: changes, draw: drawChanges, on: isAboutAlerts })),
    card(t("alerts.rules"), region(page, { load: async (signal) => (await loadAlerts(signal)).rules, draw: drawRules, every: 60_000, call: "GET /v1/alerts" })),
  ];
}

function drawFiring({ items, rules }) {
  if (items.length === 0) return h("div", { class: "callout good" }, chips.chip("good", t("alerts.none")), h("div", { class: "callout-text" }, t("alerts.none.why", { n: rules.filter((rule) => rule.enabled).length })));
  return h("div", { class: "grid alerts" }, urgentFirst(items).map((alert) => firing(alert, rules.find((rule) => rule.name === alert.name))));
}

function drawChanges(events) {
  if (events.length === 0) return empty(t("alerts.history.empty"), t("alerts.history.empty.why"));
  return h("ol", { class: "trail" }, events.map(({ timestamp, type, data }) => h(
    "li",
    {},
    stamp(timestamp),
    h("span", { class: "trail-who" }, chips.chip(type === "AlertFired" ? "bad" : "good", word("event", type))),
    h("span", { class: "trail-said" }, h("strong", {}, word("alert", data.alert)), " ", (language() === "pt" ? data.reasonPt : data.reason) ?? data.reason),
  )));
}

function drawRules(rules) {
  const above = ({ unit, threshold }) => (unit === "fact" ? t("alerts.fact") : figure(threshold, unit));
  return table(t("alerts.rules"), [
    { label: t("alerts.rule"), lead: true, cell: (rule) => [link(runbookOf(rule.name), word("alert", rule.name)), " ", !rule.enabled && chips.chip("faint", t("alerts.off"))] },
    { label: t("alerts.severity"), cell: (rule) => severity(rule.severity) },
    { label: t("alerts.threshold"), number: true, cell: above },
    { label: t("alerts.window"), number: true, cell: (rule) => (rule.windowMs > 0 ? duration(rule.windowMs) : t("now")) },
    { label: t("alerts.volume"), number: true, cell: (rule) => (rule.minVolume > 0 ? rule.minVolume : "–") },
    { label: t("alerts.pending"), number: true, cell: (rule) => (rule.pendingMs > 0 ? duration(rule.pendingMs) : t("alerts.atOnce")) },
    { label: t("alerts.except"), cell: (rule) => rule.except?.join(", ") || "–" },
  ], rules);
}
