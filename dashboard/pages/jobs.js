// Jobs, searched by id, company, correlation, route and status.

import { get, query } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { when } from "/dashboard/frame/format.js";
import { empty, heading } from "/dashboard/frame/page.js";
import { t, word } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { filterForm, pages } from "/dashboard/parts/list.js";
import { table } from "/dashboard/parts/table.js";
import { waitsBriefly } from "/dashboard/parts/waiting.js";

const STATUSES = ["scheduled", "queued", "delivering", "retrying", "parked", "sent", "failed", "cancelled", "discarded"];
const PAGE_JOBS = 50;

export function show(page) {
  const fields = [
    { name: "jobId", label: t("job.id") },
    { name: "companyId", label: t("company"), offers: "companies" },
    { name: "correlationId", label: t("correlation") },
    { name: "route", label: t("route"), offers: "routes" },
    { name: "status", label: t("status"), options: [["", t("any")], ...STATUSES.map((one) => [one, word("status", one)])] },
  ];
  const filter = filterForm("jobs", page, fields, ({ jobId }) => {
    if (jobId) location.hash = `#/jobs/${encodeURIComponent(jobId)}`;
    return Boolean(jobId);
  });
  const list = pages(page, (cursor, signal) => get(`/v1/jobs${query({ ...filter.values, jobId: null, limit: PAGE_JOBS, cursor })}`, signal), draw);
  return [heading(t("nav.jobs")), filter.element, list];

  function draw(items) {
    if (items.length === 0) return empty(t("jobs.empty"), filter.isSet ? t("jobs.empty.filtered") : t("jobs.empty.why"));
    return table(t("nav.jobs"), columns(), items);
  }
}

function columns() {
  const last = (job) => job.attempts.at(-1);
  return [
    { label: t("job.id"), lead: true, cell: (job) => chips.job(job.jobId) },
    { label: t("status"), cell: (job) => chips.status(job.status) },
    { label: t("route"), cell: (job) => job.route },
    { label: t("company"), cell: (job) => chips.company(job.companyId) },
    { label: t("attempts"), number: true, cell: (job) => job.attempts.length },
    { label: t("job.enqueued"), cell: (job) => when(job.enqueuedAt) },
    { label: t("job.what"), wide: true, cell: (job) => waitsBriefly(job.waitingFor) ?? h("span", { class: "quiet clip" }, last(job)?.errorReason ?? "") },
  ];
}
