// What is firing, and how the figures stand that seed 003 asks for.

import { get } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { number, when } from "/dashboard/frame/format.js";
import { card, empty, heading, region } from "/dashboard/frame/page.js";
import { t, word } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { facts } from "/dashboard/parts/table.js";

export function show(page) {
  const on = (event) => event.type.startsWith("Alert");
  return [
    heading(t("nav.alerts")),
    card(t("alerts.firing"), region(page, { load: (signal) => get("/v1/alerts", signal), draw: drawAlerts, every: 5_000, on, call: "GET /v1/alerts" })),
    card(t("alerts.kpis"), region(page, { load: (signal) => get("/v1/kpis", signal), draw: figures, every: 15_000, call: "GET /v1/kpis" })),
  ];
}

function drawAlerts({ items }) {
  if (items.length === 0) return empty(t("alerts.none"), t("alerts.none.why"));
  return h("ul", { class: "alerts" }, items.map(({ name, message, ...rest }) => h("li", { class: "notice bad" }, h("strong", {}, word("alert", name)), message && h("p", {}, message), facts(described(rest)))));
}

/** Figures as the server names them, group by group: what it measures is its own affair. */
function figures(group) {
  const deeper = Object.entries(group).filter(([, value]) => value !== null && typeof value === "object");
  return [
    facts(described(group)),
    deeper.map(([name, value]) => h("section", { class: "figures" }, h("h3", {}, word("kpi", value.name ?? value.route ?? name)), figures(value))),
  ];
}

function described(values) {
  const plain = Object.entries(values).filter(([, value]) => value !== null && typeof value !== "object");
  return plain.map(([name, value]) => [word("kpi", name), written(value)]);
}

function written(value) {
  if (typeof value === "number") return number(value, 3);
  if (typeof value === "boolean") return value ? chips.chip("good", t("yes")) : chips.chip("bad", t("no"));
  return /^\d{4}-\d\d-\d\dT/.test(value) ? when(value) : value;
}
