// A job's life as one line: when it was taken in, each attempt where and as long as it was, and the waits between.

import { s } from "/dashboard/frame/dom.js";
import { clockTime, duration } from "/dashboard/frame/format.js";
import { t, word } from "/dashboard/frame/words.js";
import { drawing } from "/dashboard/parts/chart.js";

const HEIGHT = 58;
const SIDE = 4;
const LINE_Y = 22;

/** No attempt is drawn narrower: it has to be seen. */
const ATTEMPT_MIN = 7;

export function lifeline({ enqueuedAt, attempts, nextAttemptAt, endedAt }) {
  const time = (iso) => new Date(iso).getTime();
  const begin = time(enqueuedAt);
  const last = Math.max(time(attempts.at(-1).endedAt), endedAt ? time(endedAt) : 0, nextAttemptAt ? time(nextAttemptAt) : 0);
  const span = Math.max(1, last - begin);
  const label = attempts.map((one) => `${t("timeline.attempt", { n: one.attempt })}: ${word("result", one.result)}, ${clockTime(one.startedAt)}`).join("; ");
  return drawing(label, HEIGHT, (width) => {
    const x = (at) => SIDE + ((at - begin) / span) * (width - 2 * SIDE - ATTEMPT_MIN);
    const attempt = (one) => {
      const from = x(time(one.startedAt));
      const title = `${t("timeline.attempt", { n: one.attempt })} · ${word("result", one.result)} · ${duration(Math.max(0, time(one.endedAt) - time(one.startedAt)))}`;
      return s("rect", { class: `life ${one.result}`, x: from, y: LINE_Y - 11, width: Math.max(ATTEMPT_MIN, x(time(one.endedAt)) - from), height: 22, rx: 2 }, s("title", {}, title));
    };
    return [
      s("line", { class: "life-line", x1: SIDE, x2: width - SIDE, y1: LINE_Y, y2: LINE_Y }),
      attempts.map(attempt),
      nextAttemptAt && s("circle", { class: "life-next", cx: x(time(nextAttemptAt)) + ATTEMPT_MIN / 2, cy: LINE_Y, r: 5 }, s("title", {}, t("job.next"))),
      s("text", { class: "tick", x: SIDE, y: HEIGHT - 8 }, clockTime(enqueuedAt)),
      s("text", { class: "tick", x: width - SIDE, y: HEIGHT - 8, "text-anchor": "end" }, t("timeline.later", { time: duration(span) })),
    ];
  });
}
