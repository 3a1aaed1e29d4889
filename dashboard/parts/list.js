// Lists that are filtered and paged. A filter is part of the address, so that it can be kept and passed on.

import { get, Problem, query } from "/dashboard/frame/api.js";
import { h } from "/dashboard/frame/dom.js";
import { region } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";

/** Names at most that a field offers. */
const OFFERED_MAX = 500;

/** What a field may offer, and where it is known from. */
const OFFERED = {
  routes: ["/v1/routes", ({ name }) => name],
  companies: [`/v1/tenants?limit=${OFFERED_MAX}`, ({ companyId }) => companyId],
};

/** Names to choose from, filled in when they have come: a field works without them. */
export async function fillWithNames(list, what, signal, chosen) {
  const [url, name] = OFFERED[what];
  try {
    const { items } = await get(url, signal);
    list.append(...items.map(name).filter((one) => one !== chosen).map((one) => h("option", { value: one }, one)));
  } catch (error) {
    if (!(error instanceof Problem) && error.name !== "AbortError") throw error;
  }
}

/**
 * The form above a list. A field has `options`, or `offers` names that are known. `shortcut` may take a search
 * elsewhere; it says whether it did.
 */
export function filterForm(name, page, fields, shortcut = () => false) {
  const values = Object.fromEntries(fields.map((field) => [field.name, page.params.get(field.name) ?? ""]));
  const isSet = Object.values(values).some(Boolean);
  const inputs = fields.map(({ name: key, label, options, offers, type = "text" }) => {
    const names = offers && h("datalist", { id: `names-${key}` });
    if (names) void fillWithNames(names, offers, page.signal);
    const given = { name: key, id: `filter-${key}`, list: names?.id, autocomplete: "off", spellcheck: "false" };
    const input = options
      ? h("select", given, options.map(([value, words]) => h("option", { value, selected: value === values[key] }, words)))
      : h("input", { type, value: values[key], ...given });
    return { key, input, row: h("label", { class: "field" }, h("span", { class: "label" }, label), input, names) };
  });
  const submit = (event) => {
    event.preventDefault();
    const wanted = Object.fromEntries(inputs.map(({ key, input }) => [key, input.value.trim()]));
    if (!shortcut(wanted)) location.hash = `#/${name}${query(wanted)}`;
  };
  const element = h(
    "form",
    { class: "filter", role: "search", on: { submit } },
    inputs.map(({ row }) => row),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, t("search")), isSet && h("a", { class: "button", href: `#/${name}` }, t("clear"))),
  );
  for (const { input } of inputs) if (input.tagName === "SELECT") input.addEventListener("change", () => element.requestSubmit());
  return { element, values, isSet };
}

/** Pages one after the other: more are added below, and all that are shown are kept fresh. */
export function pages(page, load, draw, options = {}) {
  let wanted = 1;
  const list = region(page, {
    ...options,
    load: async (signal) => {
      const items = [];
      let cursor;
      for (let at = 0; at < wanted; at += 1) {
        const answer = await load(cursor, signal);
        items.push(...answer.items);
        cursor = answer.nextCursor;
        if (!cursor) break;
      }
      return { items, more: Boolean(cursor) };
    },
    draw: ({ items, more }) => {
      const next = () => {
        wanted += 1;
        list.refresh();
      };
      return [draw(items), more && h("div", { class: "buttons" }, h("button", { type: "button", data: { focus: "more" }, on: { click: next } }, t("more")))];
    },
  });
  return list;
}
