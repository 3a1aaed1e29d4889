// One dead letter: why it died, what it holds, and what to do about it: correct, replay, discard.

import { act, get, getIfAny, getWithText, path, Problem, query } from "/dashboard/frame/api.js";
import { h, link, put } from "/dashboard/frame/dom.js";
import { exactTime, when } from "/dashboard/frame/format.js";
import { part } from "/dashboard/frame/json_text.js";
import { card, empty, heading, region, say } from "/dashboard/frame/page.js";
import { language, t } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { disclosure } from "/dashboard/parts/disclosure.js";
import { editor, shown } from "/dashboard/parts/editor.js";
import { facts } from "/dashboard/parts/table.js";
import { timeline, trail } from "/dashboard/parts/timeline.js";
import { whatNow } from "/dashboard/parts/waiting.js";

export function show(page) {
  const id = page.argument;
  const about = (event) => event.data.jobId === id;
  // On its own, for it changes with every other dead letter, and the editor must not be drawn anew for that.
  const alike = region(page, { load: alikeCounter(id), draw: drawAlike, on: about });
  const whole = region(page, { load: (signal) => load(id, signal), draw: (found) => draw(id, found, alike, () => whole.refresh()), every: 3_000, on: about });
  return [heading(h("code", {}, id), link("#/dlq", t("dlq.back"))), whole];
}

async function load(id, signal) {
  const job = await getIfAny(path`/v1/jobs/${id}`, signal);
  const audit = withoutReads(await getIfAny(path`/v1/jobs/${id}/audit`, signal));
  try {
    const { value: entry, text } = await getWithText(path`/v1/dlq/${id}`, signal);
    return { entry, data: part(text, "/originalData"), corrected: part(text, "/correctedData"), job: calm(job), audit };
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return { entry: null, job: calm(job), audit, detail: error.message };
    throw error;
  }
}

/** The parts of the job that matter here: a change of any other must not redraw the editor while it is used. */
function calm(job) {
  if (!job) return null;
  const { jobId, status, waitingFor, heldBy, attempts, endedAt, archived } = job;
  return { jobId, status, waitingFor, heldBy, attempts, endedAt, archived };
}

/** The trail without reads: this page's own reads are on it, and must not draw the editor anew. */
function withoutReads(audit) {
  return audit && { ...audit, items: audit.items.filter(({ event }) => event !== "PERSONAL_DATA_READ") };
}

/** How many others failed alike. Once this one is delivered it is the others that matter, so its kind is kept. */
function alikeCounter(id) {
  let fingerprint = null;
  return async (signal) => {
    const entry = await getIfAny(path`/v1/dlq/${id}`, signal);
    fingerprint = entry?.fingerprint ?? fingerprint;
    if (!fingerprint) return null;
    const { items } = await get(`/v1/dlq/stats${query({ by: "fingerprint" })}`, signal);
    const count = items.find(({ key }) => key === fingerprint)?.count ?? 0;
    return { fingerprint, others: Math.max(0, entry ? count - 1 : count) };
  };
}

function drawAlike(found) {
  if (!found) return null;
  if (found.others === 0) return t("dead.alike.none");
  return link(`#/dlq${query({ fingerprint: found.fingerprint })}`, t("dead.alike.n", { n: found.others }));
}

function draw(id, { entry, data, corrected, job, audit, detail }, alike, refresh) {
  if (!entry) return gone(id, job, alike, detail);
  const isDead = entry.state === "dead";
  const expires = new Date(new Date(entry.movedToDLQAt).getTime() + entry.ttl).toISOString();
  const last = isDead ? ["bad", entry.movedToDLQAt, h("p", { class: "step-head" }, t("dead.buried"), chips.cause(entry.cause))] : ["active", null, h("p", { class: "step-head" }, job && whatNow(job))];
  return [
    h(
      "div",
      { class: `callout ${isDead ? "bad" : "active"}` },
      isDead ? chips.cause(entry.cause) : chips.chip("active", t("dlq.replaying")),
      h("div", { class: "callout-text" }, h("p", { class: "reason" }, entry.lastFailureCode && h("code", {}, entry.lastFailureCode), " ", entry.lastFailureReason), h("p", { class: "quiet" }, t(`cause.${entry.cause}.why`))),
    ),
    entry.advice && h("div", { class: "notice" }, language() === "pt" ? entry.advicePt : entry.advice),
    !isDead && h("div", { class: "notice" }, t("dead.replaying"), " ", job && whatNow(job), " ", link(`#/jobs/${encodeURIComponent(id)}`, t("dead.toJob"))),
    card(null, facts([
      [t("company"), chips.company(entry.companyId)],
      [t("route"), entry.route],
      [t("dead.class"), chips.classified(entry.errorClassification)],
      [t("dead.attempts"), entry.failedAttempts],
      [t("correlation"), entry.correlationId && link(`#/jobs?correlationId=${encodeURIComponent(entry.correlationId)}`, entry.correlationId)],
      [t("user"), entry.userId],
      [t("job.enqueued"), exactTime(entry.enqueuedAt)],
      [t("dlq.moved"), exactTime(entry.movedToDLQAt)],
      [t("dead.expires"), when(expires)],
      [t("dead.alike"), alike],
      [t("dead.job"), link(`#/jobs/${encodeURIComponent(id)}`, t("dead.toJob"))],
    ])),
    h(
      "div",
      { class: "grid two apart" },
      card(
        isDead ? t("dead.correct") : t("job.data"),
        isDead ? correct(id, corrected ?? data, refresh) : shown(corrected ?? data),
        corrected && disclosure(`original ${id}`, t("dead.original"), shown(data)),
      ),
      h(
        "div",
        {},
        card(t("job.timeline"), timeline(entry.enqueuedAt, entry.attempts, audit, last)),
        entry.stackTrace && card(t("dead.stack"), h("pre", { class: "stack", tabindex: "0" }, entry.stackTrace)),
        audit?.items.length > 0 && card(null, disclosure(`trail ${id}`, t("job.audit"), trail(audit.items))),
      ),
    ),
  ];
}

/** The server knows what became of it, and how an archived one is brought back. */
function gone(id, job, alike, detail) {
  if (!job) return empty(t("dead.unknown", { id }), t("dead.unknown.why"), " ", h("q", { lang: "en" }, detail));
  const isSent = job.status === "sent";
  const isExplained = isSent || job.archived;
  return h(
    "div",
    { class: `callout ${isSent ? "good" : ""}` },
    chips.status(job.status),
    h(
      "div",
      { class: "callout-text" },
      !job.archived && h("p", {}, t(isSent ? "dead.delivered" : "dead.left")),
      h("p", {}, whatNow(job)),
      !isExplained && h("p", { class: "quiet" }, h("q", { lang: "en" }, detail)),
      // The failure of an entry that is in a file is not known here.
      !job.archived && facts([[t("dead.alike"), alike]]),
    ),
    link(`#/jobs/${encodeURIComponent(id)}`, t("dead.toJob")),
  );
}

function correct(id, data, refresh) {
  const text = editor(data, t("dead.correct"));
  const faults = h("div", { class: "faults", role: "alert" });
  const replay = h("button", { type: "button", class: "primary", data: { focus: "replay" } }, t("replay"));
  const discard = h("button", { type: "button", class: "danger", data: { focus: "discard" } }, t("discard"));

  replay.addEventListener("click", async () => {
    put(faults);
    const written = text.value();
    if (written === null) return text.focus();
    const isCorrected = text.changed();
    const done = await dialog({
      title: t(isCorrected ? "replay.title.corrected" : "replay.title"),
      text: t(isCorrected ? "replay.text.corrected" : "replay.text"),
      fields: [{ name: "note", label: t("replay.note"), maxlength: 1000, multiline: true, hint: t("replay.note.hint") }],
      confirm: t("replay"),
      run: async ({ note }) => {
        // Put together as text, so that every number arrives as it was written.
        const members = [isCorrected && `"data":${written}`, note && `"note":${JSON.stringify(note)}`].filter(Boolean);
        try {
          return await act("POST", path`/v1/dlq/${id}/replay`, `{${members.join(",")}}`);
        } catch (error) {
          // Faults of the data belong to its editor: the dialog makes way for it.
          if (!(error instanceof Problem) || !error.faults.some(({ pointer }) => pointer.startsWith("/data"))) throw error;
          return { refused: error.faults };
        }
      },
    });
    if (!done) return;
    if (done.refused) {
      const elsewhere = text.refuse(done.refused);
      put(faults, h("p", {}, t("replay.refused", { n: done.refused.length })), elsewhere.map(({ pointer, message }) => h("p", {}, `${pointer} ${message}`)));
      return text.focus();
    }
    say(t("replay.started"));
    refresh();
  });

  discard.addEventListener("click", async () => {
    const done = await dialog({
      title: t("discard.title"),
      text: t("discard.text"),
      fields: [{ name: "reason", label: t("discard.reason"), required: true, maxlength: 1000, multiline: true }],
      confirm: t("discard"),
      danger: true,
      run: ({ reason }) => act("POST", path`/v1/dlq/${id}/discard`, { reason }),
    });
    if (!done) return;
    say(t("discard.done"));
    refresh();
  });

  return [h("p", { class: "quiet" }, t("dead.correct.why")), text.element, faults, h("div", { class: "buttons" }, replay, discard)];
}
