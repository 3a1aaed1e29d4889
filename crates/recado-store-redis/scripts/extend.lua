-- Moves the ends of leases. ARGV: the new end, then number and fence of each. Answers 1, or 0 when it is stale.

local answers = {}
for at = 2, #ARGV, 2 do
  local current = fence_of(ARGV[at])
  answers[at / 2] = current == ARGV[at + 1] and 1 or 0
  if current == ARGV[at + 1] then
    call('ZADD', K .. 'leases', ARGV[1], padded(tonumber(ARGV[at])))
  end
end
return answers
