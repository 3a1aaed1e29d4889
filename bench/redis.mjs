// What peers that keep their jobs in Redis share.

import IORedis from 'ioredis';

export const connect = (url) => new IORedis(url, { maxRetriesPerRequest: null });

export function inspect(url, prefix) {
  const redis = connect(url);
  return {
    // Without the buffers of connections, which keep the size of the largest call for a while.
    async usedBytes() {
      const info = await redis.info('memory');
      const figure = (name) => Number(new RegExp(`${name}:(\\d+)`).exec(info)[1]);
      return figure('used_memory') - figure('mem_clients_normal');
    },
    async removeJobs() {
      for await (const keys of redis.scanStream({ match: `${prefix}:*`, count: 1000 })) {
        if (keys.length > 0) {
          await redis.unlink(...keys);
        }
      }
    },
  };
}
