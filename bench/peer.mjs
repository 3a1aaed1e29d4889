// Measures one figure of a peer and prints it as a line of JSON.
//
//   node peer.mjs --peer bullmq --measure drain --url redis://127.0.0.1:6379 --jobs 30000 --concurrency 200 --processes 2
//
// Each peer is a file of that name, set the way it is fastest: finished jobs are removed at once, and workers do nothing
// but deliver, if --deliver says to whom. Jobs are kept under a name of this run and removed at its end.

import { fork } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { deliverer } from './deliverers.mjs';

const BATCH_JOBS = 1000;

// Batches on their way at once.
const BATCHES_AT_ONCE = 3;

// Callers of the figure from end to end.
const CALLERS = 50;

// How often a process tells how many jobs it has done.
const TELL_MS = 10;

const { values: given } = parseArgs({
  options: {
    peer: { type: 'string' },
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
    name: { type: 'string' },
  },
});
const jobs = Number(given.jobs);
const concurrency = Number(given.concurrency);
// As short as the usual one: it is part of every key in Redis.
const name = given.name ?? `b${randomBytes(2).toString('hex')}`;
const { open } = await import(`./${given.peer}.mjs`);

const job = () => ({ id: randomUUID(), data: { script: ['ok'], text: 'x'.repeat(273) } });

async function addBatches(peer) {
  let left = Math.ceil(jobs / BATCH_JOBS);
  const caller = async () => {
    while (left-- > 0) {
      await peer.addBatch(Array.from({ length: BATCH_JOBS }, job));
    }
  };
  await Promise.all(Array.from({ length: BATCHES_AT_ONCE }, caller));
}

// Each caller waits for the answer to one job before the next.
async function addSingly(callers) {
  let left = jobs;
  await Promise.all(callers.map(async (add) => {
    while (left-- > 0) {
      await add(job());
    }
  }));
}

async function perSecond(work) {
  const started = process.hrtime.bigint();
  await work();
  return jobs / (Number(process.hrtime.bigint() - started) / 1e9);
}

// Workers in processes of their own, ready before the clock starts.
async function startWorkers() {
  const child = () => fork(fileURLToPath(import.meta.url), [
    '--peer', given.peer, '--measure', 'work', '--url', given.url, '--concurrency', given.concurrency,
    '--name', name, '--deliver', given.deliver, '--target', given.target,
  ]);
  const children = Array.from({ length: Number(given.processes) }, child);
  await Promise.all(children.map((one) => new Promise((ready) => one.once('message', ready))));
  const finished = new Promise((resolve) => {
    const counts = children.map(() => 0);
    children.forEach((one, at) => one.on('message', (count) => {
      counts[at] = count;
      if (counts.reduce((sum, each) => sum + each) >= jobs) {
        resolve();
      }
    }));
  });
  const tell = (word) => children.forEach((one) => one.send(word));
  const stop = async () => {
    const gone = children.map((one) => new Promise((resolve) => one.once('exit', resolve)));
    tell('stop');
    await Promise.all(gone);
  };
  return { start: () => tell('start'), finished, stop };
}

async function work() {
  let finished = 0;
  let told = 0;
  const peer = await open(given.url, name);
  const deliver = deliverer(given.deliver, given.target, concurrency);
  const start = await peer.worker(concurrency, deliver, () => { finished += 1; });
  process.on('message', (word) => (word === 'start' ? start() : process.exit(0)));
  process.once('disconnect', () => process.exit(0));
  process.send('ready');
  setInterval(() => {
    if (told !== finished) {
      told = finished;
      process.send(finished);
    }
  }, TELL_MS);
}

async function drain(peer) {
  await addBatches(peer);
  const workers = await startWorkers();
  const rate = await perSecond(() => {
    workers.start();
    return workers.finished;
  });
  await workers.stop();
  return rate;
}

// From the first call to the end of the last job, with workers that wait already.
async function endToEnd(peer) {
  const [workers, callers] = [await startWorkers(), await peer.callers(CALLERS)];
  workers.start();
  const rate = await perSecond(() => Promise.all([addSingly(callers), workers.finished]));
  await workers.stop();
  return rate;
}

async function memory(peer) {
  const before = await peer.usedBytes();
  await addBatches(peer);
  return (await peer.usedBytes() - before) / jobs;
}

async function measure(peer) {
  switch (given.measure) {
    case 'batch': return perSecond(() => addBatches(peer));
    case 'add': {
      const callers = await peer.callers(concurrency);
      return perSecond(() => addSingly(callers));
    }
    case 'drain': return drain(peer);
    case 'end-to-end': return endToEnd(peer);
    case 'memory': return memory(peer);
    default: throw new Error('--measure is batch, add, drain, end-to-end or memory');
  }
}

if (given.measure === 'work') {
  await work();
} else {
  const peer = await open(given.url, name);
  const value = await measure(peer);
  await peer.removeJobs();
  process.stdout.write(`${JSON.stringify({ measure: given.measure, value })}\n`);
  process.exit(0);
}
