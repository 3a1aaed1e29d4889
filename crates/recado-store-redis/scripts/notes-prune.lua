-- Forgets notes whose time is over. ARGV: now, how many at most. Answers how many went.

local call, K = redis.call, KEYS[1] .. ':'
local over = call('ZRANGEBYSCORE', K .. 'ends', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
for _, name in ipairs(over) do
  local shelf, key = string.match(name, '^([^/]+)/(.*)$')
  call('HDEL', K .. 'shelf:' .. shelf, key)
  call('HSET', K .. 'shelves', shelf, call('INCR', K .. 'version'))
  call('ZREM', K .. 'ends', name)
end
return #over
