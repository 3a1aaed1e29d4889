// A breaker's three states and the ways between them, with the one it is in.

import { h, s } from "/dashboard/frame/dom.js";
import { t, word } from "/dashboard/frame/words.js";

const WIDTH = 372;
const HEIGHT = 118;
const BOXES = { CLOSED: [8, 8], OPEN: [232, 8], HALF_OPEN: [120, 82] };
const BOX = { width: 100, height: 28 };

const ARROWS = [
  ["M108 16 H228", 168, 11, "failures", "middle"],
  ["M292 36 V102 H224", 286, 60, "reset", "end"],
  ["M220 90 H308 V40", 314, 70, "fails", "start"],
  ["M120 96 H58 V40", 64, 70, "succeeds", "start"],
];

export function breakerDiagram(state) {
  const box = ([name, [x, y]]) => s(
    "g",
    { class: `state ${name}${name === state ? " current" : ""}` },
    s("rect", { x, y, rx: 6, ...BOX }),
    s("text", { x: x + BOX.width / 2, y: y + 18, "text-anchor": "middle" }, word("breaker", name)),
  );
  const arrow = ([path, x, y, name, anchor]) => [
    s("path", { class: "arrow", d: path, "marker-end": "url(#arrow)" }),
    s("text", { class: "arrow-text", x, y, "text-anchor": anchor }, t(`arrow.${name}`)),
  ];
  return h(
    "div",
    { class: "breaker", role: "img", "aria-label": t("breaker.is", { state: word("breaker", state) }) },
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" },
      s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, s("path", { class: "arrow-head", d: "M0 0 L8 4 L0 8 z" }))),
      ARROWS.map(arrow),
      Object.entries(BOXES).map(box),
    ),
  );
}
