-- The records about one job, oldest first. ARGV: its bucket and id. Answers the mark of the partition that it is in, if
-- it is not this one.

local known = call('HGET', K .. 'ids:' .. ARGV[1], ARGV[2])
if known and not tonumber(known) then
  return known
end
return known and trail_of(tonumber(known)) or {}
