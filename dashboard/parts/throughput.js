// What was sent, retried and given up, counted from the events that this tab has heard. A reload forgets
// nothing; times in which nobody listened are shown as such, never as zero.

import { listen, watch } from "/dashboard/frame/live.js";

const KEPT = "recado.throughput";
export const BUCKET_MS = 10_000;
export const BUCKETS = 60;

const SERIES = { JobSent: "sent", JobRetryScheduled: "retried", JobFailed: "failed" };

/** Start of a bucket → its counts. Only times in which the stream was open have one. */
let buckets = new Map();
let isLive = false;

const bucketAt = (time) => Math.floor(time / BUCKET_MS) * BUCKET_MS;

function open(start) {
  if (!buckets.has(start)) buckets.set(start, { sent: 0, retried: 0, failed: 0 });
  return buckets.get(start);
}

function tidy() {
  const oldest = bucketAt(Date.now()) - BUCKETS * BUCKET_MS;
  for (const start of buckets.keys()) if (start < oldest) buckets.delete(start);
}

/** Counts from now on, and for as long as the tab is open. */
export function rememberThroughput() {
  try {
    buckets = new Map(JSON.parse(sessionStorage.getItem(KEPT) ?? "[]"));
  } catch {
    buckets = new Map();
  }
  watch((state) => {
    isLive = state === "live";
    if (isLive) open(bucketAt(Date.now()));
  });
  listen((event) => {
    const name = SERIES[event?.type];
    if (name) open(bucketAt(Date.now()))[name] += 1;
  });
  setInterval(() => {
    if (isLive) open(bucketAt(Date.now()));
    tidy();
  }, 1_000);
  addEventListener("pagehide", () => sessionStorage.setItem(KEPT, JSON.stringify([...buckets])));
}

/** The last ten minutes; `values` is `null` where nobody listened. */
export function throughput() {
  const last = bucketAt(Date.now());
  return Array.from({ length: BUCKETS }, (_, at) => {
    const start = last - (BUCKETS - 1 - at) * BUCKET_MS;
    // A copy: a chart is drawn a moment later, and by then there may be more.
    return { at: start, values: buckets.has(start) ? { ...buckets.get(start) } : null };
  });
}

/** Deliveries a minute over the last whole minute that was listened to; `null` when there is none. */
export function sentPerMinute() {
  const whole = throughput().slice(-7, -1).filter((bucket) => bucket.values);
  if (whole.length === 0) return null;
  const sent = whole.reduce((sum, bucket) => sum + bucket.values.sent, 0);
  return (sent * 60_000) / (whole.length * BUCKET_MS);
}
