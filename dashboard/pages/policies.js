// Policies: when each route tries again, and how far chance may move that.

import { get, offers } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { duration, range } from "/dashboard/frame/format.js";
import { absent, empty, heading, region } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import { delays } from "/dashboard/parts/chart.js";
import * as chips from "/dashboard/parts/chips.js";
import { facts, table } from "/dashboard/parts/table.js";
import { waitsFor } from "/dashboard/parts/waiting.js";

export function show(page) {
  return [heading(t("nav.policies"), h("p", { class: "quiet" }, t("policies.what"))), region(page, { load, draw, every: 30_000 })];
}

/** From a server that does not tell of its routes: their names, at least, and where to look. */
async function load(signal) {
  if (await offers("GET /v1/routes")) return { routes: (await get("/v1/routes", signal)).items };
  const { items } = await get("/v1/providers", signal);
  return { names: [...new Set(items.flatMap((one) => one.routes))].sort() };
}

function draw({ routes, names }) {
  if (!routes) {
    return [
      absent("GET /v1/routes"),
      names.length > 0 && h("div", { class: "card" }, h("p", {}, t("policies.terminal")), h("ul", { class: "plain-list" }, names.map((name) => h("li", {}, h("code", {}, `recado policy show ${name}`))))),
    ];
  }
  if (routes.length === 0) return empty(t("policies.empty"));
  return h("div", { class: "grid two" }, routes.map(route));
}

function route(one) {
  const { policy } = one;
  return h(
    "section",
    { class: "card", data: { route: one.name } },
    h("h2", {}, one.name, " ", one.paused && chips.chip("parked", t("paused"))),
    one.waitingFor && h("p", { class: "waiting" }, waitsFor(one.waitingFor)),
    facts([
      [t("policies.transport"), one.transport],
      [t("provider"), one.providers?.join(" → ")],
      [t("policies.policy"), policy?.policy],
      [t("attempts"), policy?.maxAttempts],
      [t("policies.timeout"), policy?.timeoutMs && duration(policy.timeoutMs)],
    ]),
    policy ? curve(one.name, policy) : h("p", { class: "quiet" }, t("policies.untold"), " ", h("code", {}, `recado policy show ${one.name}`)),
  );
}

function curve(name, { attempts }) {
  const points = attempts.map(({ attempt, delayMs, delayMinMs, delayMaxMs }) => ({ name: t("policies.attempt", { n: attempt }), low: delayMinMs, usual: delayMs, high: delayMaxMs }));
  const label = attempts.map(({ attempt, delayMinMs, delayMaxMs }) => `${t("timeline.attempt", { n: attempt })}: ${range(delayMinMs, delayMaxMs)}`).join("; ");
  return [
    delays(label, points),
    h("details", {}, h("summary", {}, t("policies.table")), table(name, [
      { label: t("policies.attemptNo"), number: true, cell: (one) => one.attempt },
      { label: t("policies.delay"), number: true, cell: (one) => duration(one.delayMs) },
      { label: t("policies.jitter"), number: true, cell: (one) => range(one.delayMinMs, one.delayMaxMs) },
      { label: t("policies.start"), number: true, cell: (one) => range(one.atMinMs, one.atMaxMs) },
    ], attempts)),
  ];
}
