-- One job. ARGV: its bucket and id. Answers as views.lua says, false, or the mark of the partition that it is in, if it
-- is not this one.

local known = call('HGET', K .. 'ids:' .. ARGV[1], ARGV[2])
if known and not tonumber(known) then
  return known
end
return known and view(tonumber(known))
