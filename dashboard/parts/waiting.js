// Why something waits, always answered.

import { h, link } from "/dashboard/frame/dom.js";
import { when } from "/dashboard/frame/format.js";
import { t } from "/dashboard/frame/words.js";

/** One sentence for what a job, a company or a provider waits for. */
export function waitsFor(waiting) {
  if (!waiting) return null;
  const { reason, why, until } = waiting;
  const known = `waits.${reason}`;
  const sentence = [t(known)];
  if (why) sentence.push(" ", h("q", {}, why));
  if (until) sentence.push(" ", h("span", { class: "until" }, t("waits.until"), " ", when(until)));
  return h("span", { class: "waits" }, sentence);
}

/** What is going on with a job, whatever state it is in: never an empty answer. */
export function whatNow(job) {
  if (job.waitingFor) return waitsFor(job.waitingFor);
  if (job.heldBy) return h("span", {}, t("now.delivering", { who: job.heldBy.workerId }), " ", when(job.heldBy.until));
  const tries = job.attempts.length;
  if (job.status === "sent") return h("span", {}, t("now.sent", { n: tries }), " ", job.endedAt && when(job.endedAt));
  if (job.status === "failed") {
    return h("span", {}, t("now.failed"), " ", link(`#/dlq/${encodeURIComponent(job.jobId)}`, t("now.failed.link")));
  }
  return h("span", {}, t(`now.${job.status}`), " ", job.endedAt && when(job.endedAt));
}
