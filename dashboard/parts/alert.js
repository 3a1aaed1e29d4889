// An alert: its subject, how far its figure is from the threshold, and where to go.

import { query } from "/dashboard/frame/api.js";
import { h, link, outside } from "/dashboard/frame/dom.js";
import { figure, percent, when } from "/dashboard/frame/format.js";
import { interpolate, language, t, word } from "/dashboard/frame/words.js";
import { meter } from "/dashboard/parts/chart.js";
import * as chips from "/dashboard/parts/chips.js";

const SEVERITIES = { critical: "bad", warning: "warn" };

/** Where the things are that an alert is about. */
const PLACES = {
  route: (name, alert) => (/^(dlq|permanent)_/.test(alert) ? `#/dlq${query({ route: name })}` : `#/kpis${query({ route: name, window: "1h" })}`),
  company: (name) => `#/dlq${query({ companyId: name })}`,
  errorCode: (name) => `#/dlq${query({ lastFailureCode: name })}`,
  provider: (name) => `#/providers${query({ name })}`,
};

/** Those that are about everything have a page of their own, too. */
const PLACES_OF_ALL = { dlq_size: "#/dlq", dlq_overflow: "#/dlq" };

export const urgentFirst = (alerts) => alerts.toSorted((a, b) => Number(b.severity === "critical") - Number(a.severity === "critical"));

export const severity = (value) => chips.chip(SEVERITIES[value] ?? "plain", word("severity", value));

export const runbookOf = (name) => `#/alerts/${encodeURIComponent(name)}`;

/** What it says, in the reader's language. */
export const message = ({ message, messagePt }) => (language() === "pt" ? messagePt : message);

/** The reason why it still fires although its figure is back under the limit. */
function whyStill({ calmSince, clearsAt, value, threshold }, rule) {
  if (calmSince) return h("p", { class: "quiet", data: { calm: "" } }, interpolate(t("alerts.calm"), { since: when(calmSince), clears: when(clearsAt) }));
  if (value <= threshold && rule) return h("p", { class: "quiet", data: { calm: "" } }, t("alerts.under", { share: percent(rule.resolveShare) }));
  return null;
}

/** `rule` says what the figures are; `isAtHome` that its own page is where this stands. */
export function firing(alert, rule, isAtHome = false) {
  const unit = rule?.unit ?? "count";
  const place = alert.subject ? PLACES[alert.about]?.(alert.subject, alert.name) : PLACES_OF_ALL[alert.name];
  const values = t("alerts.value", { value: figure(alert.value, unit), threshold: figure(alert.threshold, unit) });
  return h(
    "article",
    { class: `alert ${SEVERITIES[alert.severity] ?? ""}`, data: { alert: alert.name } },
    h("p", { class: "alert-head" }, severity(alert.severity), h("strong", {}, word("alert", alert.name)), alert.subject && h("code", {}, alert.subject), h("span", { class: "quiet" }, t("alerts.since"), " ", when(alert.since))),
    h("p", {}, message(alert)),
    unit !== "fact" && h("div", { class: "alert-figure" }, meter(alert.value, alert.threshold, values, { kind: SEVERITIES[alert.severity] }), h("span", { class: "quiet" }, values)),
    whyStill(alert, rule),
    h("p", { class: "alert-links" }, !isAtHome && link(runbookOf(alert.name), t("alerts.whatToDo")), place && link(place, t("alerts.look")), /^https?:/.test(alert.runbook) && outside(alert.runbook)),
  );
}
