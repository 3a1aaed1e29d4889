// A job's life from top to bottom: each attempt, what was said, how it was judged, how long it waited then.

import { h, link } from "/dashboard/frame/dom.js";
import { duration } from "/dashboard/frame/format.js";
import { stamp } from "/dashboard/frame/page.js";
import { language, t, word } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";

function step(kind, at, ...content) {
  return h("li", { class: `step ${kind}` }, at && stamp(at), h("div", { class: "step-body" }, ...content));
}

const KINDS = { sent: "good", failed: "bad", partial: "warn", uncertain: "warn", lost: "warn" };

function attempt(one) {
  const took = Math.max(0, new Date(one.endedAt) - new Date(one.startedAt));
  const said = one.errorReason && h("p", { class: "reason" }, one.errorCode && h("code", {}, one.errorCode), " ", one.errorReason);
  const judged = (one.errorClassification || one.provider) && h(
    "p",
    { class: "judged" },
    one.errorClassification && chips.classified(one.errorClassification),
    one.rule && h("span", {}, t("timeline.rule"), " ", h("code", {}, one.rule)),
    one.blame && h("span", {}, t(`blame.${one.blame}`)),
    one.provider && h("span", {}, t("timeline.provider"), " ", link(`#/providers?name=${encodeURIComponent(one.provider)}`, one.provider)),
  );
  const recipients = (one.recipients ?? []).map((each) => h(
    "li",
    {},
    h("code", {}, each.recipient), " ", chips.result(each.result), " ",
    [each.errorCode, each.errorReason].filter(Boolean).join(" "),
  ));
  return step(
    KINDS[one.result] ?? "plain",
    one.startedAt,
    h("p", { class: "step-head" }, h("strong", {}, t("timeline.attempt", { n: one.attempt })), chips.result(one.result), h("span", { class: "quiet" }, took === 0 ? t("timeline.took.less") : t("timeline.took", { time: duration(took) }))),
    said,
    judged,
    recipients.length > 0 && h("ul", { class: "recipients" }, recipients),
    one.result === "uncertain" && h("p", { class: "quiet" }, t("timeline.uncertain")),
    one.result === "lost" && h("p", { class: "quiet" }, t("timeline.lost")),
  );
}

function wait(one) {
  if (one.nextRetryDelayMs === null || one.nextRetryDelayMs === undefined) return null;
  return h("li", { class: "step gap" }, h("span", { class: "quiet" }, t("timeline.wait", { time: duration(one.nextRetryDelayMs) })));
}

/** Acts on a job, from its audit trail, without what its attempts show already. */
function acts(audit) {
  const done = (audit?.items ?? []).filter(({ event }) => ACTS.includes(event));
  return done.map((item) => ({ at: item.timestamp, shown: step("active", item.timestamp, h("p", { class: "step-head" }, h("strong", {}, word("audit", item.event)), item.actor && t("audit.by", { name: item.actor })), item.retryReason && h("p", { class: "quiet" }, item.retryReason)) }));
}

const ACTS = ["REPLAYED", "CANCELLED", "DISCARDED", "LEASE_LOST", "DEAD_LETTER_ARCHIVED", "DEAD_LETTER_IMPORTED", "DEAD_LETTER_EXPIRED"];

/** `last` is what comes after all of it: `[kind, time?, …content]`. */
export function timeline(enqueuedAt, attempts, audit, last) {
  const entries = [...attempts.map((one) => ({ at: one.startedAt, shown: [attempt(one), wait(one)] })), ...acts(audit)];
  return h(
    "ol",
    { class: "timeline" },
    step("plain", enqueuedAt, h("p", { class: "step-head" }, t("timeline.accepted"))),
    entries.toSorted((a, b) => new Date(a.at) - new Date(b.at)).map(({ shown }) => shown),
    last && step(...last),
  );
}

/** Records that were made together, in the order they come. */
export function together(items) {
  const records = [];
  for (const item of items) {
    const last = records.at(-1)?.[0];
    const same = last && ["sequence", "kind", "timestamp", "jobId", "claimId", "attempt", "actor"].every((name) => last[name] === item[name]);
    if (same) records.at(-1).push(item);
    else records.push([item]);
  }
  return records;
}

/** The trail, oldest first. What was recorded together stands together. */
export function trail(items) {
  return h("ol", { class: "trail" }, together(items).map((record) => h("li", {}, stamp(record[0].timestamp), h("span", { class: "trail-who" }, whose(record[0])), h("ul", { class: "trail-said" }, record.map(recorded)))));
}

function whose({ actor, attempt }) {
  if (actor) return h("strong", {}, t("audit.by", { name: actor }));
  return attempt ? t("timeline.attempt", { n: attempt }) : null;
}

/** One step on record, and what there is to say about it. */
export function recorded(item) {
  const more = {
    BACKOFF_CALCULATED: () => t("audit.backoff", { n: item.backoffMinutes ?? 0 }),
    RETRY_SCHEDULED: () => item.nextRetryTime && stamp(item.nextRetryTime),
    RETRY_DECIDED: () => decision(item),
    BURIED: () => null,
    ERROR_ANALYSED: () => [item.errorClassification && chips.classified(item.errorClassification), " ", item.errorMessage, " ", item.rule && h("code", {}, item.rule)],
  };
  const said = more[item.event] ? more[item.event]() : (item.retryReason ?? item.errorMessage);
  return h("li", {}, h("strong", {}, word("audit", item.event)), " ", said);
}

/** A decision is Recado's own: in another language its codes are shown. */
function decision({ retryReason, shouldRetry, retryCount, errorClassification }) {
  if (language() === "en" && retryReason) return retryReason;
  if (shouldRetry) return t("audit.retry", { n: retryCount });
  return t(errorClassification === "PERMANENT" ? "audit.noRetry.permanent" : "audit.noRetry.spent");
}
