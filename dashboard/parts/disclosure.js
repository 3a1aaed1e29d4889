// What is out of the way until somebody wants it. It stays as they left it while the page keeps itself fresh.

import { h } from "/dashboard/frame/dom.js";

const opened = new Set();

/** `key` tells it from every other one, on any page. */
export function disclosure(key, summary, ...content) {
  const remember = (event) => (event.target.open ? opened.add(key) : opened.delete(key));
  return h("details", { open: opened.has(key), on: { toggle: remember } }, h("summary", { data: { focus: `open ${key}` } }, summary), ...content);
}
