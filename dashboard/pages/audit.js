// The audit trail: who decided what, and who did what, in the order it happened.

import { get, path, Problem, query } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { card, empty, heading } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { filterForm, pages } from "/dashboard/parts/list.js";
import { trail } from "/dashboard/parts/timeline.js";

const PAGE_RECORDS = 100;

export function show(page) {
  const filter = filterForm("audit", page, [
    { name: "jobId", label: t("job.id") },
    { name: "companyId", label: t("company") },
    { name: "userId", label: t("user") },
  ]);
  const { jobId } = filter.values;
  const isJobOnly = Boolean(jobId) && Object.values(filter.values).filter(Boolean).length === 1;
  const search = (cursor, signal) => get(`/v1/audit${query({ ...filter.values, limit: PAGE_RECORDS, cursor })}`, signal);
  const load = isJobOnly ? (_, signal) => ofJob(jobId, signal) : search;
  const list = pages(page, load, (items) => draw(items, jobId), { every: 15_000, call: isJobOnly ? null : "GET /v1/audit" });
  return [heading(t("nav.audit"), h("p", { class: "quiet" }, t("audit.what"))), filter.element, h("p", { class: "quiet" }, t("audit.byJob")), list];
}

/** One job's trail is told by every server; a search over all of it by those that have one. */
async function ofJob(id, signal) {
  try {
    return await get(path`/v1/jobs/${id}/audit`, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return { items: [] };
    throw error;
  }
}

function draw(items, jobId) {
  if (items.length === 0) return empty(t("audit.empty"), jobId ? t("audit.empty.job") : t("audit.empty.why"));
  return card(jobId ? chips.job(jobId) : null, trail(items));
}
