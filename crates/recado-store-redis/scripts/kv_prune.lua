-- Forgets notes whose time is over. ARGV: now, how many at most. Answers how many went.

local over = call('ZRANGEBYSCORE', K .. 'ends', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
for _, name in ipairs(over) do
  local shelf, key = string.match(name, '^([^/]+)/(.*)$')
  call('HDEL', K .. 'shelf:' .. shelf, key)
  next_version(shelf)
  call('ZREM', K .. 'ends', name)
end
return #over
