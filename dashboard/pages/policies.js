// Routes and their policies: when each tries again, how far chance may move that, and the switch that holds it.

import { act, get, path } from "/dashboard/frame/api.js";
import { h, link } from "/dashboard/frame/dom.js";
import { duration, number, range } from "/dashboard/frame/format.js";
import { empty, heading, region, say } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import * as chips from "/dashboard/parts/chips.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { disclosure } from "/dashboard/parts/disclosure.js";
import { pausedBy } from "/dashboard/parts/pause.js";
import { curve } from "/dashboard/parts/retry_curve.js";
import { askSimulation, simulation } from "/dashboard/parts/simulation.js";
import { facts, table } from "/dashboard/parts/table.js";
import { waitsFor } from "/dashboard/parts/waiting.js";

export function show(page) {
  const only = page.params.get("route");
  const load = async (signal) => {
    const { items } = await get("/v1/routes", signal);
    return only ? items.filter((one) => one.name === only) : items;
  };
  const all = region(page, { load, draw: (items) => draw(items, () => all.refresh()), every: 5_000, on: (event) => event.type.startsWith("CircuitBreaker") });
  return [heading(t("nav.policies"), h("p", { class: "quiet" }, t("policies.what")), only && link("#/policies", t("policies.all"))), all];
}

function draw(routes, refresh) {
  if (routes.length === 0) return empty(t("policies.empty"));
  const cards = (some) => h("div", { class: "grid two" }, some.map((one) => route(one, refresh)));
  const urgency = (one) => (one.paused || one.waitingFor ? 0 : 1);
  const usable = routes.filter(isUsable).toSorted((a, b) => urgency(a) - urgency(b));
  const others = routes.filter((one) => !isUsable(one));
  if (usable.length === 0) return cards(others);
  return [cards(usable), others.length > 0 && disclosure("routes to configure", t("policies.others", { n: others.length }), cards(others))];
}

/** Something can carry its jobs out. */
const isUsable = (one) => one.waitingFor?.reason !== "route";

function route(one, refresh) {
  const { policy } = one;
  return h(
    "section",
    { class: `card route ${one.paused ? "parked" : ""}`, data: { route: one.name } },
    h("h2", {}, one.name, " ", one.paused && chips.chip("parked", t("paused"))),
    one.paused && pausedBy(one.paused),
    one.waitingFor && !one.paused && h("p", { class: "waiting" }, isUsable(one) ? waitsFor(one.waitingFor) : [t("policies.unusable"), " ", h("q", { lang: "en" }, one.waitingFor.why)]),
    facts([
      [t("policies.transport"), one.transport === "none" ? t("policies.transport.none") : h("code", {}, one.transport)],
      [t("provider"), one.providers.map((name, at) => [at > 0 && " → ", link(`#/providers?name=${encodeURIComponent(name)}`, name)])],
      [t("policies.waiting"), number(one.waiting)],
      [t("policies.timeout"), duration(one.timeoutMs)],
    ]),
    h("p", { class: "policy" }, inWords(policy)),
    curve(policy),
    disclosure(`policy ${one.name}`, t("policies.table"), table(one.name, [
      { label: t("policies.attemptNo"), number: true, cell: (step) => step.attempt },
      { label: t("policies.delay"), number: true, cell: (step) => duration(step.delayMs) },
      { label: t("policies.jitter"), number: true, cell: (step) => range(step.delayMinMs, step.delayMaxMs) },
      { label: t("policies.start"), number: true, cell: (step) => range(step.atMinMs, step.atMaxMs) },
    ], policy.attempts)),
    h("div", { class: "buttons" }, simulateButton(one, refresh), pauseButton(one, refresh)),
    simulated.has(one.name) && simulation(simulated.get(one.name)),
  );
}

/** The last simulation of each route, while this tab is open. */
const simulated = new Map();

function simulateButton(one, refresh) {
  const ask = async () => {
    const found = await askSimulation(one.name);
    if (found) simulated.set(one.name, found);
    refresh();
  };
  return h("button", { type: "button", data: { focus: `simulate ${one.name}` }, on: { click: ask } }, t("simulate.ask"));
}

/** The policy in words. */
function inWords({ baseMs, factor, capMs, scheduleMs, jitter, floorMs, ceilingMs, maxAttempts }) {
  const waits = scheduleMs
    ? t("policies.schedule", { waits: scheduleMs.map((wait) => (wait === 0 ? t("alerts.atOnce") : duration(wait))).join(", ") })
    : t("policies.exponential", { base: duration(baseMs), factor: number(factor, 2), cap: duration(capMs) });
  const parts = [t("policies.attempts", { n: maxAttempts }), waits];
  if (jitter !== "none") parts.push(t("policies.jitter.is", { jitter }));
  if (floorMs !== undefined) parts.push(t("policies.floor", { time: duration(floorMs) }));
  if (ceilingMs !== undefined) parts.push(t("policies.ceiling", { time: duration(ceilingMs) }));
  return parts.join(" · ");
}

function pauseButton(one, refresh) {
  const kind = one.paused ? "resume" : "pause";
  const ask = async () => {
    const done = await dialog({
      title: t(`routes.${kind}.title`, { name: one.name }),
      text: t(`routes.${kind}.text`, { n: one.waiting }),
      fields: kind === "pause" ? [{ name: "reason", label: t("reason"), required: true, maxlength: 1000, hint: t("reason.hint") }] : [],
      confirm: t(`providers.${kind}`),
      danger: kind === "pause",
      run: ({ reason }) => act("POST", path`/v1/routes/${one.name}/${kind}`, kind === "pause" ? { reason } : undefined),
    });
    if (done) say(t(`providers.${kind}.done`, { name: one.name }));
    refresh();
  };
  return h("button", { type: "button", class: kind === "pause" ? "danger" : "primary", data: { focus: `pause ${one.name}` }, on: { click: ask } }, t(`providers.${kind}`));
}
