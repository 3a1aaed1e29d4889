// The audit trail: who decided what, and who did what, newest first, searched by whatever is known.

import { get, query } from "/dashboard/frame/api.js";
import { h, link } from "/dashboard/frame/dom.js";
import { exactTime } from "/dashboard/frame/format.js";
import { empty, heading, stamp } from "/dashboard/frame/page.js";
import { t, word } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { disclosure } from "/dashboard/parts/disclosure.js";
import { filterForm, pages } from "/dashboard/parts/list.js";
import { facts, table } from "/dashboard/parts/table.js";
import { recorded, together } from "/dashboard/parts/timeline.js";

const PAGE_RECORDS = 100;
const WITHIN_HOURS = ["1", "24", "168", "720"];

/** Kinds of records; one may stand for several steps. */
const KINDS = [
  "DELIVERED", "RETRY_SCHEDULED", "BURIED", "LEASE_LOST", "CLAIM_RETRY", "CLAIM_REFUSED", "CANCELLED", "REPLAYED", "DISCARDED",
  "DEAD_LETTER_EXPIRED", "DEAD_LETTER_ARCHIVED", "DEAD_LETTER_IMPORTED", "BULK_STARTED", "BULK_ENDED", "BREAKER_OPENED",
  "BREAKER_CLOSED", "PROVIDER_PAUSED", "PROVIDER_RESUMED", "ROUTE_PAUSED", "ROUTE_RESUMED", "TENANT_PAUSED", "TENANT_RESUMED",
  "TENANT_TERMS_SET", "HOLD_LIFTED", "PERSONAL_DATA_ERASED", "ENDPOINT_ADDED", "ENDPOINT_CHANGED", "ENDPOINT_SECRET_ROTATED", "ENDPOINT_ENABLED",
  "ENDPOINT_DISABLED", "ENDPOINT_REMOVED", "ENDPOINT_TESTED", "ACCOUNT_MARKED", "ACCOUNT_CLEARED", "PAYLOAD_READ",
  "DEAD_LETTERS_EXPORTED", "PERSONAL_DATA_READ",
];

export function show(page) {
  const filter = filterForm("audit", page, [
    { name: "jobId", label: t("job.id") },
    { name: "companyId", label: t("company"), offers: "companies" },
    { name: "userId", label: t("user") },
    { name: "correlationId", label: t("correlation") },
    { name: "actor", label: t("audit.actor") },
    { name: "kind", label: t("audit.kind"), options: [["", t("any")], ...KINDS.map((one) => [one, word("audit", one)])] },
    { name: "within", label: t("audit.within"), options: [["", t("any")], ...WITHIN_HOURS.map((hours) => [hours, t(`audit.within.${hours}`)])] },
  ]);
  const { within, ...wanted } = filter.values;
  const load = (cursor, signal) => {
    const since = within && new Date(Date.now() - Number(within) * 3_600_000).toISOString();
    return get(`/v1/audit${query({ ...wanted, since, limit: PAGE_RECORDS, cursor })}`, signal);
  };
  const list = pages(page, load, (items) => draw(items, filter), { every: 15_000, call: "GET /v1/audit" });
  return [heading(t("nav.audit"), h("p", { class: "quiet" }, t("audit.what"))), filter.element, list];
}

function draw(items, filter) {
  if (items.length === 0) return empty(t("audit.empty"), filter.values.jobId ? t("audit.empty.job") : t(filter.isSet ? "audit.empty.filtered" : "audit.empty.why"));
  return table(t("nav.audit"), [
    { label: t("audit.when"), cell: ([first]) => stamp(first.timestamp) },
    { label: t("audit.step"), most: true, cell: (record) => [summary(record), details(record)] },
    { label: t("audit.actor"), cell: ([{ actor }]) => (actor ? h("strong", {}, actor) : h("span", { class: "quiet" }, t("audit.itself"))) },
    { label: t("audit.about"), cell: about },
  ], together(items));
}

/** What a record comes to: its outcome first, and what led to it below. */
function summary(record) {
  const step = (name) => record.find(({ event }) => event === name);
  const outcome = step("BURIED") ?? step("RETRY_SCHEDULED") ?? step("RETRY_DECIDED") ?? record[0];
  const reasons = ["RETRY_DECIDED", "ERROR_ANALYSED"].map(step).filter((one) => one && one !== outcome);
  return h("ul", { class: "trail-said" }, recorded(outcome), reasons.map(recorded));
}

function about([{ jobId, claimId, companyId, route, provider }]) {
  const other = !jobId && claimId;
  return [
    jobId && h("p", {}, chips.job(jobId)),
    other && h("p", {}, h("code", { class: "id", title: claimId }, claimId)),
    companyId && h("p", {}, chips.company(companyId)),
    route && route !== "*" && h("p", { class: "quiet" }, route),
    provider && h("p", {}, link(`#/providers?name=${encodeURIComponent(provider)}`, provider)),
  ];
}

/** The name of a record's subject: only claims go by `claimId`. */
function subjectName({ jobId, kind }) {
  return jobId ? "jobId" : kind?.startsWith("CLAIM_") ? "claimId" : "id";
}

/** The nine required fields, and where the record stands in the chain. */
function details(record) {
  const [first] = record;
  const field = (name) => record.find((item) => item[name] !== null && item[name] !== undefined)?.[name];
  const retries = field("shouldRetry");
  const key = [first.sequence ?? first.timestamp, first.claimId, first.event].join(" ");
  return disclosure(`audit ${key}`, t("audit.details"), facts([
    ["timestamp", exactTime(first.timestamp)],
    [subjectName(first), field("claimId")],
    ["errorMessage", field("errorMessage")],
    ["retryCount", field("retryCount")],
    ["errorClassification", field("errorClassification")],
    ["backoffMinutes", field("backoffMinutes")],
    ["nextRetryTime", field("nextRetryTime") && exactTime(field("nextRetryTime"))],
    ["shouldRetry", retries !== undefined && String(retries)],
    ["retryReason", field("retryReason")],
    ["userId", field("userId")],
    ["correlationId", field("correlationId")],
    ["recordedAt", first.recordedAt && exactTime(first.recordedAt)],
    ["sequence", first.sequence],
    ["hash", first.hash && h("code", {}, first.hash)],
    ["erasedBy", first.erasedBy],
  ]));
}
