// Companies: their share, their waits and why, and the terms that an operator sets.

import { act, get, path, query } from "/dashboard/frame/api.js";
import { h, link } from "/dashboard/frame/dom.js";
import { number, percent, when } from "/dashboard/frame/format.js";
import { card, empty, heading, say } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import { barList } from "/dashboard/parts/chart.js";
import * as chips from "/dashboard/parts/chips.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { filterForm, pages } from "/dashboard/parts/list.js";
import { pausedBy } from "/dashboard/parts/pause.js";
import { table } from "/dashboard/parts/table.js";
import { waitsFor } from "/dashboard/parts/waiting.js";

const SHARES_MAX = 8;

export function show(page) {
  const filter = filterForm("tenants", page, [{ name: "companyId", label: t("company"), offers: "companies" }, { name: "route", label: t("route"), offers: "routes" }]);
  const load = (cursor, signal) => get(`/v1/tenants${query({ ...filter.values, cursor })}`, signal);
  const all = pages(page, load, (items) => draw(items, filter, () => all.refresh()), { every: 3_000, on: (event) => event.type !== "JobRetryScheduled" });
  return [heading(t("nav.tenants"), h("p", { class: "quiet" }, t("tenants.what"))), filter.element, all];
}

function draw(items, filter, refresh) {
  if (items.length === 0) return empty(t("tenants.empty"), filter.isSet ? t("tenants.empty.filtered") : t("tenants.empty.why"));
  const load = (one) => one.queued + one.delivering;
  const sorted = items.toSorted((a, b) => load(b) - load(a) || b.totalProcessed - a.totalProcessed);
  return [
    filter.values.companyId && items.length === 1 && whereNext(items[0]),
    items.length > 1 && h("div", { class: "grid two" }, card(t("tenants.share"), shares(items, "totalProcessed")), card(t("tenants.queue"), shares(items, "queued", "parked"))),
    table(t("nav.tenants"), columns(refresh), sorted),
    items.length === 1 && card(t("tenants.routes"), byRoute(items[0].routes)),
  ];
}

/** The first facts about one company. */
function whereNext({ companyId, dead }) {
  return h(
    "div",
    { class: `callout ${dead > 0 ? "bad" : "good"}` },
    h("div", { class: "callout-text" }, t("tenants.dead.is", { n: dead }), " ", dead > 0 && link(`#/dlq${query({ companyId })}`, t("tenants.dead.why"))),
    link(`#/jobs${query({ companyId })}`, t("tenants.jobs")),
    link(`#/audit${query({ companyId })}`, t("job.audit")),
  );
}

function shares(items, key, kind) {
  const total = items.reduce((sum, one) => sum + one[key], 0);
  if (total === 0) return empty(t(`tenants.${key}.none`));
  const largest = items.toSorted((a, b) => b[key] - a[key]).slice(0, SHARES_MAX).filter((one) => one[key] > 0);
  return barList(largest.map((one) => ({ name: chips.company(one.companyId), value: one[key], write: `${number(one[key])} · ${percent(one[key] / total)}`, kind })));
}

/** 1 is the most urgent: more marks, more urgent. */
function priority(level) {
  return h("span", { class: "priority", title: t("tenants.priority.why") }, "●".repeat(6 - level), h("span", { class: "quiet" }, "○".repeat(level - 1)), ` ${level}`);
}

/** What is due, and below it what is not or no longer. */
function waiting({ queued, delayed, delivering }) {
  return h(
    "div",
    { class: "turn" },
    h("p", {}, number(queued)),
    delayed > 0 && h("p", { class: "quiet", title: t("tenants.delayed.why") }, t("tenants.delayed", { n: delayed })),
    delivering > 0 && h("p", { class: "quiet" }, t("tenants.delivering", { n: delivering })),
  );
}

/** Where it stands in the order of turns: priority, rounds waited, jobs in a row, and when it was last served. */
function turn({ currentPriority, roundsWithoutProcessing, consecutiveBatchCount, lastProcessedAt }) {
  return h(
    "div",
    { class: "turn" },
    h("p", {}, priority(currentPriority)),
    h("p", { class: "quiet", title: t("tenants.rounds.why") }, t("tenants.rounds", { n: roundsWithoutProcessing })),
    h("p", { class: "quiet", title: t("tenants.row.why") }, t("tenants.row", { n: consecutiveBatchCount })),
    lastProcessedAt && h("p", { class: "quiet" }, t("tenants.last"), " ", when(lastProcessedAt)),
  );
}

function statColumns() {
  return [
    { label: t("tenants.queued"), number: true, cell: waiting, title: t("tenants.queued.why") },
    { label: t("tenants.processed"), number: true, cell: (one) => number(one.totalProcessed), title: t("tenants.processed.why") },
    { label: t("tenants.turn"), cell: turn },
  ];
}

function terms({ weight, maxPerMinute }) {
  return [t("tenants.weight.is", { n: weight }), maxPerMinute !== undefined && `, ${t("tenants.max.is", { n: maxPerMinute })}`];
}

function columns(refresh) {
  return [
    { label: t("company"), lead: true, cell: (one) => [h("p", {}, chips.company(one.companyId), " ", one.paused && chips.chip("parked", t("paused"))), h("p", { class: "quiet" }, terms(one))] },
    ...statColumns(),
    { label: t("tile.dead"), number: true, cell: (one) => (one.dead > 0 ? link(`#/dlq?companyId=${encodeURIComponent(one.companyId)}`, number(one.dead)) : "0") },
    { label: t("tenants.why"), wide: true, cell: (one) => (one.paused ? pausedBy({ actor: one.pausedBy, since: one.pausedSince, reason: one.pausedReason }) : (waitsFor(one.waitingFor) ?? h("span", { class: "quiet" }, t("tenants.nothing")))) },
    { label: t("acts"), cell: (one) => h("div", { class: "buttons" }, pauseButton(one, refresh), termsButton(one, refresh)) },
  ];
}

function byRoute(routes) {
  if (routes.length === 0) return empty(t("tenants.routes.none"));
  return table(t("tenants.routes"), [
    { label: t("route"), lead: true, cell: (one) => one.route },
    ...statColumns(),
    { label: t("tenants.why"), wide: true, cell: (one) => waitsFor(one.waitingFor) ?? h("span", { class: "quiet" }, t("tenants.nothing")) },
  ], routes);
}

function pauseButton(one, refresh) {
  const kind = one.paused ? "resume" : "pause";
  const ask = async () => {
    const done = await dialog({
      title: t(`tenants.${kind}.title`, { company: one.companyId }),
      text: t(`tenants.${kind}.text`, { n: one.queued + one.delayed }),
      fields: kind === "pause" ? [{ name: "reason", label: t("reason"), required: true, maxlength: 1000, hint: t("reason.hint") }] : [],
      confirm: t(`tenants.${kind}`),
      danger: kind === "pause",
      run: ({ reason }) => act("PUT", path`/v1/tenants/${one.companyId}`, { paused: !one.paused, reason }),
    });
    if (done) say(t(`tenants.${kind}.done`, { company: one.companyId }));
    refresh();
  };
  return h("button", { type: "button", class: kind === "pause" ? "danger" : "primary", data: { focus: `pause ${one.companyId}` }, on: { click: ask } }, t(`tenants.${kind}`));
}

function termsButton(one, refresh) {
  const ask = async () => {
    const done = await dialog({
      title: t("tenants.terms.title", { company: one.companyId }),
      fields: [
        { name: "weight", label: t("tenants.weight"), type: "number", min: 1, max: 100, step: 1, value: String(one.weight), required: true, hint: t("tenants.weight.hint") },
        { name: "maxPerMinute", label: t("tenants.max"), type: "number", min: 1, step: 1, value: one.maxPerMinute === undefined ? "" : String(one.maxPerMinute), hint: t("tenants.max.hint") },
      ],
      confirm: t("save"),
      run: ({ weight, maxPerMinute }) => act("PUT", path`/v1/tenants/${one.companyId}`, { weight: Number(weight), maxPerMinute: maxPerMinute === "" ? null : Number(maxPerMinute) }),
    });
    if (done) say(t("tenants.terms.done", { company: one.companyId }));
    refresh();
  };
  return h("button", { type: "button", data: { focus: `terms ${one.companyId}` }, on: { click: ask } }, t("tenants.change"));
}
