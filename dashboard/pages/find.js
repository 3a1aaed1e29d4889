// One box for any name: a job's id, a company, a correlation, a provider, a route. What can
// only be one thing opens at once.

import { get, getIfAny, path, Problem, query } from "/dashboard/frame/api.js";
import { h, link } from "/dashboard/frame/dom.js";
import { number } from "/dashboard/frame/format.js";
import { empty, heading, region } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";

/** Jobs of a correlation that are listed here; the rest is on their page. */
const JOBS_SHOWN_MAX = 5;

export function show(page) {
  const wanted = page.argument;
  return [heading(t("find.title"), h("code", {}, wanted)), region(page, { load: (signal) => load(wanted, signal), draw: (found) => draw(wanted, found), every: 30_000 })];
}

/** A text that cannot be a name of this kind names nothing. */
async function ifAny(url, signal) {
  try {
    return await getIfAny(url, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 422) return null;
    throw error;
  }
}

async function load(wanted, signal) {
  const same = ({ name }) => name.toLowerCase() === wanted.toLowerCase();
  const [job, company, correlated, providers, routes] = await Promise.all([
    ifAny(path`/v1/jobs/${wanted}`, signal),
    ifAny(path`/v1/tenants/${wanted}`, signal),
    ifAny(`/v1/jobs${query({ correlationId: wanted, limit: JOBS_SHOWN_MAX })}`, signal),
    get("/v1/providers", signal),
    get("/v1/routes", signal),
  ]);
  return {
    job: job && { jobId: job.jobId, status: job.status },
    company: company && { companyId: company.companyId, queued: company.queued + company.delayed, dead: company.dead },
    jobs: (correlated?.items ?? []).map(({ jobId, status }) => ({ jobId, status })),
    provider: providers.items.find(same)?.name ?? null,
    route: routes.items.find(same)?.name ?? null,
  };
}

/** Each thing that it may be: where it is, and how it stands. */
function matches(wanted, { job, company, jobs, provider, route }) {
  const correlation = `#/jobs${query({ correlationId: wanted })}`;
  return [
    job && { to: `#/jobs/${encodeURIComponent(job.jobId)}`, kind: t("job"), name: job.jobId, beside: chips.status(job.status) },
    jobs.length > 0 && { to: correlation, kind: t("correlation"), name: wanted, beside: jobs.map((one) => [chips.job(one.jobId), " ", chips.status(one.status), " "]) },
    company && { to: `#/tenants${query({ companyId: company.companyId })}`, kind: t("company"), name: company.companyId, beside: [t("find.waiting", { n: company.queued }), " · ", link(`#/dlq${query({ companyId: company.companyId })}`, t("find.dead", { n: company.dead }))] },
    provider && { to: `#/providers${query({ name: provider })}`, kind: t("provider"), name: provider },
    route && { to: `#/policies${query({ route })}`, kind: t("route"), name: route },
  ].filter(Boolean);
}

function draw(wanted, found) {
  const all = matches(wanted, found);
  if (all.length === 0) return empty(t("find.nothing", { wanted }), t("find.nothing.why"));
  if (all.length === 1) {
    // In the place of this page, so that going back leads to where the search began.
    location.replace(all[0].to);
    return null;
  }
  return [
    h("p", {}, t("find.several", { n: number(all.length) })),
    h("ul", { class: "found" }, all.map(({ to, kind, name, beside }) => h("li", { class: "card" }, h("span", { class: "quiet" }, kind), " ", link(to, h("strong", {}, name)), h("p", {}, beside)))),
  ];
}
