// Small words with a colour. The colour never says anything that the word does not.

import { h, link } from "/dashboard/frame/dom.js";
import { word } from "/dashboard/frame/words.js";

const STATUS = {
  sent: "good", failed: "bad", retrying: "warn", parked: "parked", delivering: "active",
  queued: "plain", scheduled: "plain", cancelled: "faint", discarded: "faint",
};
const RESULT = { sent: "good", partial: "warn", failed: "bad", uncertain: "warn", lost: "warn" };
const CLASS = { TRANSIENT: "warn", PERMANENT: "bad", RATE_LIMIT: "parked", UNKNOWN: "plain" };
const BREAKER = { CLOSED: "good", HALF_OPEN: "warn", OPEN: "bad" };

export function chip(kind, text, title) {
  return h("span", { class: `chip ${kind}`, title }, text);
}

export const status = (value) => chip(STATUS[value] ?? "plain", word("status", value), value);
export const result = (value) => chip(RESULT[value] ?? "plain", word("result", value), value);
export const classified = (value) => chip(CLASS[value] ?? "plain", word("class", value), value);
export const breaker = (value) => chip(BREAKER[value] ?? "plain", word("breaker", value), value);
export const cause = (value) => chip("plain", word("cause", value), value);

export function company(id) {
  return link(`#/tenants?companyId=${encodeURIComponent(id)}`, id);
}

export function job(id, to = "jobs") {
  return link(`#/${to}/${encodeURIComponent(id)}`, h("code", { class: "id", title: id }, id));
}
