// One job: what it is, why it is where it is, every attempt, and who did what to it.

import { act, getIfAny, getWithText, path, Problem } from "/dashboard/frame/api.js";
import { h, link } from "/dashboard/frame/dom.js";
import { exactTime, when } from "/dashboard/frame/format.js";
import { part } from "/dashboard/frame/json_text.js";
import { card, empty, heading, region, say } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { shown } from "/dashboard/parts/editor.js";
import { lifeline } from "/dashboard/parts/lifeline.js";
import { facts } from "/dashboard/parts/table.js";
import { timeline, trail } from "/dashboard/parts/timeline.js";
import { whatNow } from "/dashboard/parts/waiting.js";

const WAITING = ["scheduled", "queued", "retrying", "parked"];
const KINDS = { sent: "good", failed: "bad", parked: "parked", retrying: "warn" };

export function show(page) {
  const id = page.argument;
  const isAboutIt = (event) => event.data.jobId === id;
  const whole = region(page, { load: (signal) => load(id, signal), draw: (found) => draw(found, () => whole.refresh()), every: 3_000, on: isAboutIt });
  return [heading(h("code", {}, id)), whole];
}

async function load(id, signal) {
  try {
    const { value, text } = await getWithText(path`/v1/jobs/${id}`, signal);
    const audit = await getIfAny(path`/v1/jobs/${id}/audit`, signal);
    return { job: value, audit, data: part(text, "/data"), answer: part(text, "/answer") };
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return { job: null, id };
    throw error;
  }
}

function draw({ job, audit, data, answer, id }, refresh) {
  if (!job) return empty(t("job.unknown", { id }), t("job.unknown.why"));
  const now = [KINDS[job.status] ?? "plain", null, h("p", { class: "step-head" }, chips.status(job.status), whatNow(job))];
  return [
    h("div", { class: `callout ${KINDS[job.status] ?? ""}` }, chips.status(job.status), h("div", { class: "callout-text" }, whatNow(job)), actions(job, refresh)),
    card(null, facts([
      [t("company"), chips.company(job.companyId)],
      [t("route"), job.route],
      [t("correlation"), job.correlationId && link(`#/jobs?correlationId=${encodeURIComponent(job.correlationId)}`, job.correlationId)],
      [t("user"), job.userId],
      [t("job.trace"), job.traceparent && h("code", {}, job.traceparent)],
      [t("job.priority"), job.priority],
      [t("job.enqueued"), exactTime(job.enqueuedAt)],
      [t("job.next"), job.nextAttemptAt && new Date(job.nextAttemptAt) > Date.now() && when(job.nextAttemptAt)],
      [t("job.expires"), WAITING.includes(job.status) && when(job.expiresAt)],
      [t("job.deferrals"), job.deferrals > 0 && job.deferrals],
      [t("job.replays"), job.replays > 0 && job.replays],
      [t("job.ended"), job.endedAt && exactTime(job.endedAt)],
    ])),
    h(
      "div",
      { class: "grid two apart" },
      card(t("job.timeline"), job.attempts.length > 0 && lifeline(job), timeline(job.enqueuedAt, job.attempts, audit, now)),
      h(
        "div",
        {},
        card(t("job.data"), data ? shown(data) : empty(t("job.data.gone"), t("job.data.gone.why"))),
        answer && card(t("job.answer"), shown(answer)),
        card(t("job.audit"), audit?.items.length > 0 ? trail(audit.items) : empty(t("audit.empty.job"))),
      ),
    ),
  ];
}

function actions(job, refresh) {
  if (!WAITING.includes(job.status)) return null;
  const cancel = async () => {
    const done = await dialog({
      title: t("job.cancel.title"),
      text: job.replays > 0 ? t("job.cancel.replay") : t("job.cancel.text"),
      confirm: t("job.cancel"),
      danger: true,
      run: () => act("DELETE", path`/v1/jobs/${job.jobId}`),
    });
    if (done) say(t("job.cancelled"));
    refresh();
  };
  return h("div", { class: "buttons" }, h("button", { type: "button", class: "danger", data: { focus: "cancel" }, on: { click: cancel } }, t("job.cancel")));
}
