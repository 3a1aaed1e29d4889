-- Puts the new audit trail in the place of the old one, counts the ended jobs, and writes the format. ARGV[2]: the format
-- from now on. Answers 1, or 2 when records came to the trail since it was copied.

local copy = K .. 'audit:upgraded'
if call('EXISTS', K .. 'audit') == 1 then
  if call('XLEN', K .. 'audit') ~= call('XLEN', copy) then
    return 2
  end
  local info = call('XINFO', 'STREAM', K .. 'audit')
  for at = 1, #info, 2 do
    if info[at] == 'last-generated-id' and call('EXISTS', copy) == 1 then
      call('XSETID', copy, info[at + 1])
      call('RENAME', copy, K .. 'audit')
    end
  end
end
local ended = call('ZCARD', K .. 'ended')
if ended > 0 then
  call('HSET', K .. 'counters', 'ended', ended)
end
call('SET', K .. 'format', ARGV[2])
return 1
