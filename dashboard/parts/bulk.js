// Replay or discard many dead letters. The server counts first, then does it at the pace asked for, a canary
// ahead of the rest; here is only the asking, and the watching.

import { act, get, offers, path, Problem } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { number, when } from "/dashboard/frame/format.js";
import { explained, region, say } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { disclosure } from "/dashboard/parts/disclosure.js";
import { facts } from "/dashboard/parts/table.js";

/** Time that an ended act is still shown. */
const TOLD_FOR_MS = 60 * 60_000;

const STATES = { running: "active", done: "good", stopped: "warn", failed: "bad" };
const CANARIES = { starting: "plain", waiting: "active", delivered: "good", died: "bad" };

/** Counts, asks and starts. `after` is called when there is something new to see. */
export async function bulk(kind, filter, after) {
  const call = `/v1/dlq/${kind}`;
  try {
    if (!(await offers(`POST ${call}`))) return say(t("absent.text", { call: `POST ${call}` }), "warn");
    const { total, sample } = await act("POST", call, { filter, dryRun: true });
    if (total === 0) return say(t("bulk.none"), "warn");
    if (await confirm(kind, filter, total, sample)) after();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    say(explained(error), "bad");
  }
}

function confirm(kind, filter, total, sample) {
  const isDiscard = kind === "discard";
  const some = sample.slice(0, 3).map((entry) => h("li", {}, h("code", {}, entry.jobId), " ", h("span", { class: "quiet" }, entry.lastFailureCode, " ", entry.lastFailureReason)));
  return dialog({
    title: t(`bulk.${kind}.title`, { n: total }),
    text: t(`bulk.${kind}.text`, { n: total }),
    content: [chosenBy(filter), h("ul", { class: "sample" }, some, total > 3 && h("li", { class: "quiet" }, t("bulk.others", { n: total - 3 })))],
    fields: isDiscard ? [{ name: "reason", label: t("discard.reason"), required: true, maxlength: 1000, multiline: true }] : replayFields(total),
    confirm: t(`bulk.${kind}.go`, { n: total }),
    danger: isDiscard,
    run: ({ ratePerSecond, canary, reason }) => act("POST", `/v1/dlq/${kind}`, {
      filter,
      reason: reason || undefined,
      ratePerSecond: ratePerSecond ? Number(ratePerSecond) : undefined,
      canary: canary ? Number(canary) : undefined,
    }),
  });
}

function replayFields(total) {
  const canary = { name: "canary", label: t("bulk.canary"), type: "number", min: 1, max: 100, step: 1, value: "1", hint: t("bulk.canary.hint") };
  return [
    ...(total > 1 ? [canary] : []),
    { name: "ratePerSecond", label: t("bulk.pace"), type: "number", min: 1, max: 1000, step: 1, value: "10", hint: t("bulk.pace.hint") },
    { name: "reason", label: t("replay.note"), maxlength: 1000, multiline: true, hint: t("replay.note.hint") },
  ];
}

function chosenBy(filter) {
  const { jobIds, ...rest } = filter;
  const pairs = Object.entries(rest).map(([name, value]) => [t(`filter.${name}`), h("code", {}, value)]);
  if (jobIds) pairs.push([t("filter.jobIds"), number(jobIds.length)]);
  return pairs.length === 0 ? h("p", { class: "quiet" }, t("filter.none")) : facts(pairs);
}

/** Acts that run or ended while the page was open, with their progress; earlier ones are folded. */
export function bulkActs(page) {
  const opened = Date.now();
  const ended = ({ endedAt }) => (endedAt ? new Date(endedAt).getTime() : Infinity);
  const acts = region(page, {
    load: async (signal) => ((await offers("GET /v1/replays")) ? (await get("/v1/replays", signal)).items.filter((one) => ended(one) > Date.now() - TOLD_FOR_MS) : []),
    draw: (items) => {
      const fresh = items.filter((one) => ended(one) >= opened);
      const earlier = items.filter((one) => ended(one) < opened);
      const shown = (one) => drawAct(one, () => acts.refresh());
      return [fresh.map(shown), earlier.length > 0 && disclosure("bulk", t("bulk.earlier", { n: earlier.length }), earlier.map(shown))];
    },
    every: 1_000,
  });
  return acts;
}

/** Why it did not come to its end, by what is known of it; what a provider or a person said stands beside it. */
function whyEnded({ state, canary, stoppedBecause }) {
  if (!stoppedBecause) return null;
  const known = canary?.state === "died" ? "bulk.because.canary" : state === "failed" ? "bulk.because.failed" : "bulk.because.person";
  return h("p", { class: "faults" }, t(known), " ", h("q", { lang: "en" }, stoppedBecause));
}

function drawAct(one, refresh) {
  const { id, state, total, done, skipped, failed, canary } = one;
  const left = one.left ?? total - done - skipped - failed;
  const stop = async () => {
    const asked = { title: t("bulk.stop.title"), text: t("bulk.stop.text", { n: left }), confirm: t("bulk.stop"), danger: true };
    await dialog({ ...asked, run: () => act("DELETE", path`/v1/replays/${id}`) });
    refresh();
  };
  const more = [
    facts([
      [t("bulk.canary"), canary && [chips.chip(CANARIES[canary.state] ?? "plain", t(`bulk.canary.${canary.state}`)), " ", canary.jobIds.map((job) => [chips.job(job), " "]), canary.waitingFor && h("q", { lang: "en" }, canary.waitingFor)]],
      [t("bulk.left"), state !== "done" && left > 0 && number(left)],
      [t("bulk.skipped"), skipped > 0 && number(skipped)],
      [t("bulk.failed"), failed > 0 && number(failed)],
      [t("bulk.pace"), number(one.ratePerSecond)],
      [t("bulk.by"), one.actor],
      [t("bulk.started"), when(one.startedAt)],
      [t("reason"), one.reason],
    ]),
    chosenBy(one.filter),
    one.failures.length > 0 && h("ul", { class: "faults" }, one.failures.map(({ jobId, reason }) => h("li", {}, h("code", {}, jobId), " ", reason))),
  ];
  const isRunning = state === "running";
  return h(
    "section",
    { class: "card bulk-act" },
    h("p", { class: "step-head" }, h("strong", {}, t(`bulk.${one.act}.act`)), chips.chip(STATES[state] ?? "plain", t(`bulk.state.${state}`)), h("span", {}, t("of", { some: done, all: total })), !isRunning && one.endedAt && h("span", { class: "quiet" }, when(one.endedAt))),
    isRunning && h("progress", { max: Math.max(1, total), value: total - left, "aria-label": t("progress") }),
    whyEnded(one),
    isRunning ? more : disclosure(`bulk ${id}`, t("bulk.more"), more),
    isRunning && h("div", { class: "buttons" }, h("button", { type: "button", class: "danger", data: { focus: `stop ${id}` }, on: { click: stop } }, t("bulk.stop"))),
  );
}
