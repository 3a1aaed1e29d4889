-- Forgets ended jobs. ARGV: those that ended at or before this go, and the oldest of more than this many, at most
-- so many of them now. Answers whether there may be more, then the id of each that went.

local before, kept_max, max = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local excess = tonumber(call('HGET', K .. 'counters', 'ended') or 0) - kept_max
local gone, blocks = {}, {}

-- Forgets those that have to go of all that ended at a time, the first jobs first.
local function forget_some(ended_at)
  local members, seqs, left = call('ZRANGEBYSCORE', K .. 'ended', ended_at, ended_at, 'LIMIT', 0, max), {}, {}
  for seq in string.gmatch(table.concat(members, ' '), '%d+') do
    seqs[#seqs + 1] = tonumber(seq)
  end
  table.sort(seqs)
  for _, seq in ipairs(seqs) do
    local goes = #gone < max and (tonumber(ended_at) <= before or #gone < excess)
    local id = goes and forget(seq)
    if id then
      gone[#gone + 1] = id
      blocks[block_of(seq)] = true
    elseif not goes then
      left[#left + 1] = seq
    end
  end
  each_of('ZREM', K .. 'ended', members)
  if #left > 0 then
    call('ZADD', K .. 'ended', ended_at, table.concat(left, ' '))
  end
end

while #gone < max do
  local ended_at = call('ZRANGE', K .. 'ended', 0, 0, 'WITHSCORES')[2]
  if not ended_at or (tonumber(ended_at) > before and #gone >= excess) then
    break
  end
  forget_some(ended_at)
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
