// A job's life from top to bottom: each attempt, what was said, how it was judged, how long it waited then.

import { h } from "/dashboard/frame/dom.js";
import { duration } from "/dashboard/frame/format.js";
import { stamp } from "/dashboard/frame/page.js";
import { t, word } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";

function step(kind, at, ...content) {
  return h("li", { class: `step ${kind}` }, at && stamp(at), h("div", { class: "step-body" }, ...content));
}

const KINDS = { sent: "good", failed: "bad", partial: "warn", uncertain: "warn", lost: "warn" };

function attempt(one) {
  const took = Math.max(0, new Date(one.endedAt) - new Date(one.startedAt));
  const said = one.errorReason && h("p", { class: "reason" }, one.errorCode && h("code", {}, one.errorCode), " ", one.errorReason);
  const judged = one.errorClassification && h(
    "p",
    { class: "judged" },
    chips.classified(one.errorClassification),
    one.rule && h("span", {}, t("timeline.rule"), " ", h("code", {}, one.rule)),
    one.blame && h("span", {}, t(`blame.${one.blame}`)),
    one.provider && h("span", {}, t("timeline.provider", { name: one.provider })),
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

/** `last` is what comes after the attempts: `[kind, time?, …content]`. */
export function timeline(enqueuedAt, attempts, last) {
  return h(
    "ol",
    { class: "timeline" },
    step("plain", enqueuedAt, h("p", { class: "step-head" }, t("timeline.accepted"))),
    attempts.map((one) => [attempt(one), wait(one)]),
    last && step(...last),
  );
}

/** The trail, oldest first. What was recorded together stands together. */
export function trail(items) {
  const records = [];
  for (const item of items) {
    const last = records.at(-1)?.[0];
    const together = last && ["timestamp", "jobId", "attempt", "actor"].every((name) => last[name] === item[name]);
    if (together) records.at(-1).push(item);
    else records.push([item]);
  }
  return h("ol", { class: "trail" }, records.map((record) => h("li", {}, stamp(record[0].timestamp), h("span", { class: "trail-who" }, whose(record[0])), h("ul", { class: "trail-said" }, record.map(recorded)))));
}

function whose({ actor, attempt }) {
  if (actor) return h("strong", {}, t("audit.by", { name: actor }));
  return attempt ? t("timeline.attempt", { n: attempt }) : null;
}

function recorded(item) {
  const more = {
    BACKOFF_CALCULATED: () => t("audit.backoff", { n: item.backoffMinutes ?? 0 }),
    RETRY_SCHEDULED: () => item.nextRetryTime && stamp(item.nextRetryTime),
    RETRY_DECIDED: () => item.retryReason,
    BURIED: () => null,
    ERROR_ANALYSED: () => [item.errorClassification && chips.classified(item.errorClassification), " ", item.errorMessage, " ", item.rule && h("code", {}, item.rule)],
  };
  const said = more[item.event] ? more[item.event]() : (item.retryReason ?? item.errorMessage);
  return h("li", {}, h("strong", {}, word("audit", item.event)), " ", said);
}
