// Dead letters: what they have in common, which ones, and what to do about many of them at once.

import { get, getWithText, offers, Problem, query } from "/dashboard/frame/api.js";
import { h, link, put } from "/dashboard/frame/dom.js";
import { number, when } from "/dashboard/frame/format.js";
import { card, empty, explained, heading, region, say } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";
import { bulk, bulkActs } from "/dashboard/parts/bulk.js";
import { barList } from "/dashboard/parts/chart.js";
import * as chips from "/dashboard/parts/chips.js";
import { filterForm, pages } from "/dashboard/parts/list.js";
import { table } from "/dashboard/parts/table.js";

const PAGE_ENTRIES = 50;
const GROUPS_SHOWN_MAX = 12;
const GROUPINGS = ["fingerprint", "lastFailureCode", "companyId", "route"];
const WITHIN_HOURS = ["1", "24", "72"];
const CHANGES = ["JobFailed", "JobReplayed", "JobDiscarded", "JobSent"];

export function show(page) {
  const fields = [
    { name: "companyId", label: t("company"), offers: "companies" },
    { name: "route", label: t("route"), offers: "routes" },
    { name: "lastFailureCode", label: t("dlq.code") },
    { name: "reason", label: t("dlq.reason.contains") },
    { name: "within", label: t("dlq.within"), options: [["", t("any")], ...WITHIN_HOURS.map((n) => [n, t("dlq.within.hours", { n: Number(n) })])] },
  ];
  const filter = filterForm("dlq", page, fields);
  const fingerprint = page.params.get("fingerprint") ?? "";
  const wanted = () => {
    const { within, ...rest } = filter.values;
    const since = within && new Date(Date.now() - Number(within) * 3_600_000).toISOString();
    return given({ ...rest, fingerprint, since });
  };
  const on = (event) => CHANGES.includes(event.type);
  const selected = new Selection();
  const list = pages(page, (cursor, signal) => get(`/v1/dlq${query({ ...wanted(), limit: PAGE_ENTRIES, cursor })}`, signal), (items) => drawList(items, selected, filter.isSet || fingerprint), { on });
  const acts = bulkActs(page);
  const refresh = () => {
    acts.refresh();
    list.refresh();
  };
  return [
    heading(t("nav.dlq"), h("p", { class: "quiet" }, t("dlq.what"))),
    filter.element,
    card(null, groupTabs(page), region(page, groups(page, filter, wanted, on))),
    fingerprint && h("p", { class: "notice" }, t("dlq.oneKind"), " ", h("code", {}, fingerprint), " ", link(`#/dlq${query(filter.values)}`, t("dlq.allKinds"))),
    actsOnMany(wanted, selected, refresh),
    acts,
    list,
  ];
}

function given(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value));
}

function address(page, changes) {
  const params = Object.fromEntries(page.params);
  return `#/dlq${query({ ...params, ...changes })}`;
}

function grouping(page) {
  const by = page.params.get("by");
  return GROUPINGS.includes(by) ? by : "fingerprint";
}

function groupTabs(page) {
  const tab = (by) => h("a", { href: address(page, { by }), "aria-current": by === grouping(page) ? "true" : null }, t(`dlq.by.${by}`));
  return h("div", { class: "tabs", role: "group", "aria-label": t("dlq.by") }, GROUPINGS.map(tab));
}

function groups(page, filter, wanted, on) {
  const by = grouping(page);
  const load = (signal) => {
    const { companyId, route, since } = wanted();
    return get(`/v1/dlq/stats${query({ by, companyId, route, since })}`, signal);
  };
  const name = ({ key, exampleReason }) => {
    if (key === null) return h("span", { class: "quiet" }, t("dlq.none"));
    const to = address(page, { [by]: key });
    return by === "companyId" || by === "route" ? link(to, key) : [link(to, exampleReason || key), " ", h("code", { class: "quiet" }, key)];
  };
  const draw = ({ total, items }) => {
    if (items.length === 0) return empty(t("dlq.empty"), filter.isSet ? t("dlq.empty.filtered") : t("dlq.empty.why"));
    return [
      barList(items.slice(0, GROUPS_SHOWN_MAX).map((group) => ({ name: name(group), value: group.count, kind: "bad" }))),
      h("p", { class: "quiet" }, t("dlq.total", { n: total, groups: number(items.length) })),
    ];
  };
  return { load, draw, on };
}

/** Ticked entries, as long as they are listed. */
class Selection {
  ids = new Set();
  changed = () => {};

  turn(id, isOn) {
    if (isOn) this.ids.add(id);
    else this.ids.delete(id);
    this.changed();
  }

  keepOnly(listed) {
    this.ids = new Set(listed.filter((id) => this.ids.has(id)));
    this.changed();
  }
}

function drawList(items, selected, isFiltered) {
  selected.keepOnly(items.filter((item) => item.state === "dead").map((item) => item.jobId));
  if (items.length === 0) return empty(t("dlq.empty"), isFiltered ? t("dlq.empty.filtered") : t("dlq.empty.why"));
  const box = (entry) => {
    const turn = (event) => selected.turn(entry.jobId, event.target.checked);
    return h("input", { type: "checkbox", checked: selected.ids.has(entry.jobId), "aria-label": t("dlq.select", { id: entry.jobId }), data: { focus: `box ${entry.jobId}` }, on: { change: turn } });
  };
  return table(t("nav.dlq"), [
    { label: t("select"), cell: (entry) => (entry.state === "dead" ? box(entry) : chips.chip("active", t("dlq.replaying"))) },
    { label: t("job.id"), lead: true, cell: (entry) => chips.job(entry.jobId, "dlq") },
    { label: t("company"), cell: (entry) => chips.company(entry.companyId) },
    { label: t("route"), cell: (entry) => entry.route },
    { label: t("dlq.why"), wide: true, cell: (entry) => h("span", { class: "clip" }, entry.lastFailureCode && h("code", {}, entry.lastFailureCode), " ", entry.lastFailureReason) },
    { label: t("dlq.cause"), cell: (entry) => chips.cause(entry.cause) },
    { label: t("attempts"), number: true, cell: (entry) => entry.failedAttempts },
    { label: t("dlq.moved"), cell: (entry) => when(entry.movedToDLQAt) },
  ], items);
}

function actsOnMany(wanted, selected, refresh) {
  const some = h("span", { class: "buttons" });
  const all = (kind) => h("button", { type: "button", class: kind === "discard" ? "danger" : null, on: { click: () => bulk(kind, wanted(), refresh) } }, t(`bulk.${kind}`));
  const ticked = (kind, style) => {
    const start = () => bulk(kind, { jobIds: [...selected.ids] }, refresh);
    return h("button", { type: "button", class: style, on: { click: start } }, t(`dlq.${kind}.selected`, { n: selected.ids.size }));
  };
  selected.changed = () => put(some, selected.ids.size > 0 && [ticked("replay", "primary"), ticked("discard", "danger")]);
  const save = (format) => h("button", { type: "button", class: "plain", on: { click: () => download(format, wanted()) } }, t("dlq.export", { format: format.toUpperCase() }));
  return h("div", { class: "buttons bulk", role: "group", "aria-label": t("bulk.title") }, some, all("replay"), all("discard"), save("csv"), save("ndjson"));
}

/** By request and not by link, for a link cannot show the token. */
async function download(format, filter) {
  try {
    if (!(await offers("GET /v1/dlq/export"))) return say(t("absent.text", { call: "GET /v1/dlq/export" }), "warn");
    const { text } = await getWithText(`/v1/dlq/export${query({ format, ...filter })}`);
    const address = URL.createObjectURL(new Blob([text], { type: format === "csv" ? "text/csv" : "application/x-ndjson" }));
    h("a", { href: address, download: `recado-dlq.${format}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    say(explained(error), "bad");
  }
}
