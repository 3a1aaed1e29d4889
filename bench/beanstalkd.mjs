// beanstalkd, as peer.mjs measures it: a client for the few commands of its protocol that a queue needs.

import { connect } from 'node:net';

// Seconds until a reserved job runs again.
const TIME_TO_RUN_S = 60;

class Connection {
  #socket;
  #unread = '';
  #asked = [];

  static async open(url, tube) {
    const connection = new Connection();
    const { hostname, port } = new URL(url);
    connection.#socket = connect({ host: hostname, port: Number(port), noDelay: true });
    connection.#socket.setEncoding('latin1').on('data', (text) => connection.#read(text));
    const [used, watched] = connection.ask(`use ${tube}\r\nwatch ${tube}\r\n`, 2);
    await Promise.all([used, watched]);
    return connection;
  }

  // Writes commands at once, and returns a promise for the answer to each.
  ask(commands, count = 1) {
    const answers = Array.from({ length: count }, () => new Promise((resolve) => { this.#asked.push(resolve); }));
    this.#socket.write(commands);
    return answers;
  }

  #read(text) {
    this.#unread += text;
    for (;;) {
      const end = this.#unread.indexOf('\r\n');
      if (end < 0) {
        return;
      }
      const [word, id, bytes] = this.#unread.slice(0, end).split(' ');
      const next = word === 'RESERVED' ? end + 4 + Number(bytes) : end + 2;
      if (this.#unread.length < next) {
        return;
      }
      if (!['INSERTED', 'RESERVED', 'DELETED', 'USING', 'WATCHING'].includes(word)) {
        throw new Error(`beanstalkd answered ${word}`);
      }
      this.#asked.shift()({ id, body: this.#unread.slice(end + 2, next - 2) });
      this.#unread = this.#unread.slice(next);
    }
  }
}

function put({ id, data }) {
  const body = JSON.stringify({ id, data });
  return `put 0 0 ${TIME_TO_RUN_S} ${body.length}\r\n${body}\r\n`;
}

// A worker deletes a job and asks for the next one in a single write.
async function work(connection, deliver, finished) {
  let [reserved] = connection.ask('reserve\r\n');
  for (;;) {
    const { id, body } = await reserved;
    await deliver(JSON.parse(body));
    const [deleted, next] = connection.ask(`delete ${id}\r\nreserve\r\n`, 2);
    deleted.then(finished);
    reserved = next;
  }
}

export async function open(url, tube) {
  const connections = (count) => Promise.all(Array.from({ length: count }, () => Connection.open(url, tube)));
  const [filler] = await connections(1);
  return {
    addBatch: (jobs) => Promise.all(filler.ask(jobs.map(put).join(''), jobs.length)),
    callers: async (count) => (await connections(count)).map((one) => (job) => one.ask(put(job))[0]),
    async worker(concurrency, deliver, finished) {
      const workers = await connections(concurrency);
      return () => workers.forEach((one) => work(one, deliver, finished));
    },
    // Its jobs are deleted as they end, and the server ends after the run.
    removeJobs: () => {},
  };
}
