-- Forgets ended jobs. ARGV: those that ended at or before this go, and the oldest of more than this many, at most
-- so many of them now. Answers whether there may be more, then the id of each that went.

local before, kept_max, max = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local excess = call('ZCARD', K .. 'ended') - kept_max
local oldest = call('ZRANGE', K .. 'ended', 0, max - 1, 'WITHSCORES')
local gone, blocks = {}, {}
for at = 1, #oldest, 2 do
  if (at - 1) / 2 >= excess and tonumber(oldest[at + 1]) > before then
    break
  end
  local seq = tonumber(oldest[at])
  gone[#gone + 1] = forget(seq)
  blocks[block_of(seq)] = true
end
-- The newest block may still be filled.
local newest = tonumber(call('ZREVRANGE', K .. 'blocks', 0, 0)[1])
for block in pairs(blocks) do
  local is_empty = true
  for _, head in pairs(heads_in(block)) do
    is_empty = is_empty and not head
  end
  if is_empty and block ~= newest then
    call('ZREM', K .. 'blocks', block)
  end
end
return { #gone == max and 1 or 0, gone }
