// A table on a wide screen, a card a row on a phone: each cell knows its column's name.

import { h } from "/dashboard/frame/dom.js";

/** `columns`: `{label, cell(row), number?, wide?, most?, lead?, title?}`. */
export function table(caption, columns, rows, rowAttributes = () => ({})) {
  const kind = (column) => [column.number && "number", column.wide && "wide", column.most && "most", column.lead && "lead"].filter(Boolean).join(" ") || null;
  return h(
    "table",
    {},
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: kind(column), title: column.title }, column.label)))),
    h("tbody", {}, rows.map((row) => h(
      "tr",
      rowAttributes(row),
      columns.map((column) => h("td", { class: kind(column), data: { label: column.label } }, h("div", {}, column.cell(row)))),
    ))),
  );
}

/** Names and what they are; what is absent is left out. */
export function facts(pairs, attributes = {}) {
  const there = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return h("dl", { class: "facts", ...attributes }, there.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
