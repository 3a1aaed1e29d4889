-- Where jobs are kept. Put before every script of a partition.
--
-- KEYS[1] is what all keys of the partition begin with, hash tag included, so they share one slot (KEYS[2] only
-- makes a Cluster refuse while it moves that slot). A job is two values, a head and its data, under a number that
-- grows. The head's first fields are read here; all else in it is for Rust. A new job that is due lies in a stream,
-- which packs many into one allocation; once it has a story of its own, or is large or for later, it has keys of its
-- own.
--
-- What a script does to many jobs it writes with one command where it can: a call costs more than most of what it does.

local call = redis.call
local K = KEYS[1] .. ':'

-- Jobs in a block: what is kept per block instead of per job costs next to nothing.
local BLOCK_JOBS = 64

-- Old jobs that are moved out of a stream with many holes, in one call.
local MOVE_OUT_MAX = 32

local ZEROS = '00000000000000'

-- Sorts as text in the order of the numbers.
local function padded(seq)
  local text = tostring(seq)
  return string.sub(ZEROS, #text + 1) .. text
end

local function block_of(seq)
  return math.floor(seq / BLOCK_JOBS)
end

local function header(head)
  local job = {}
  job.due, job.expires, job.priority, job.phase, job.route, job.company, job.bucket, job.id =
    struct.unpack('>I6I6BBBc0Bc0I2Bc0', head)
  return job
end

-- The route and the company alone, for whoever needs no more.
local function owner(head)
  local _, _, _, _, route, company = struct.unpack('>I6I6BBBc0Bc0', head)
  return route, company
end

-- A job's place in the stream of new ones.
local function place_of(seq)
  return seq .. '-0'
end

-- The number of the job in that place, as text.
local function seq_at(place)
  return string.sub(place, 1, -3)
end

local function new_entry(seq)
  local place = place_of(seq)
  return call('XRANGE', K .. 'new', place, place)[1]
end

local function head_of(seq)
  local entry = new_entry(seq)
  return entry and entry[2][2] or call('GET', K .. 'job:' .. seq)
end

-- Head and data, and whether it is new. The data that a person corrected, if one did.
local function find(seq)
  local entry = new_entry(seq)
  if entry then
    return entry[2][2], entry[2][4], true
  end
  local head = call('GET', K .. 'job:' .. seq)
  if head then
    return head, call('GET', K .. 'corrected:' .. seq) or call('GET', K .. 'data:' .. seq) or 'null', false
  end
end

-- Values at most in one command with many.
local VALUES_MAX = 1000

-- One command with many values, in as many calls as it takes. Answers how many it was good for.
local function each_of(command, key, values)
  local done = 0
  for from = 1, #values, VALUES_MAX do
    done = done + call(command, key, unpack(values, from, math.min(from + VALUES_MAX - 1, #values)))
  end
  return done
end

local function seq_of(bucket, id)
  local known = call('HGET', K .. 'ids:' .. bucket, id)
  return known and tonumber(known)
end

-- Blocks that lost a new job in this call.
local thinned = {}

-- Jobs that were in the stream when this call took them out: nothing had been recorded about them.
local unrecorded = {}

-- Takes jobs out of the stream. Says whether all were in it.
local function drop_new(seqs)
  local places = {}
  for nth, seq in ipairs(seqs) do
    thinned[block_of(seq)] = true
    places[nth] = place_of(seq)
  end
  local were_new = each_of('XDEL', K .. 'new', places) == #places
  for _, seq in ipairs(were_new and seqs or {}) do
    unrecorded[seq] = true
  end
  return were_new
end

-- Gives a job keys of its own, if it has none.
local function move_out(seq)
  local entry = new_entry(seq)
  if entry then
    call('MSET', K .. 'job:' .. seq, entry[2][2], K .. 'data:' .. seq, entry[2][4])
    drop_new({ seq })
  end
end

local function forget_end(seq)
  call('ZREM', K .. 'ends', padded(seq))
end

-- Moves a new job out of the stream that nobody is about to change.
local function make_own(seq, head)
  move_out(seq)
  if call('HEXISTS', K .. 'held', seq) == 0 then
    call('ZADD', K .. 'ends', header(head).expires, padded(seq))
  end
end

-- A node of a stream is freed when all of its entries are gone, so jobs that stay long would hold many half
-- empty ones. The oldest are moved out as soon as the stream is mostly holes.
local function close_ranks(last)
  local count = call('XLEN', K .. 'new')
  local oldest = count > 0 and call('XRANGE', K .. 'new', '-', '+', 'COUNT', 1)[1]
  if not oldest or last - seq_at(oldest[1]) < 4 * count + 1024 then
    return
  end
  for _, entry in ipairs(call('XRANGE', K .. 'new', '-', '+', 'COUNT', MOVE_OUT_MAX)) do
    make_own(seq_at(entry[1]), entry[2][2])
  end
end

-- Call last: lets go of blocks that have no new job any more.
local function settle_blocks()
  for block in pairs(thinned) do
    local from, to = block * BLOCK_JOBS, block * BLOCK_JOBS + BLOCK_JOBS - 1
    if #call('XRANGE', K .. 'new', place_of(from), place_of(to), 'COUNT', 1) == 0 then
      call('ZREM', K .. 'newends', block)
    end
  end
end

-- What this call adds to the trails of jobs, by block and number.
local trails = {}

-- Where this call's last record is in the audit trail: the server's time, and which of that millisecond it is.
local recorded_at, recorded_nth

-- Appends to the audit trail, and to the trail of the job that it is about.
local function record(seq, event)
  if recorded_at then
    recorded_nth = recorded_nth + 1
    call('XADD', K .. 'audit', recorded_at .. '-' .. recorded_nth, 'r', event)
  else
    recorded_at, recorded_nth = string.match(call('XADD', K .. 'audit', '*', 'r', event), '^(%d+)-(%d+)$')
  end
  if seq then
    local block = block_of(seq)
    trails[block] = trails[block] or {}
    trails[block][seq] = (trails[block][seq] or '') .. struct.pack('>I6I2', recorded_at, recorded_nth)
  end
end

-- Call after the last record: writes the trails, a block at a time.
local function save_trails()
  for block, added in pairs(trails) do
    local trail, seqs, values = K .. 'trail:' .. block, {}, {}
    for seq, records in pairs(added) do
      if unrecorded[seq] then
        values[#values + 1] = seq
        values[#values + 1] = records
      else
        seqs[#seqs + 1] = seq
      end
    end
    for nth, known in ipairs(#seqs > 0 and call('HMGET', trail, unpack(seqs)) or {}) do
      values[#values + 1] = seqs[nth]
      values[#values + 1] = (known or '') .. added[seqs[nth]]
    end
    call('HSET', trail, unpack(values))
  end
end

-- The fence of a job's current lease, if it has one.
local function fence_of(seq)
  local held = call('HGET', K .. 'held', seq)
  return held and string.sub(held, 1, 16)
end

-- Who holds a job: the fence in sixteen digits, since when, until when and its name.
local function holder(seq)
  local held = call('HGET', K .. 'held', seq)
  if held then
    local since = struct.unpack('>I6', held, 17)
    return string.sub(held, 1, 16), since, call('ZSCORE', K .. 'leases', padded(seq)), string.sub(held, 23)
  end
end

-- Forgets an ended job. Answers its id.
local function forget(seq)
  local job = header(call('GET', K .. 'job:' .. seq))
  call('DEL', K .. 'job:' .. seq)
  call('ZREM', K .. 'ended', padded(seq))
  call('HDEL', K .. 'ids:' .. job.bucket, job.id)
  call('HDEL', K .. 'trail:' .. block_of(seq), seq)
  return job.id
end

-- The numbers and heads of a block, by their place in it.
local function heads_in(block)
  local heads, keys, from = {}, {}, block * BLOCK_JOBS
  for nth = 1, BLOCK_JOBS do
    keys[nth] = K .. 'job:' .. (from + nth - 1)
  end
  for nth, head in ipairs(call('MGET', unpack(keys))) do
    heads[nth] = head
  end
  for _, entry in ipairs(call('XRANGE', K .. 'new', place_of(from), place_of(from + BLOCK_JOBS - 1))) do
    heads[seq_at(entry[1]) - from + 1] = entry[2][2]
  end
  return heads
end

-- The records about a job, oldest first.
local function trail_of(seq)
  local trail, events = call('HGET', K .. 'trail:' .. block_of(seq), seq) or '', {}
  for at = 1, #trail, 8 do
    local ms, nth = struct.unpack('>I6I2', trail, at)
    local id = string.format('%.0f-%.0f', ms, nth)
    local entry = call('XRANGE', K .. 'audit', id, id)[1]
    if entry then
      events[#events + 1] = entry[2][2]
    end
  end
  return events
end
