-- Forgets ended jobs. ARGV: those that ended at or before this go; of those that ended at this time all go but the
-- last so many; at most so many go now. Answers whether there may be more, then the id of each that went.

local before, edge = tonumber(ARGV[1]), tonumber(ARGV[2])
local kept_at_edge, max = tonumber(ARGV[3]), tonumber(ARGV[4])
local gone, blocks = {}, {}

-- Forgets those of a time that have to go, the first jobs first.
local function forget_some(ended_at)
  local members, seqs, left = call('ZRANGEBYSCORE', K .. 'ended', ended_at, ended_at, 'LIMIT', 0, max), {}, {}
  for seq in string.gmatch(table.concat(members, ' '), '%d+') do
    seqs[#seqs + 1] = tonumber(seq)
  end
  table.sort(seqs)
  local going = tonumber(ended_at) <= before and #seqs or #seqs - kept_at_edge
  for nth, seq in ipairs(seqs) do
    local goes = #gone < max and nth <= going
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
  if not ended_at or tonumber(ended_at) > before then
    break
  end
  forget_some(ended_at)
end
if #gone < max and edge > before then
  forget_some(edge)
end
-- The newest block may still be filled.
local newest = tonumber(call('ZREVRANGE', K .. 'blocks', 0, 0)[1])
for block in pairs(blocks) do
  local is_empty = true
  for _, head in pairs(heads_in(block)) do
    is_empty = is_empty and not head
  end
  if is_empty then
    call('DEL', K .. 'trail:' .. block)
    if block ~= newest then
      call('ZREM', K .. 'blocks', block)
    end
  end
end
return { #gone == max and 1 or 0, gone }
