-- Raises a fence. ARGV: its name and number. Answers 1, or 0 when a larger number was raised before.

local raised = tonumber(call('HGET', K .. 'fences', ARGV[1]) or 0)
if raised > tonumber(ARGV[2]) then
  return 0
end
call('HSET', K .. 'fences', ARGV[1], ARGV[2])
return 1
