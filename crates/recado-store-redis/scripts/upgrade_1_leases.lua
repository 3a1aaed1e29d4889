-- Marks leases as extended: format 1 kept every lease by its job's number, as this one keeps those that were extended.
-- ARGV[2], …: numbers of jobs. A lease of format 1 has the first byte of a time where this one has '0' or '1'. Answers 1.

local FENCE_BYTES = 16

for at = 2, #ARGV do
  local held = call('HGET', K .. 'held', ARGV[at])
  local mark = held and string.sub(held, FENCE_BYTES + 1, FENCE_BYTES + 1)
  if held and mark ~= '0' and mark ~= '1' then
    call('HSET', K .. 'held', ARGV[at], string.sub(held, 1, FENCE_BYTES) .. '1' .. string.sub(held, FENCE_BYTES + 1))
  end
end
return 1
