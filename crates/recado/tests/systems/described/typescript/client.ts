// Sends, reads and replays jobs with the client that `@hey-api/openapi-ts` generated from the API document. The compiler
// checks what is asked, and schemas from the same document check every answer at run time.

import { client } from './generated/client.gen';
import { enqueueJob, getJob, listDeadLetters, replayDeadLetter } from './generated/sdk.gen';
import type { JobView, Status } from './generated/types.gen';

declare const process: { argv: string[]; exitCode: number };

const PATIENCE_MS = 30_000;

client.setConfig({ baseUrl: process.argv[2] ?? '' });

function assert(holds: boolean, shown: unknown): asserts holds {
  if (!holds) throw new Error(`not as expected: ${JSON.stringify(shown, (_, value) => typeof value === 'bigint' ? `${value}` : value)}`);
}

async function send(jobId: string, script: string[]): Promise<void> {
  const body = { jobId, route: 'sandbox', companyId: 'typescript', data: { script }, ttlMs: 60_000 };
  const { data } = await enqueueJob({ body, throwOnError: true });
  assert(data.jobId === jobId && !data.duplicate, data);
}

async function once(jobId: string, status: Status): Promise<JobView> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const { data } = await getJob({ path: { jobId }, throwOnError: true });
    if (data.status === status) return data;
    assert(Date.now() < deadline, data);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function main(): Promise<void> {
  await send('typescript-1', ['503 busy', 'ok']);
  const [first, second] = (await once('typescript-1', 'sent')).attempts;
  assert(first?.blame === 'provider' && first.errorCode === '503', first);
  assert(second?.blame === null && second.errorClassification === null && second.errorCode === null, second);

  await send('typescript-2', ['550 no such user']);
  await once('typescript-2', 'failed');
  const { data: list } = await listDeadLetters({ query: { companyId: 'typescript', limit: 10 }, throwOnError: true });
  assert(list.items.length === 1 && list.items[0]?.jobId === 'typescript-2', list);
  const path = { jobId: 'typescript-2' };
  const { data: replay } = await replayDeadLetter({ path, body: { data: { script: ['ok'] } }, throwOnError: true });
  assert(replay.state === 'replaying', replay);
  assert((await once('typescript-2', 'sent')).replays === 1, replay);

  const refused = await enqueueJob({ body: { route: 'nowhere', companyId: 'typescript', data: null } });
  const problem = refused.error;
  assert(problem?.code === 'validation_failed' && problem.errors?.[0]?.pointer === '/route', problem);
  console.log('done');
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
