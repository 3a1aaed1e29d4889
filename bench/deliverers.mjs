// What a worker of a peer does with a job: the usual library for each kind of delivery, with kept connections.

import nodemailer from 'nodemailer';
import { Webhook } from 'standardwebhooks';
import { Pool } from 'undici';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwMfKQ9r8GKYqrTw';

async function post(pool, body, headers) {
  const answer = await pool.request({
    method: 'POST', path: '/hook', body, headers: { 'content-type': 'application/json', ...headers },
  });
  await answer.body.dump();
  if (answer.statusCode >= 300) {
    throw new Error(`the receiver answered ${answer.statusCode}`);
  }
}

function http(target, connections) {
  const pool = new Pool(target, { connections });
  return ({ id, data }) => post(pool, JSON.stringify(data), { 'idempotency-key': id });
}

function webhook(target, connections) {
  const pool = new Pool(target, { connections });
  const signer = new Webhook(SECRET);
  return ({ id, data }) => {
    const [body, now] = [JSON.stringify(data), new Date()];
    return post(pool, body, {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now / 1000)),
      'webhook-signature': signer.sign(id, now, body),
    });
  };
}

function email(target, maxConnections) {
  const { hostname: host, port } = new URL(target);
  const mailer = nodemailer.createTransport({
    host, port, pool: true, maxConnections, maxMessages: Infinity, ignoreTLS: true,
  });
  return ({ data }) => mailer.sendMail({
    from: 'shop@example.com', to: 'ana@example.com', subject: 'An order', text: data.text,
  });
}

export function deliverer(kind, target, connections) {
  switch (kind) {
    case 'nothing': return async () => {};
    case 'http': return http(target, connections);
    case 'webhook': return webhook(target, connections);
    case 'email': return email(target, connections);
    default: throw new Error('--deliver is nothing, http, webhook or email');
  }
}
