// Endpoints: where companies receive events, whether they listen, and what to do when they do not.

import { act, get, path, query } from "/dashboard/frame/api.js";
import { h, outside } from "/dashboard/frame/dom.js";
import { number, when } from "/dashboard/frame/format.js";
import { empty, explained, heading, say } from "/dashboard/frame/page.js";
import { t, word } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { filterForm, pages } from "/dashboard/parts/list.js";
import { table } from "/dashboard/parts/table.js";

/** Failures in a row at which an endpoint is switched off. */
const FAILURES_MAX = 10;

export function show(page) {
  const filter = filterForm("endpoints", page, [{ name: "companyId", label: t("company"), offers: "companies" }]);
  const load = (cursor, signal) => get(`/v1/endpoints${query({ ...filter.values, cursor })}`, signal);
  const list = pages(page, load, (items) => draw(items, filter, () => list.refresh()), { on: (event) => event.type === "EndpointDisabled" });
  const add = h("button", { type: "button", class: "primary", on: { click: () => askNew(filter.values.companyId, () => list.refresh()) } }, t("endpoints.add"));
  return [heading(t("nav.endpoints"), h("p", { class: "quiet" }, t("endpoints.what")), add), filter.element, list];
}

function draw(items, filter, refresh) {
  if (items.length === 0) return empty(t("endpoints.empty"), filter.isSet ? t("endpoints.empty.filtered") : t("endpoints.empty.why"));
  return table(t("nav.endpoints"), [
    { label: t("company"), lead: true, cell: (one) => chips.company(one.companyId) },
    { label: t("endpoints.url"), wide: true, cell: (one) => [outside(one.url), one.description && h("p", { class: "quiet" }, one.description)] },
    { label: t("endpoints.events"), cell: (one) => (one.events.length === 0 ? t("endpoints.everything") : one.events.map((kind) => word("event", kind)).join(", ")) },
    { label: t("status"), cell: (one) => [one.enabled ? chips.chip("good", t("endpoints.on")) : chips.chip("bad", t("endpoints.off")), !one.enabled && h("p", { class: "quiet" }, whyOff(one), " ", one.disabledAt && when(one.disabledAt))] },
    { label: t("endpoints.failures"), number: true, cell: (one) => t("of", { some: one.consecutiveFailures, all: FAILURES_MAX }) },
    { label: t("endpoints.since"), cell: (one) => when(one.createdAt) },
    { label: t("acts"), cell: (one) => acts(one, refresh) },
  ], items);
}

/** Too many failures, or else its own 410 or a person: the server's reason distinguishes the two. */
function whyOff({ consecutiveFailures, disabledReason }) {
  return consecutiveFailures >= FAILURES_MAX ? t("endpoints.off.failures") : [t("endpoints.off.because"), " ", h("q", { lang: "en" }, disabledReason)];
}

function acts(one, refresh) {
  const test = async (event) => {
    event.target.disabled = true;
    try {
      const answer = await act("POST", path`/v1/endpoints/${one.id}/test`);
      const why = [answer.status, answer.errorCode, answer.errorReason].filter(Boolean).join(" ");
      say(answer.ok ? t("endpoints.test.ok", { status: answer.status, ms: number(answer.tookMs ?? 0) }) : t("endpoints.test.bad", { why }), answer.ok ? "good" : "bad");
    } catch (error) {
      say(explained(error), "bad");
    }
    event.target.disabled = false;
  };
  const change = async (kind, danger, run) => {
    const done = await dialog({ title: t(`endpoints.${kind}.title`), text: t(`endpoints.${kind}.text`), content: h("p", {}, h("code", { class: "address" }, one.url)), confirm: t(`endpoints.${kind}`), danger, nameless: true, run });
    if (done) refresh();
  };
  const button = (kind, style, click) => h("button", { type: "button", class: style, data: { focus: `${kind} ${one.id}` }, on: { click } }, t(`endpoints.${kind}`));
  return h(
    "div",
    { class: "buttons" },
    button("test", null, test),
    one.enabled
      ? button("disable", "danger", () => change("disable", true, () => act("PATCH", path`/v1/endpoints/${one.id}`, { enabled: false })))
      : button("enable", "primary", () => change("enable", false, () => act("POST", path`/v1/endpoints/${one.id}/enable`))),
    button("remove", "danger", () => change("remove", true, () => act("DELETE", path`/v1/endpoints/${one.id}`))),
  );
}

async function askNew(companyId, refresh) {
  const made = await dialog({
    title: t("endpoints.add"),
    text: t("endpoints.add.text"),
    fields: [
      { name: "companyId", label: t("company"), value: companyId, required: true },
      { name: "url", label: t("endpoints.url"), type: "url", required: true, placeholder: "https://" },
      { name: "events", label: t("endpoints.events"), hint: t("endpoints.events.hint"), placeholder: "JobSent, JobFailed" },
      { name: "description", label: t("endpoints.description") },
    ],
    confirm: t("endpoints.add"),
    nameless: true,
    run: ({ companyId, url, events, description }) => act("POST", "/v1/endpoints", {
      companyId,
      url,
      events: events ? events.split(",").map((kind) => kind.trim()).filter(Boolean) : undefined,
      description: description || undefined,
    }),
  });
  if (!made) return;
  refresh();
  await dialog({
    title: t("endpoints.secret.title"),
    text: t("endpoints.secret.text"),
    content: h("p", {}, h("code", { class: "secret" }, made.secret)),
    confirm: t("endpoints.secret.kept"),
    nameless: true,
    unavoidable: true,
    run: async () => {},
  });
}
