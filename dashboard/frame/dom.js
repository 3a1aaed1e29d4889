// Elements, made without a parser: whatever a server, a provider or a payload says becomes text and nothing
// else. There is deliberately no way here to hand over markup, and the page's policy refuses the browser's own.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `on` holds listeners, `data` data attributes; `false`, `null` and `undefined` leave out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, { on = {}, data = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [name, value] of Object.entries(data)) element.dataset[name] = value;
  for (const [name, listener] of Object.entries(on)) element.addEventListener(name, listener);
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  const wanted = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return wanted.map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/** Puts `children` in the place of whatever `element` holds. */
export function put(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** The same; the keyboard focus stays where it was. */
export function putKeepingFocus(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.dataset.focus;
  put(element, ...children);
  if (!focused) return;
  const again = key && [...element.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === key);
  // When it is gone, the keyboard goes on here and not at the top of the page.
  if (!again) element.tabIndex = -1;
  (again || element).focus({ preventScroll: true });
}

/** Text in there is selected, to copy it: not the moment to draw it anew. */
export function isBeingRead(element) {
  const selection = document.getSelection();
  return Boolean(selection && !selection.isCollapsed && element.contains(selection.anchorNode));
}

/** A link to another page of ours. */
export function link(to, ...children) {
  return h("a", { href: to, data: { focus: to } }, ...children);
}

/** An address from outside: a link only if it is one of the web, marked, and without a referrer. */
export function outside(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return h("code", { class: "address" }, address);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return h("code", { class: "address" }, address);
  return h(
    "a",
    { href: url.href, class: "address outside", rel: "noopener noreferrer external", target: "_blank" },
    address,
  );
}
