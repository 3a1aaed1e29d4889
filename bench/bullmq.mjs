// Measures BullMQ on the Redis at the given URL: one figure a run, as a line of JSON.
//
//   node bullmq.mjs --measure drain --url redis://127.0.0.1:6379 --jobs 30000 --concurrency 200 --processes 2
//
// Everything is set the way it is fastest: finished jobs are removed at once, workers do nothing but deliver (if
// --deliver says to whom), and no process listens to events. Keys begin with a prefix of this run and are removed at
// its end.

import { fork } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { Queue, Worker } from 'bullmq';
import IORedis from 'ioredis';

import { deliverer } from './deliverers.mjs';

const BATCH_JOBS = 1000;

// Bulk requests on their way at once.
const BATCHES_AT_ONCE = 3;

// How often a process tells how many jobs it has done.
const TELL_MS = 10;

const { values: given } = parseArgs({
  options: {
    measure: { type: 'string' },
    url: { type: 'string' },
    jobs: { type: 'string', default: '30000' },
    // Jobs that one process works at, or calls that wait for an answer.
    concurrency: { type: 'string', default: '100' },
    processes: { type: 'string', default: '1' },
    // What the workers do with a job: nothing, http, webhook or email, and the receiver's address.
    deliver: { type: 'string', default: 'nothing' },
    target: { type: 'string', default: '' },
    // Set for the processes that this one starts.
    prefix: { type: 'string' },
  },
});
const jobs = Number(given.jobs);
const concurrency = Number(given.concurrency);
// As short as the usual one: it is part of every job's key.
const prefix = given.prefix ?? `b${randomBytes(2).toString('hex')}`;

const connect = () => new IORedis(given.url, { maxRetriesPerRequest: null });
const payload = () => ({ script: ['ok'], text: 'x'.repeat(273) });
const settings = () => ({ jobId: randomUUID(), removeOnComplete: true, removeOnFail: true });

async function addBulk(queue, count) {
  let left = Math.ceil(count / BATCH_JOBS);
  const caller = async () => {
    while (left-- > 0) {
      const batch = Array.from({ length: BATCH_JOBS }, () => ({ name: 'job', data: payload(), opts: settings() }));
      await queue.addBulk(batch);
    }
  };
  await Promise.all(Array.from({ length: BATCHES_AT_ONCE }, caller));
}

async function addSingly(queue, count) {
  let left = count;
  const caller = async () => {
    while (left-- > 0) {
      await queue.add('job', payload(), settings());
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
}

async function perSecond(work) {
  const started = process.hrtime.bigint();
  await work();
  return jobs / (Number(process.hrtime.bigint() - started) / 1e9);
}

async function usedMemory(redis) {
  return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))[1]);
}

async function removeKeys(redis) {
  for await (const keys of redis.scanStream({ match: `${prefix}:*`, count: 1000 })) {
    if (keys.length > 0) {
      await redis.unlink(...keys);
    }
  }
}

// Starts workers in processes of their own, which are ready before the clock starts, and measures jobs a second until they
// have done all.
async function perSecondOfWorkers(begin) {
  const child = () => fork(fileURLToPath(import.meta.url), [
    '--measure', 'work', '--url', given.url, '--concurrency', given.concurrency, '--prefix', prefix,
    '--deliver', given.deliver, '--target', given.target,
  ]);
  const children = Array.from({ length: Number(given.processes) }, child);
  await Promise.all(children.map((one) => new Promise((ready) => one.once('message', ready))));
  const rate = await perSecond(async () => {
    const done = new Promise((resolve) => {
      const counts = children.map(() => 0);
      children.forEach((one, at) => one.on('message', (count) => {
        counts[at] = count;
        if (counts.reduce((sum, each) => sum + each) >= jobs) {
          resolve();
        }
      }));
    });
    await begin();
    await done;
  });
  const gone = children.map((one) => new Promise((resolve) => one.once('exit', resolve)));
  children.forEach((one) => one.send('stop'));
  await Promise.all(gone);
  return rate;
}

// The queue is full, and paused until the clock starts.
async function drain(queue) {
  await addBulk(queue, jobs);
  await queue.pause();
  return perSecondOfWorkers(() => queue.resume());
}

async function work() {
  let finished = 0;
  let told = -1;
  const deliver = deliverer(given.deliver, given.target, concurrency);
  const worker = new Worker('bench', deliver, { connection: connect(), prefix, concurrency });
  worker.on('completed', () => { finished += 1; });
  await worker.waitUntilReady();
  process.send('ready');
  const telling = setInterval(() => {
    if (told !== finished) {
      told = finished;
      process.send(finished);
    }
  }, TELL_MS);
  process.once('message', async () => {
    clearInterval(telling);
    await worker.close(true);
    process.exit(0);
  });
}

async function measure(queue, redis) {
  switch (given.measure) {
    case 'bulk': return perSecond(() => addBulk(queue, jobs));
    case 'add': return perSecond(() => addSingly(queue, jobs));
    case 'drain': return drain(queue);
    case 'flow': return perSecondOfWorkers(() => addSingly(queue, jobs));
    case 'memory': {
      const before = await usedMemory(redis);
      await addBulk(queue, jobs);
      return (await usedMemory(redis) - before) / jobs;
    }
    default: throw new Error('--measure is bulk, add, drain, flow or memory');
  }
}

if (given.measure === 'work') {
  await work();
} else {
  const redis = connect();
  const queue = new Queue('bench', { connection: connect(), prefix });
  await queue.waitUntilReady();
  const value = await measure(queue, redis);
  await removeKeys(redis);
  process.stdout.write(`${JSON.stringify({ measure: given.measure, value })}\n`);
  process.exit(0);
}
