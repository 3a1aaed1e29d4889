// Simulations of a route: what to simulate, asked in a dialog, and what came of it.

import { act } from "/dashboard/frame/api.js";
import { h, s } from "/dashboard/frame/dom.js";
import { duration, number } from "/dashboard/frame/format.js";
import { t } from "/dashboard/frame/words.js";
import { drawing, legend, roundUp } from "/dashboard/parts/chart.js";
import { dialog } from "/dashboard/parts/dialog.js";
import { table } from "/dashboard/parts/table.js";

const MINUTE = 60_000;

/** A server works on one for a minute at most. */
const PATIENCE_MS = 75_000;

/** Asks what to simulate; resolves to the simulation, or to `null` when it was called off. */
export function askSimulation(route) {
  const whole = { type: "number", inputmode: "decimal", required: true, min: 0, step: "any" };
  return dialog({
    title: t("simulate.title", { name: route }),
    text: t("simulate.what"),
    fields: [
      { name: "outages", label: t("simulate.from"), value: "10", ...whole },
      { name: "until", label: t("simulate.to"), value: "40", ...whole },
      { name: "forMs", label: t("simulate.for"), value: "120", ...whole },
      { name: "ratePerSecond", label: t("simulate.rate"), value: "50", ...whole },
      { name: "companies", label: t("simulate.companies"), value: "200", ...whole },
      { name: "against", label: t("simulate.against"), hint: t("simulate.against.hint"), maxlength: 2000 },
    ],
    confirm: t("simulate.run"),
    nameless: true,
    run: (asked) => {
      const millis = (minutes) => Math.round(Number(minutes) * MINUTE);
      const request = {
        route,
        ratePerSecond: Number(asked.ratePerSecond),
        companies: Number(asked.companies),
        forMs: millis(asked.forMs),
        outages: [{ fromMs: millis(asked.outages), toMs: millis(asked.until) }],
        against: asked.against || undefined,
      };
      return act("POST", "/v1/simulations", request, PATIENCE_MS);
    },
  });
}

/** A simulation: what to conclude, the figures, and a drawing for each policy. */
export function simulation(found) {
  const { policies } = found;
  const name = ({ name }) => t(`simulate.policy.${name}`);
  const rows = [
    ["accepted", (one) => number(one.accepted)],
    ["sent", (one) => number(one.sent)],
    ["dead", (one) => number(one.dead)],
    ["waiting", (one) => number(one.waiting)],
    ["attempts", (one) => number(one.attempts)],
    ["peak", (one) => number(one.peakRetriesPerSecond)],
    ["duplicates", (one) => number(one.duplicatesPossible)],
    ["recovered", (one) => (one.recoveredAtMs === null ? "–" : duration(one.recoveredAtMs))],
  ];
  const columns = [
    { label: t("simulate.figure"), lead: true, cell: ([figure]) => t(`simulate.${figure}`) },
    ...policies.map((one) => ({ label: name(one), number: true, cell: ([, write]) => write(one) })),
  ];
  return h(
    "div",
    { class: "simulation" },
    h("h3", {}, t("simulate.result")),
    policies.map((one) => h("p", {}, policies.length > 1 && h("strong", {}, name(one), ": "), conclusion(found, one))),
    table(t("simulate.result"), columns, rows),
    policies.map((one) => h("figure", {}, policies.length > 1 && h("figcaption", {}, name(one)), course(found, one))),
    legend([...series(), ["unwatched", t("simulate.down")]]),
  );
}

/** What to conclude from the simulation of one policy. */
function conclusion({ outages }, one) {
  const back = Math.max(...outages.map(({ toMs }) => toMs));
  const rest = one.recoveredAtMs === null ? t("simulate.unrecovered", { n: one.waiting }) : t("simulate.recoveredAfter", { time: duration(one.recoveredAtMs - back) });
  return `${one.dead === 0 ? t("simulate.dies.none") : t("simulate.dies", { n: one.dead })} ${rest}`;
}

/** The lines, by their colours: what arrived, what was sent, retries, deaths. */
const series = () => [["accepted", t("simulate.accepted")], ["sent", t("simulate.sent")], ["retried", t("simulate.retries")], ["failed", t("simulate.dead")]];

const value = { accepted: (step) => step.accepted, sent: (step) => step.sent, retried: (step) => step.retries, failed: (step) => step.dead };

/** Jobs a second over the time, with the outages as a shade. */
function course({ forMs, outages }, one) {
  const seconds = one.stepMs / 1000;
  const rates = (kind) => one.series.map((step) => value[kind](step) / seconds);
  const top = Math.max(roundUp(Math.max(...series().flatMap(([kind]) => rates(kind)))), 4);
  const label = series().map(([kind, words]) => `${words}: ${t("simulate.atMost", { n: number(Math.max(...rates(kind)), 1) })}`).join("; ");
  return drawing(label, 170, (width, height) => {
    const [left, right, above, floor] = [52, 8, 10, height - 20];
    const x = (ms) => left + (Math.min(ms, forMs) / forMs) * (width - left - right);
    const y = (rate) => floor - (rate / top) * (floor - above);
    const line = ([kind]) => s("polyline", { class: `rate ${kind}`, points: rates(kind).map((rate, at) => `${x((at + 0.5) * one.stepMs)},${y(rate)}`).join(" ") });
    return [
      outages.map(({ fromMs, toMs }) => s("rect", { class: "unwatched", x: x(fromMs), y: above, width: x(toMs) - x(fromMs), height: floor - above })),
      [0, top / 2, top].map((rate) => [
        s("line", { class: "grid", x1: left, x2: width - right, y1: y(rate), y2: y(rate) }),
        s("text", { class: "tick", x: left - 6, y: y(rate) + 4, "text-anchor": "end" }, t("simulate.perSecond", { n: number(rate, 1) })),
      ]),
      [0, 0.5, 1].map((share, at) => s("text", { class: "tick", x: x(share * forMs), y: height - 5, "text-anchor": ["start", "middle", "end"][at] }, share === 0 ? "0" : duration(share * forMs))),
      series().map(line),
    ];
  });
}
