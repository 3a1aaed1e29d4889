// Asks before something is done: what it touches, why, and in whose name. Faults of the server stand at their
// field, and the dialog stays open until the act is done or called off.

import { actor, keepActor, Problem } from "/dashboard/frame/api.js";
import { h, put } from "/dashboard/frame/dom.js";
import { explained } from "/dashboard/frame/page.js";
import { t } from "/dashboard/frame/words.js";

let count = 0;

/**
 * `fields`: `{name, label, value, type, hint, required, options, …attributes}`; `run` gets their values and may
 * throw a `Problem`. Resolves to what `run` returned, or `null` when it was called off.
 */
export function dialog({ title, text, content, fields = [], confirm, danger = false, nameless = false, unavoidable = false, run }) {
  const id = `dialog-${(count += 1)}`;
  const inputs = new Map(fields.map((field) => [field.name, input(field, id)]));
  if (!nameless) inputs.set(" actor", nameInput(id));
  const faults = h("div", { class: "faults", role: "alert" });
  const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, confirm);
  const leave = h("button", { type: "button" }, t("cancel"));
  const form = h(
    "form",
    { novalidate: true },
    h("h2", { id }, title),
    text && h("p", {}, text),
    content,
    [...inputs.values()].map((one) => one.row),
    faults,
    h("div", { class: "buttons" }, !unavoidable && leave, go),
  );
  const box = h("dialog", { class: ["act", danger && "danger", unavoidable && "unavoidable"].filter(Boolean).join(" "), "aria-labelledby": id }, form);

  return new Promise((resolve) => {
    let result = null;
    const submit = async (event) => {
      event.preventDefault();
      if (!check(inputs)) return;
      put(faults);
      go.disabled = true;
      try {
        if (!nameless) keepActor(inputs.get(" actor").field.value.trim());
        const values = Object.fromEntries(fields.map(({ name }) => [name, valueOf(inputs.get(name).field)]));
        result = (await run(values)) ?? true;
        box.close();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        showFaults(error, inputs, faults);
      } finally {
        go.disabled = false;
      }
    };
    form.addEventListener("submit", submit);
    leave.addEventListener("click", () => box.close());
    box.addEventListener("cancel", (event) => unavoidable && event.preventDefault());
    box.addEventListener("close", () => {
      box.remove();
      resolve(result);
    });
    document.body.append(box);
    box.showModal();
    const first = [...inputs.values()].find((one) => one.field.value === "") ?? [...inputs.values()][0];
    (first && !first.kept ? first.field : go).focus();
  });
}

function valueOf(field) {
  return field.type === "checkbox" ? field.checked : field.value.trim();
}

function input({ name, label, hint, options, multiline, type = "text", value = "", checked, ...attributes }, id) {
  const given = { id: `${id}-${name}`, name, "aria-describedby": `${id}-${name}-said`, ...attributes };
  let field;
  if (options) field = h("select", given, options.map(([key, words]) => h("option", { value: key, selected: key === value }, words)));
  else if (multiline) field = h("textarea", { rows: "3", ...given }, value);
  else field = h("input", { type, value: type === "checkbox" ? null : value, checked, ...given });
  const said = h("span", { class: "said", id: `${id}-${name}-said` }, hint);
  const row = h("label", { class: type === "checkbox" ? "field check" : "field" }, h("span", { class: "label" }, label), field, said);
  return { field, said, hint, row };
}

/** Asked once; then it is known, and can be changed. */
function nameInput(id) {
  const known = actor();
  const one = input({ name: "actor", label: t("who.label"), value: known, required: true, maxlength: 128, autocomplete: "name", hint: t("who.hint") }, id);
  if (!known) return one;
  const change = h("button", { type: "button", class: "plain" }, t("who.change"));
  const line = h("p", { class: "as" }, t("who.as", { name: known }), " ", change);
  change.addEventListener("click", () => {
    line.replaceWith(one.row);
    one.field.focus();
  });
  return { ...one, row: line, kept: true };
}

function complain(one, words) {
  one.field.setAttribute("aria-invalid", "true");
  one.said.classList.add("bad");
  put(one.said, words);
}

function check(inputs) {
  let first = null;
  for (const one of inputs.values()) {
    one.field.removeAttribute("aria-invalid");
    one.said.classList.remove("bad");
    put(one.said, one.hint);
    const { validity } = one.field;
    const blank = one.field.required && one.field.type !== "checkbox" && one.field.value.trim() === "";
    if (!blank && validity.valid) continue;
    complain(one, blank ? t("fault.blank") : one.field.validationMessage);
    first ??= one.field;
  }
  first?.focus();
  return first === null;
}

function showFaults(problem, inputs, faults) {
  const elsewhere = [];
  for (const { pointer, message } of problem.faults) {
    const name = pointer.replace(/^\//, "").split("/")[0];
    const one = pointer === "X-Recado-Actor" ? inputs.get(" actor") : inputs.get(name);
    if (one) complain(one, message);
    else elsewhere.push(`${pointer} ${message}`.trim());
  }
  if (problem.faults.length === 0) elsewhere.push(explained(problem));
  put(faults, elsewhere.map((words) => h("p", {}, words)));
}
