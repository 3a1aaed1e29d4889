// What peers that keep their jobs in Redis share.

import IORedis from 'ioredis';

export const connect = (url) => new IORedis(url, { maxRetriesPerRequest: null });

export function inspect(url, prefix) {
  const redis = connect(url);
  return {
    async usedBytes() {
      return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))[1]);
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
