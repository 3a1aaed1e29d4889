-- Taking jobs in. Put after lanes.lua, before every script that does.

-- The number before the first of `count` new ones. `floor` lets numbers of several partitions be compared.
local function numbers(name, count, floor)
  local last = math.max(tonumber(call('HGET', K .. 'counters', name) or 0), floor)
  call('HSET', K .. 'counters', name, last + count)
  return last
end

-- The blocks that this call adds to, the earliest end of life among its new jobs in each span, and how many came.
local blocks_added, span_ends, came = {}, {}, 0

-- Takes a job in under `number`, unless its id is taken: then the id's number, as it is written, comes back. The head of
-- one that is new and due has its data with it, as the stream packs the two.
local function take_in(number, bucket, id, head, data, is_new)
  local ids, seq = K .. 'ids:' .. bucket, tostring(number)
  if call('HSETNX', ids, id, seq) == 0 then
    return call('HGET', ids, id)
  end
  local job = header(head, is_new and 2)
  blocks_added[block_of(number)] = true
  if is_new then
    came = came + 1
    call('XADD', K .. 'new', seq, 'j', head)
    local span = span_of(number)
    span_ends[span] = math.min(span_ends[span] or job.expires, job.expires)
  else
    call('MSET', K .. 'job:' .. seq, head, K .. 'data:' .. seq, data)
    call('ZADD', K .. 'ends', job.expires, padded(seq))
  end
  wait(seq, job, is_new)
end

-- Call after the last one was taken in.
local function close_intake(last)
  for block in pairs(blocks_added) do
    call('ZADD', K .. 'blocks', block, block)
  end
  for span, earliest in pairs(span_ends) do
    call('ZADD', K .. 'spanends', 'LT', earliest, span)
  end
  close_ranks(came, last)
end
