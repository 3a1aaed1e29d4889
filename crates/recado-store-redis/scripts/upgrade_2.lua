-- Keeps the earliest ends of life by span instead of by block, some in each call, and then writes the format. Jobs stay as
-- they are; claims give those that are there with their values. ARGV[2]: the format from now on. Answers 1, or 2 when more
-- is to be done.

local CALL_MAX, SPAN_BLOCKS = 5000, 4

local ends = call('ZRANGE', K .. 'newends', 0, CALL_MAX - 1, 'WITHSCORES')
for at = 1, #ends, 2 do
  call('ZADD', K .. 'spanends', 'LT', ends[at + 1], math.floor(tonumber(ends[at]) / SPAN_BLOCKS))
end
call('ZREMRANGEBYRANK', K .. 'newends', 0, CALL_MAX - 1)
if call('EXISTS', K .. 'newends') == 1 then
  return 2
end
local last = call('HGET', K .. 'counters', 'seq')
if last then
  call('HSET', K .. 'counters', 'moved', last)
end
call('SET', K .. 'format', ARGV[2])
return 1
