-- Copies entries of the audit trail into a new stream, under their places. ARGV[2], …: for each its place, the number of its
-- job or '', and the record. What was copied before is passed over. Answers 1.

local function parts(place)
  local ms, nth = string.match(place, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(nth)
end

local copied = call('XREVRANGE', K .. 'audit:upgraded', '+', '-', 'COUNT', 1)[1]
local last_ms, last_nth = parts(copied and copied[1] or '0-0')
for at = 2, #ARGV, 3 do
  local ms, nth = parts(ARGV[at])
  if nth >= ENTRIES_MAX then
    return redis.error_reply('BROKEN a millisecond of the audit trail has more records than numbers tell apart')
  end
  if ms > last_ms or (ms == last_ms and nth > last_nth) then
    call('XADD', K .. 'audit:upgraded', ARGV[at], ARGV[at + 1], ARGV[at + 2])
  end
end
return 1
