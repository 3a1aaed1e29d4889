-- Jobs below a number, newest first, block by block. ARGV: the number, and how many to look for at least.
-- Answers: where to go on or false, then for each: number, head, '1' while it is leased.

local below, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = {}
local at = block_of(below - 1)
while #found < wanted do
  local block = tonumber(call('ZREVRANGEBYSCORE', K .. 'blocks', at, '-inf', 'LIMIT', 0, 1)[1])
  if not block then
    return { false, found }
  end
  local heads = heads_in(block)
  for nth = BLOCK_JOBS, 1, -1 do
    local seq = block * BLOCK_JOBS + nth - 1
    if heads[nth] and seq < below then
      found[#found + 1] = { seq, heads[nth], tostring(call('HEXISTS', K .. 'held', seq)) }
    end
  end
  at = block - 1
end
return { (at + 1) * BLOCK_JOBS, found }
