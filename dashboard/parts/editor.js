// JSON to look at, and JSON to correct: line numbers, the place of each fault, and the text exactly as written.

import { h, put } from "/dashboard/frame/dom.js";
import { faultOf, lineOf, locate, pretty } from "/dashboard/frame/json_text.js";
import { t } from "/dashboard/frame/words.js";

/** Text shown of a payload before all of it is asked for. */
const SHOWN_MAX_CHARS = 20_000;

/** JSON to read. */
export function shown(text) {
  const whole = pretty(text);
  const code = h("code", {}, whole.slice(0, SHOWN_MAX_CHARS));
  const box = h("pre", { class: "json", tabindex: "0", "aria-label": t("json.read") }, code);
  if (whole.length <= SHOWN_MAX_CHARS) return box;
  const all = h("button", { type: "button" }, t("json.all", { n: whole.length }));
  all.addEventListener("click", () => {
    put(code, whole);
    all.remove();
  });
  return h("div", {}, box, all);
}

/** JSON to correct. `value()` is `null` while it is not JSON, and `changed()` says whether it is other JSON. */
export function editor(original, label) {
  const start = pretty(original);
  const area = h("textarea", { class: "code", wrap: "off", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": label, "aria-describedby": "editor-faults" });
  area.value = start;
  const gutter = h("div", { class: "gutter", "aria-hidden": "true" });
  const faults = h("ul", { class: "editor-faults", id: "editor-faults", "aria-live": "polite" });
  const format = h("button", { type: "button", class: "plain" }, t("json.format"));
  const restore = h("button", { type: "button", class: "plain" }, t("json.restore"));
  const bad = new Set();

  function number() {
    const lines = area.value.split("\n").length;
    put(gutter, Array.from({ length: lines }, (_, at) => h("span", { class: bad.has(at + 1) ? "bad" : null }, at + 1)));
    area.rows = Math.min(Math.max(lines + 1, 6), 30);
    gutter.scrollTop = area.scrollTop;
  }

  function show(found) {
    bad.clear();
    for (const { line } of found) bad.add(line);
    area.toggleAttribute("aria-invalid", found.length > 0);
    put(faults, found.map(({ line, start, end, name, words }) => h("li", {}, h(
      "button",
      { type: "button", class: "plain fault", on: { click: () => go(start, end) } },
      h("span", { class: "where" }, t("json.line", { n: line }), name && [" ", h("code", {}, name)]),
      " ",
      words,
    ))));
    number();
  }

  function go(from, to) {
    area.focus();
    area.setSelectionRange(from, to);
    const { line } = lineOf(area.value, from);
    area.scrollTop = (area.scrollHeight / area.value.split("\n").length) * Math.max(0, line - 4);
  }

  function check() {
    const fault = faultOf(area.value);
    if (!fault) return show([]);
    const { line, column } = lineOf(area.value, fault.at);
    show([{ line, start: fault.at, end: fault.at + 1, words: t(`json.expected.${fault.expected}`, { column }) }]);
  }

  area.addEventListener("input", check);
  area.addEventListener("scroll", () => (gutter.scrollTop = area.scrollTop));
  format.addEventListener("click", () => {
    area.value = pretty(area.value);
    check();
  });
  restore.addEventListener("click", () => {
    area.value = start;
    check();
    area.focus();
  });
  number();

  return {
    element: h("div", { class: "editor" }, h("div", { class: "editor-text" }, gutter, area), faults, h("div", { class: "buttons" }, format, restore)),
    value: () => (faultOf(area.value) ? null : area.value),
    changed: () => pretty(area.value) !== start,
    focus: () => area.focus(),
    /** The server's faults, each at its line; pointers are below `/data`. Returns those about something else. */
    refuse(given) {
      const about = given.filter(({ pointer }) => pointer === "/data" || pointer.startsWith("/data/"));
      show(about.map(({ pointer, message }) => {
        const inside = pointer.slice("/data".length);
        const { start: from, end: to } = locate(area.value, inside);
        return { line: lineOf(area.value, from).line, start: from, end: to, name: inside || "/", words: message };
      }));
      return given.filter((fault) => !about.includes(fault));
    },
  };
}
