// As much of Markdown as the runbooks use: paragraphs, numbered steps, code and links to other sections. Whatever
// else stands there stays text.

import { h, link } from "/dashboard/frame/dom.js";

/** The text below `## name`, up to the next one; `null` when there is no such section. */
export function section(markdown, name) {
  const found = markdown.split(/^## /m).find((text) => text.split("\n", 1)[0].trim() === name);
  return found === undefined ? null : found.slice(found.indexOf("\n") + 1).trim();
}

/** `toSection` says where a link to another section leads. */
export function rendered(text, toSection) {
  return text.split(/\n{2,}/).map((block) => {
    const steps = block.split("\n").filter((line) => /^\d+\. /.test(line));
    if (steps.length > 0) return h("ol", { class: "steps" }, steps.map((line) => h("li", {}, words(line.replace(/^\d+\. /, ""), toSection))));
    return h("p", {}, words(block.replaceAll("\n", " "), toSection));
  });
}

function words(text, toSection) {
  return text.split(/(`[^`]+`|\[[^\]]+\]\([^)]+\))/).map((piece) => {
    if (piece.startsWith("`")) return h("code", {}, piece.slice(1, -1));
    const [, label, target] = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(piece) ?? [];
    if (label === undefined) return piece;
    const shown = words(label, toSection);
    return target.startsWith("#") ? link(toSection(target.slice(1)), shown) : shown;
  });
}
