// bee-queue, as peer.mjs measures it.

import Queue from 'bee-queue';

import { inspect } from './redis.mjs';

// No process listens to events or keeps the jobs that it made.
const SETTINGS = { getEvents: false, sendEvents: false, storeJobs: false, removeOnSuccess: true, removeOnFailure: true };

export async function open(url, prefix) {
  const producer = new Queue('bench', { ...SETTINGS, redis: url, prefix, isWorker: false });
  await producer.ready();
  const created = ({ id, data }) => producer.createJob(data).setId(id);
  return {
    addBatch: (jobs) => producer.saveAll(jobs.map(created)),
    callers: (count) => Array(count).fill((job) => created(job).save()),
    async worker(concurrency, deliver, finished) {
      const worker = new Queue('bench', { ...SETTINGS, redis: url, prefix });
      worker.on('succeeded', finished);
      await worker.ready();
      return () => worker.process(concurrency, deliver);
    },
    ...inspect(url, prefix),
  };
}
