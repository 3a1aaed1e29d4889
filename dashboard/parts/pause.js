// Who paused something, since when, and why.

import { h } from "/dashboard/frame/dom.js";
import { when } from "/dashboard/frame/format.js";
import { t } from "/dashboard/frame/words.js";

export function pausedBy({ actor, since, reason }) {
  return h("p", { class: "waiting" }, actor ? t("paused.by", { name: actor }) : t("paused.since"), " ", since && when(since), reason && [": ", h("q", {}, reason)]);
}
