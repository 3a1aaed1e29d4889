-- Removes key-value entries whose time is over. ARGV: now, how many at most. Answers how many were removed.

local over = call('ZRANGEBYSCORE', K .. 'ends', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
for _, name in ipairs(over) do
  local namespace, key = string.match(name, '^([^/]+)/(.*)$')
  call('HDEL', K .. 'shelf:' .. namespace, key)
  next_version(namespace)
  call('ZREM', K .. 'ends', name)
end
return #over
