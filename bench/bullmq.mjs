// BullMQ, as peer.mjs measures it.

import { Queue, Worker } from 'bullmq';

import { connect, inspect } from './redis.mjs';

const settings = (id) => ({ jobId: id, removeOnComplete: true, removeOnFail: true });

export async function open(url, prefix) {
  const queue = new Queue('bench', { connection: connect(url), prefix });
  await queue.waitUntilReady();
  return {
    addBatch: (jobs) => queue.addBulk(jobs.map(({ id, data }) => ({ name: 'job', data, opts: settings(id) }))),
    callers: (count) => Array(count).fill(({ id, data }) => queue.add('job', data, settings(id))),
    async worker(concurrency, deliver, finished) {
      const worker = new Worker('bench', deliver, { connection: connect(url), prefix, concurrency, autorun: false });
      worker.on('completed', finished);
      await worker.waitUntilReady();
      return () => worker.run();
    },
    ...inspect(url, prefix),
  };
}
