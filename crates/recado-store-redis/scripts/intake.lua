-- Taking jobs in. Put after lanes.lua, before every script that does.

-- The number before the first of `count` new ones. `floor` lets numbers of several partitions be compared.
local function numbers(name, count, floor)
  local last = math.max(tonumber(call('HGET', K .. 'counters', name) or 0), floor)
  call('HSET', K .. 'counters', name, last + count)
  return last
end

-- The earliest end of life among the new jobs of each block that this call adds to, and how many came.
local block_ends, came = {}, 0

-- Takes a job in under `number`, unless its id is taken: then the id's number, as it is written, comes back.
local function take_in(number, bucket, id, head, data, is_new)
  local ids, seq = K .. 'ids:' .. bucket, tostring(number)
  if call('HSETNX', ids, id, seq) == 0 then
    return call('HGET', ids, id)
  end
  local job = header(head)
  local block = block_of(number)
  if is_new then
    came = came + 1
    call('XADD', K .. 'new', seq, 'h', head, 'd', data)
    block_ends[block] = math.min(block_ends[block] or job.expires, job.expires)
  else
    call('MSET', K .. 'job:' .. seq, head, K .. 'data:' .. seq, data)
    call('ZADD', K .. 'ends', job.expires, padded(seq))
    block_ends[block] = block_ends[block] or false
  end
  wait(seq, job, is_new)
end

-- Call after the last one was taken in.
local function close_intake(last)
  for block, earliest in pairs(block_ends) do
    call('ZADD', K .. 'blocks', block, block)
    if earliest then
      call('ZADD', K .. 'newends', 'LT', earliest, block)
    end
  end
  close_ranks(came, last)
end
