-- Jobs from a number on with all that is known of them, oldest first. ARGV: the number, and how many at most.
-- Answers for each: number, head, data, its dead letter and that one's data or twice false, and its records.

local from, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = {}
local at = block_of(from)
while #found < wanted do
  local block = tonumber(call('ZRANGEBYSCORE', K .. 'blocks', at, '+inf', 'LIMIT', 0, 1)[1])
  if not block then
    break
  end
  local heads = heads_in(block)
  for nth = 1, BLOCK_JOBS do
    local seq = block * BLOCK_JOBS + nth - 1
    if heads[nth] and seq >= from and #found < wanted then
      local head, data = find(seq)
      local letter = call('GET', K .. 'letter:' .. seq) or (call('ZSCORE', K .. 'dead', padded(seq)) and '')
      local original = letter and (call('GET', K .. 'data:' .. seq) or 'null')
      found[#found + 1] = { seq, head, data, letter, original, trail_of(seq) }
    end
  end
  at = block + 1
end
return found
