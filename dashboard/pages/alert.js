// One alert: what to do about it, as the runbook says, what it is ringing for, and when it would.

import { getWithText } from "/dashboard/frame/api.js";
import { h, link } from "/dashboard/frame/dom.js";
import { duration, figure, percent } from "/dashboard/frame/format.js";
import { card, empty, heading, region } from "/dashboard/frame/page.js";
import { language, t, word } from "/dashboard/frame/words.js";
import { isAboutAlerts, loadAlerts } from "/dashboard/pages/alerts.js";
import { firing, runbookOf, severity } from "/dashboard/parts/alert.js";
import * as chips from "/dashboard/parts/chips.js";
import { rendered, section } from "/dashboard/parts/markdown.js";
import { facts } from "/dashboard/parts/table.js";

/** The operators' documents, which come with the dashboard. */
const RUNBOOKS = { en: "/dashboard/runbooks/en.md", pt: "/dashboard/runbooks/pt.md" };

export function show(page) {
  const name = page.argument;
  const of = async (signal) => {
    const { items, rules } = await loadAlerts(signal);
    return { firing: items.filter((one) => one.name === name), rule: rules.find((one) => one.name === name) ?? null };
  };
  const runbook = async (signal) => section((await getWithText(RUNBOOKS[language()], signal)).text, name);
  return [
    heading(word("alert", name), link("#/alerts", t("alerts.all"))),
    region(page, { load: of, draw: drawFiring, every: 5_000, on: isAboutAlerts, call: "GET /v1/alerts" }),
    card(t("alerts.whatToDo"), region(page, { load: runbook, draw: drawRunbook, every: 3_600_000 })),
    card(t("alerts.rule"), region(page, { load: async (signal) => (await of(signal)).rule, draw: drawRule, every: 60_000, call: "GET /v1/alerts" })),
  ];
}

function drawRunbook(text) {
  if (text === null) return empty(t("alerts.unknown"));
  return h("div", { class: "runbook" }, rendered(text, runbookOf));
}

function drawFiring({ firing: ringing, rule }) {
  if (ringing.length === 0) return h("div", { class: "callout good" }, chips.chip("good", t("alerts.quiet")));
  return h("div", { class: "grid alerts" }, ringing.map((one) => firing(one, rule, true)));
}

function drawRule(rule) {
  if (!rule) return empty(t("alerts.unknown"));
  const time = (ms) => (ms > 0 ? duration(ms) : t("alerts.atOnce"));
  return facts([
    [t("alerts.name"), h("code", {}, rule.name)],
    [t("status"), rule.enabled ? t("alerts.on") : t("alerts.off")],
    [t("alerts.severity"), severity(rule.severity)],
    [t("alerts.threshold"), rule.unit === "fact" ? t("alerts.fact") : figure(rule.threshold, rule.unit)],
    [t("alerts.window"), rule.windowMs > 0 ? duration(rule.windowMs) : t("now")],
    [t("alerts.volume"), rule.minVolume > 0 && rule.minVolume],
    [t("alerts.pending"), time(rule.pendingMs)],
    [t("alerts.over"), rule.unit !== "fact" && t("alerts.over.at", { share: percent(rule.resolveShare), time: time(rule.clearMs) })],
    [t("alerts.except"), rule.except?.join(", ")],
  ]);
}
