// Replay or discard many dead letters. The server counts first, then does it at the pace asked for, a canary
// ahead of the rest; here is only the asking, and the watching.

import { act, get, offers, path, Problem } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { number, when } from "/dashboard/frame/format.js";
import { card, region, say } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { facts } from "/dashboard/parts/table.js";

/** How long an act that has ended stays in sight. */
const SHOWN_FOR_MS = 10 * 60_000;

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
    say(error.status === 0 ? t("offline") : error.message, "bad");
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

/** Those that run, with how far they are, and those that ended lately. */
export function bulkActs(page) {
  const acts = region(page, {
    load: async (signal) => ((await offers("GET /v1/replays")) ? (await get("/v1/replays", signal)).items.filter(isOfLate) : []),
    draw: (items) => items.map((one) => drawAct(one, () => acts.refresh())),
    every: 1_000,
  });
  return acts;
}

function isOfLate({ endedAt }) {
  return !endedAt || Date.now() - new Date(endedAt) < SHOWN_FOR_MS;
}

function drawAct(one, refresh) {
  const { id, state, total, done, skipped, failed, canary } = one;
  const stop = async () => {
    const asked = { title: t("bulk.stop.title"), text: t("bulk.stop.text", { n: total - done - skipped - failed }), confirm: t("bulk.stop"), danger: true };
    await dialog({ ...asked, run: () => act("DELETE", path`/v1/replays/${id}`) });
    refresh();
  };
  return card(
    [t(`bulk.${one.act}.act`), " ", chips.chip(STATES[state] ?? "plain", t(`bulk.state.${state}`))],
    h("progress", { max: Math.max(1, total), value: done + skipped + failed, "aria-label": t("progress") }),
    one.stoppedBecause && h("p", { class: "faults" }, one.stoppedBecause),
    facts([
      [t("bulk.done"), t("of", { some: done, all: total })],
      [t("bulk.skipped"), skipped > 0 && number(skipped)],
      [t("bulk.failed"), failed > 0 && number(failed)],
      [t("bulk.canary"), canary && [chips.chip(CANARIES[canary.state] ?? "plain", t(`bulk.canary.${canary.state}`)), " ", canary.jobIds.map((job) => [chips.job(job), " "]), canary.waitingFor && h("q", {}, canary.waitingFor)]],
      [t("bulk.pace"), number(one.ratePerSecond)],
      [t("bulk.by"), one.actor],
      [t("bulk.started"), when(one.startedAt)],
      [t("reason"), one.reason],
    ]),
    chosenBy(one.filter),
    one.failures.length > 0 && h("ul", { class: "faults" }, one.failures.map(({ jobId, reason }) => h("li", {}, h("code", {}, jobId), " ", reason))),
    state === "running" && h("div", { class: "buttons" }, h("button", { type: "button", class: "danger", data: { focus: `stop ${id}` }, on: { click: stop } }, t("bulk.stop"))),
  );
}
