// A route's retry curve: what its policy allows, and the waits of its newest jobs on top of it.

import { get, query } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { number, range } from "/dashboard/frame/format.js";
import { empty, region } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import { delays } from "/dashboard/parts/chart.js";

/** Jobs of a route that its waits are read from. */
const SAMPLE_JOBS = 200;

/** Waits that are drawn for one attempt. */
const SEEN_MAX = 25;

/** The delays of a policy. A first attempt that is made at once is no delay. */
export function curve({ attempts }, seen = () => []) {
  const steps = attempts.filter(({ attempt, delayMaxMs }) => attempt > 1 || delayMaxMs > 0);
  if (steps.length === 0) return empty(t("overview.curve.once"));
  const points = steps.map(({ attempt, delayMs, delayMinMs, delayMaxMs }) => ({ name: number(attempt), low: delayMinMs, usual: delayMs, high: delayMaxMs, seen: seen(attempt) }));
  const label = steps.map(({ attempt, delayMinMs, delayMaxMs }) => `${t("timeline.attempt", { n: attempt })}: ${range(delayMinMs, delayMaxMs)}`).join("; ");
  return delays(label, points, t("policies.axis"));
}

/** One route at a time, of the reader's choice: at first the busiest. */
export function retryCurve(page, busiest) {
  let chosen = null;
  const load = async (signal) => {
    const routes = (await get("/v1/routes", signal)).items;
    const wanted = chosen ?? (await busiest());
    const route = routes.find(({ name }) => name === wanted) ?? routes[0];
    if (!route) return null;
    const { items } = await get(`/v1/jobs${query({ route: route.name, limit: SAMPLE_JOBS })}`, signal);
    const waits = items.flatMap(({ attempts }) => attempts).filter((one) => one.nextRetryDelayMs !== null && one.nextRetryDelayMs !== undefined);
    return { names: routes.map(({ name }) => name), route: route.name, policy: route.policy, waits: waits.map(({ attempt, nextRetryDelayMs }) => [attempt + 1, nextRetryDelayMs]) };
  };
  const part = region(page, { load, draw, every: 15_000 });
  return part;

  function draw(found) {
    if (!found) return empty(t("policies.empty"));
    const choose = (event) => {
      chosen = event.target.value;
      part.refresh();
    };
    const seen = (attempt) => found.waits.filter(([before]) => before === attempt).slice(0, SEEN_MAX).map(([, waited]) => waited);
    return [
      h("label", { class: "inline" }, t("route"), " ", h("select", { data: { focus: "curve" }, on: { change: choose } }, found.names.map((name) => h("option", { value: name, selected: name === found.route }, name)))),
      curve(found.policy, seen),
      h("p", { class: "quiet" }, found.waits.length > 0 ? t("overview.curve.why", { n: found.waits.length }) : t("overview.curve.none")),
    ];
  }
}
