// Providers: breaker, limits, what is parked; and the switches, each with its reason.

import { act, get, getIfAny, path, query } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { clockTime, duration, number, when } from "/dashboard/frame/format.js";
import { recent } from "/dashboard/frame/live.js";
import { card, empty, heading, region, say, stamp } from "/dashboard/frame/page.js";
import { t, word } from "/dashboard/frame/words.js";
import { breakerDiagram } from "/dashboard/parts/breaker.js";
import { gauge } from "/dashboard/parts/chart.js";
import * as chips from "/dashboard/parts/chips.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { pages } from "/dashboard/parts/list.js";
import { pausedBy } from "/dashboard/parts/pause.js";
import { facts, table } from "/dashboard/parts/table.js";
import { waitsFor } from "/dashboard/parts/waiting.js";

const HISTORY_MAX = 20;

export function show(page) {
  const only = page.params.get("name");
  const load = async (signal) => {
    const { items } = await get("/v1/providers", signal);
    return only ? items.filter((one) => one.name === only) : items;
  };
  const isBreaker = (event) => event.type.startsWith("CircuitBreaker");
  const all = region(page, { load, draw: (items) => draw(items, () => all.refresh()), every: 3_000, on: isBreaker });
  const marked = region(page, { load: (signal) => getIfAny("/v1/accounts", signal), draw: (found) => accounts(found, () => marked.refresh()), on: (event) => event.type === "token_expired" });
  const loadHolds = async (cursor, signal) => {
    const answer = await get(`/v1/holds${query({ cursor })}`, signal);
    return only ? { ...answer, items: answer.items.filter((one) => one.provider === only) } : answer;
  };
  const held = pages(page, loadHolds, (items) => holds(items, () => held.refresh()), { every: 3_000 });
  return [
    heading(t("nav.providers"), h("p", { class: "quiet" }, t("providers.what")), only && h("a", { href: "#/providers" }, t("providers.all"))),
    all,
    card(t("holds.title"), held),
    card(t("providers.history"), region(page, { load: async () => recent().filter(isBreaker).slice(-HISTORY_MAX).reverse(), draw: history, on: isBreaker })),
    card(t("accounts.title"), marked),
  ];
}

function draw(items, refresh) {
  if (items.length === 0) return empty(t("providers.empty"), t("providers.empty.why"));
  return h("div", { class: "grid providers" }, items.toSorted((a, b) => urgency(a) - urgency(b)).map((one) => provider(one, refresh)));
}

/** What needs a person comes first, what has no breaker last. */
function urgency(one) {
  if (one.state !== "CLOSED" || one.paused) return 0;
  return one.limits.breaker ? 1 : 2;
}

/** The breaker's state, unless there is none or the provider is never asked. */
function standing(one) {
  if (one.waitingFor?.reason === "route") return chips.chip("warn", t("providers.unreachable"));
  return one.limits.breaker ? chips.breaker(one.state) : chips.chip("faint", t("providers.noBreaker"));
}

function provider(one, refresh) {
  const { limits } = one;
  const { breaker } = limits;
  const kind = one.state === "OPEN" ? "bad" : one.paused ? "parked" : one.state === "HALF_OPEN" ? "warn" : "";
  return h(
    "section",
    { class: `card provider ${kind}`, data: { provider: one.name } },
    h("h2", {}, one.name, " ", standing(one), " ", one.paused && chips.chip("parked", t("paused"))),
    breaker && breakerDiagram(one.state),
    one.paused && pausedBy(one.paused),
    ["limit", "route"].includes(one.waitingFor?.reason) && h("p", { class: "waiting" }, waitsFor(one.waitingFor)),
    facts([
      [t("providers.since"), one.since && [when(one.since), one.reason && [" · ", h("q", {}, one.reason)]]],
      [t("providers.probe"), one.heldOpen ? t("providers.heldOpen") : one.nextProbeAt && when(one.nextProbeAt)],
      [t("providers.failures"), breaker && [t("of", { some: one.failuresInWindow, all: breaker.failures }), " ", t("providers.within", { time: duration(breaker.withinMs) }), gauge(one.failuresInWindow, breaker.failures, t("providers.failures"))]],
      [t("providers.running"), [t("of", { some: one.running, all: one.concurrency }), one.concurrency !== limits.concurrency && ` ${t("providers.ofMost", { n: limits.concurrency })}`, gauge(one.running, one.concurrency, t("providers.running"))]],
      [t("providers.parkedNow"), number(one.parked)],
      [t("providers.quiet"), one.quietUntil && when(one.quietUntil)],
      [t("providers.rate"), limits.rate && rate(limits.rate)],
      [t("providers.companyRate"), limits.companyRate && rate(limits.companyRate)],
      [t("providers.companyConcurrency"), limits.companyConcurrency],
      [t("providers.endpointConcurrency"), limits.endpointConcurrency],
      [t("providers.reset"), breaker && duration(breaker.resetMs)],
      [t("providers.adaptive"), limits.adaptive && t("yes")],
      [t("providers.routes"), one.routes.join(", ")],
    ]),
    switches(one, refresh),
  );
}

/** Jobs of its routes that wait: what is held back with it, besides what is yet to come. */
async function waitingFor({ routes }) {
  const { items } = await get("/v1/routes");
  return items.filter(({ name }) => routes.includes(name)).reduce((sum, { waiting }) => sum + waiting, 0);
}

const rate = ({ max, perMs }) => t("providers.ratePer", { n: max, time: duration(perMs) });

function switches(one, refresh) {
  const button = (kind, style, run, reasonNeeded = true) => {
    const ask = async () => {
      const n = style === "danger" ? await waitingFor(one) : one.parked;
      const done = await dialog({
        title: t(`providers.${kind}.title`, { name: one.name }),
        text: t(`providers.${kind}.text`, { n }),
        fields: kind === "resume" ? [] : [{ name: "reason", label: t("reason"), required: reasonNeeded, maxlength: 1000, hint: t("reason.hint") }],
        confirm: t(`providers.${kind}`),
        danger: style === "danger",
        run,
      });
      if (done) say(t(`providers.${kind}.done`, { name: one.name }));
      refresh();
    };
    return h("button", { type: "button", class: style, data: { focus: `${kind} ${one.name}` }, on: { click: ask } }, t(`providers.${kind}`));
  };
  const turn = (action) => ({ reason }) => act("POST", path`/v1/providers/${one.name}/breaker`, { action, reason });
  return h(
    "div",
    { class: "buttons" },
    one.limits.breaker && (one.state === "CLOSED" ? button("open", "danger", turn("open")) : button("close", "primary", turn("close"))),
    one.paused
      ? button("resume", "primary", () => act("POST", path`/v1/providers/${one.name}/resume`))
      : button("pause", "danger", ({ reason }) => act("POST", path`/v1/providers/${one.name}/pause`, { reason })),
  );
}

function history(events) {
  if (events.length === 0) return empty(t("providers.history.empty"), t("providers.history.empty.why"));
  return h("ol", { class: "trail" }, events.map(({ timestamp, type, data }) => h("li", {}, stamp(timestamp), h("span", { class: "trail-who" }, h("strong", {}, data.provider), " ", word("event", type)), h("span", { class: "trail-said" }, data.reason))));
}

function holds(items, refresh) {
  if (items.length === 0) return empty(t("holds.empty"), t("holds.empty.why"));
  const what = (one) => one.endpointId ?? one.host ?? one.companyId ?? one.provider;
  const lift = (one) => async () => {
    const done = await dialog({
      title: t("holds.lift.title", { what: what(one) }),
      text: t("holds.lift.text", { until: clockTime(one.until) }),
      fields: [{ name: "reason", label: t("reason"), maxlength: 1000, hint: t("reason.hint") }],
      confirm: t("holds.lift"),
      run: ({ reason }) => act("DELETE", path`/v1/holds/${one.id}`, { reason }),
    });
    if (done) say(t("holds.lift.done", { what: what(one) }));
    refresh();
  };
  return table(t("holds.title"), [
    { label: t("holds.scope"), lead: true, cell: (one) => [chips.chip("warn", t(`holds.scope.${one.scope}`)), " ", (one.endpointId ?? one.host) && h("code", {}, one.endpointId ?? one.host)] },
    { label: t("company"), cell: (one) => one.companyId && chips.company(one.companyId) },
    { label: t("provider"), cell: (one) => one.provider },
    { label: t("since"), cell: (one) => one.since && when(one.since) },
    { label: t("holds.until"), cell: (one) => when(one.until) },
    { label: t("reason"), wide: true, cell: (one) => h("q", {}, one.reason) },
    { label: t("acts"), cell: (one) => h("button", { type: "button", on: { click: lift(one) } }, t("holds.lift")) },
  ], items);
}

function accounts(found, refresh) {
  if (!found || found.items.length === 0) return empty(t("accounts.empty"), t("accounts.empty.why"));
  const clear = (one) => async () => {
    const done = await dialog({
      title: t("accounts.clear.title", { company: one.companyId, provider: one.provider }),
      text: t("accounts.clear.text"),
      confirm: t("accounts.clear"),
      run: () => act("DELETE", path`/v1/accounts/${one.provider}/${one.companyId}`),
    });
    if (done) refresh();
  };
  return table(t("accounts.title"), [
    { label: t("company"), lead: true, cell: (one) => chips.company(one.companyId) },
    { label: t("provider"), cell: (one) => one.provider },
    { label: t("status"), cell: (one) => chips.chip("warn", one.status) },
    { label: t("since"), cell: (one) => when(one.since) },
    { label: t("reason"), wide: true, cell: (one) => [one.errorCode && h("code", {}, one.errorCode), " ", one.reason] },
    { label: t("job"), cell: (one) => chips.job(one.jobId) },
    { label: t("acts"), cell: (one) => h("button", { type: "button", on: { click: clear(one) } }, t("accounts.clear")) },
  ], found.items);
}
