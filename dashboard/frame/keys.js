// Keyboard shortcuts. Inactive while a text field has the focus, and never in place of the browser's own keys.

import { h, put } from "/dashboard/frame/dom.js";
import { t } from "/dashboard/frame/words.js";

/** After `g`, one letter for each page. */
const LETTERS = {
  o: "overview", j: "jobs", d: "dlq", p: "providers", t: "tenants", l: "policies", e: "endpoints", a: "alerts", k: "kpis",
  u: "audit",
};

/** How long `g` waits for its letter. */
const CHORD_MS = 1_500;

export function listenToKeys(pages) {
  let went = 0;
  document.addEventListener("keydown", (event) => {
    const writes = event.target.closest?.("input, textarea, select, dialog, [contenteditable]");
    if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = LETTERS[event.key];
    if (Date.now() - went < CHORD_MS && pages.includes(page)) location.hash = `#/${page}`;
    else if (event.key === "/") document.getElementById("find").focus();
    else if (event.key === "?") keysHelp();
    else if (event.key === "g") return void (went = Date.now());
    else return;
    went = 0;
    event.preventDefault();
  });
}

export function keysHelp() {
  const rows = [
    ["/", t("keys.find")],
    ["?", t("keys.help")],
    ...Object.entries(LETTERS).map(([letter, page]) => [`g ${letter}`, t(`nav.${page}`)]),
  ];
  const close = h("button", { type: "button" }, t("close"));
  const help = h("dialog", { class: "keys", "aria-labelledby": "keys-title" });
  put(
    help,
    h("h2", { id: "keys-title" }, t("keys.title")),
    h("dl", { class: "facts" }, rows.map(([keys, does]) => h(
      "div",
      {},
      h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))),
      h("dd", {}, does),
    ))),
    h("div", { class: "buttons" }, close),
  );
  close.addEventListener("click", () => help.close());
  help.addEventListener("close", () => help.remove());
  document.body.append(help);
  help.showModal();
}
