// The receivers of real deliveries: nginx for HTTP, Postfix's smtp-sink for e-mail. They cost little, answer at once
// and are the same for every peer.

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer, connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const READY_WITHIN_MS = 5000;

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => server.once('listening', listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

async function answers(port) {
  const socket = connect(port, '127.0.0.1');
  const answered = await new Promise((done) => {
    socket.once('connect', () => done(true));
    socket.once('error', () => done(false));
  });
  socket.destroy();
  return answered;
}

// Starts a program that listens on a port of its own, and returns when it answers.
export async function start(name, port, args) {
  const program = spawn(name, args, { stdio: 'ignore' });
  let missing;
  program.once('error', (error) => { missing = error; });
  for (let waited = 0; !(await answers(port)); waited += 20) {
    if (missing || waited > READY_WITHIN_MS) {
      throw new Error(`${name} does not start; install it (Debian: nginx-light, postfix, beanstalkd, redis-server)`);
    }
    await sleep(20);
  }
  return program;
}

export async function stop(program) {
  const gone = new Promise((exit) => program.once('exit', exit));
  program.kill();
  await gone;
}

// SES and the Evolution API want an answer of their own; everybody else only a 200.
function nginxConfig(dir, port) {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `${kind}_temp_path ${join(dir, kind)};`).join(' ');
  return `
daemon off; worker_processes 1; pid ${join(dir, 'nginx.pid')}; error_log stderr crit;
events { worker_connections 8192; }
http {
  access_log off; keepalive_requests 100000000; client_max_body_size 8m; ${temporary}
  server {
    listen 127.0.0.1:${port}; default_type application/json;
    location / { return 200 '{"ok":true}'; }
    location /v2/email/outbound-emails { return 200 '{"MessageId":"0100"}'; }
    location /message/ { return 201 '{"key":{"id":"BAE5"},"status":"PENDING"}'; }
  }
}`;
}

export async function startNginx(dir) {
  const port = await freePort();
  const file = join(dir, 'nginx.conf');
  writeFileSync(file, nginxConfig(dir, port));
  return { program: await start('nginx', port, ['-e', 'stderr', '-c', file]), url: `http://127.0.0.1:${port}` };
}

export async function startSmtpSink() {
  const port = await freePort();
  // Away from root where it may: smtp-sink refuses to run as root without a user.
  const user = process.getuid() === 0 ? ['-u', 'nobody'] : [];
  const args = [...user, `127.0.0.1:${port}`, '1000'];
  return { program: await start('smtp-sink', port, args), host: '127.0.0.1', port };
}
