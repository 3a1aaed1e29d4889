// A part that is folded until it is opened. It stays open or folded while the page refreshes.

import { h } from "/dashboard/frame/dom.js";

const opened = new Set();

/** `key` is unique on all pages. */
export function disclosure(key, summary, ...content) {
  const remember = (event) => (event.target.open ? opened.add(key) : opened.delete(key));
  return h("details", { open: opened.has(key), on: { toggle: remember } }, h("summary", { data: { focus: `open ${key}` } }, summary), ...content);
}
