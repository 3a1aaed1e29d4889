// Why something waits, always answered, and in the reader's language: by the server's codes, never by its texts.
// What a person or a provider said stands beside it as they said it.

import { h, link } from "/dashboard/frame/dom.js";
import { when } from "/dashboard/frame/format.js";
import { isKnown, t } from "/dashboard/frame/words.js";

/** One sentence for what a job, a company or a provider waits for. */
export function waitsFor(waiting) {
  if (!waiting) return null;
  const { reason, code, said, why, actor, until } = waiting;
  const exact = `waits.${reason}.${code}`;
  const sentence = [t(isKnown(exact) ? exact : `waits.${reason}`)];
  const words = said ?? (code ? null : why);
  if (actor) sentence.push(" ", t("audit.by", { name: actor }));
  if (words) sentence.push(" ", h("q", {}, words));
  if (until) sentence.push(" ", h("span", { class: "until" }, t("waits.until"), " ", when(until)));
  return h("span", { class: "waits" }, sentence);
}

/** The same in a few words, for a list. */
export function waitsBriefly(waiting) {
  if (!waiting) return null;
  const { reason, said, until } = waiting;
  const isHeld = reason === "breaker" || reason === "limit";
  return h("span", { class: "clip" }, t(`waits.brief.${reason}`), said && [" · ", h("q", {}, said)], until && [isHeld ? " · " : " ", when(until)]);
}

/** What is going on with a job, whatever state it is in: never an empty answer. */
export function whatNow(job) {
  if (job.waitingFor) return waitsFor(job.waitingFor);
  if (job.heldBy) return h("span", {}, t("now.delivering", { who: job.heldBy.workerId }), " ", when(job.heldBy.until));
  if (job.archived) return h("span", {}, t("now.archived"), " ", when(job.archived.at), ". ", t("now.archived.back"), " ", h("code", {}, job.archived.bringBack));
  const tries = job.attempts.length;
  if (job.status === "sent") return h("span", {}, t("now.sent", { n: tries }), " ", job.endedAt && when(job.endedAt));
  if (job.status === "failed") {
    return h("span", {}, t("now.failed"), " ", link(`#/dlq/${encodeURIComponent(job.jobId)}`, t("now.failed.link")));
  }
  return h("span", {}, t(`now.${job.status}`), " ", job.endedAt && when(job.endedAt));
}

/** Why the server takes no work; its own words are for the log. */
export function whyNotReady({ store, reasons = [] }) {
  const known = !store ? "ready.store" : store.refusing ? "ready.refusing" : "ready.stopping";
  return [t(known), " ", h("q", { lang: "en" }, reasons.join("; "))];
}
