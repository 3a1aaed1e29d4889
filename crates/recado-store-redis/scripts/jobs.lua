-- Storage of jobs. Put after root.lua, before every script of a partition.
--
-- A job is two values, a head and its data, under a number that grows. The head's first fields are read here;
-- all else in it is for Rust. A new job that is due lies in a stream, which packs many into one allocation: the head's
-- length in a byte, the head and the data as one value. Once it waits again after an attempt or is a dead letter, it has
-- keys of its own; so has one that is large or for later.
--
-- A script writes changes of many jobs with one command where it can: a call costs more than most of what it does.

-- Jobs in a block: what is kept per block instead of per job costs next to nothing.
local BLOCK_JOBS = 64

-- Jobs in a span: the earliest end of life of its new jobs is kept as one.
local SPAN_JOBS = 256

-- Old jobs that are moved out of a stream with many holes, in one call.
local MOVE_OUT_MAX = 32

local ZEROS = '00000000000000'

-- Sorts as text in the order of the numbers.
local function padded(seq)
  local text = tostring(seq)
  return string.sub(ZEROS, #text + 1) .. text
end

-- By number: a script asks several times for the block of the same job, and numbers come as text.
local known_blocks = {}

local function block_of(seq)
  local block = known_blocks[seq]
  if not block then
    block = math.floor(seq / BLOCK_JOBS)
    known_blocks[seq] = block
  end
  return block
end

local function span_of(seq)
  return math.floor(seq / SPAN_JOBS)
end

-- The first byte of a head has in one number, above what a head of format 2 begins with: the priority, the phase, whether
-- the end of life is a time of its own, and what only Rust reads.
local FIRST_BYTE, PRIORITIES, PHASES = 16, 9, 5

-- The first fields of a head that begins in this place, or at the start. A table that is made with its fields costs less
-- than one that gets them one by one.
local function header(head, at)
  local first = string.byte(head, at or 1) - FIRST_BYTE
  if first < 0 then
    local due, expires, priority, phase, route, company, bucket, id =
      struct.unpack('>I6I6BBBc0Bc0I2Bc0', head, at or 1)
    return {
      due = due, expires = expires, priority = priority, phase = phase,
      route = route, company = company, bucket = bucket, id = id,
    }
  end
  local marks = math.floor(first / PRIORITIES)
  local has_long_life = math.floor(marks / PHASES) % 2 == 1
  local format = has_long_life and '>I6I6Bc0Bc0Bc0' or '>I6I4Bc0Bc0Bc0'
  local due, life, route, company, id, rest = struct.unpack(format, head, (at or 1) + 1)
  return {
    due = due, expires = has_long_life and life or due + life,
    priority = first % PRIORITIES + 1, phase = marks % PHASES,
    route = route, company = company, id = id, rest = rest,
  }
end

-- The number of the job in that place of the stream of new ones, as text. The stream knows it by the number, too.
local function seq_at(place)
  return string.sub(place, 1, -3)
end

local function new_entry(seq)
  return call('XRANGE', K .. 'new', seq, seq)[1]
end

-- Head and data of a new job. An entry that format 2 wrote has two values.
local function unpacked(entry)
  local values = entry[2]
  if values[4] then
    return values[2], values[4]
  end
  local length = string.byte(values[2])
  return string.sub(values[2], 2, length + 1), string.sub(values[2], length + 2)
end

local function head_of(seq)
  local entry = new_entry(seq)
  return entry and (unpacked(entry)) or call('GET', K .. 'job:' .. seq)
end

-- Head and data, and whether it is new. The data that a person corrected, if one did.
local function find(seq)
  local entry = new_entry(seq)
  if entry then
    local head, data = unpacked(entry)
    return head, data, true
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
  local were_new = each_of('XDEL', K .. 'new', seqs) == #seqs
  for _, seq in ipairs(seqs) do
    thinned[span_of(seq)] = true
    unrecorded[seq] = were_new
  end
  return were_new
end

-- Gives a job keys of its own, if it has none.
local function move_out(seq)
  local entry = new_entry(seq)
  if entry then
    local head, data = unpacked(entry)
    call('MSET', K .. 'job:' .. seq, head, K .. 'data:' .. seq, data)
    drop_new({ seq })
  end
end

local function forget_end(seq)
  call('ZREM', K .. 'ends', padded(seq))
end

-- Moves a new job out of the stream that is not about to change. It may be in line: `moved` is the highest number of a
-- job that a claim does not find in the stream though it takes it from a list.
local function make_own(seq, head)
  move_out(seq)
  local moved = tonumber(call('HGET', K .. 'counters', 'moved') or 0)
  call('HSET', K .. 'counters', 'moved', math.max(moved, tonumber(seq)))
  if call('HEXISTS', K .. 'held', seq) == 0 then
    call('ZADD', K .. 'ends', header(head).expires, padded(seq))
  end
end

-- A node of a stream is freed when all of its entries are gone, so jobs that stay long would hold many nearly empty
-- ones. The oldest are moved out as soon as the stream is mostly holes: when far more came after them than are there.
-- Numbers may lie far apart, so what came is counted from a mark, the last number when the oldest job passed the mark
-- before it. `came` jobs came in this call, the last under the number `last`.
local function close_ranks(came, last)
  local counters, count = K .. 'counters', call('XLEN', K .. 'new')
  if count == 0 then
    return
  end
  local added = call('HINCRBY', counters, 'added', came)
  local mark = call('HMGET', counters, 'mark', 'marked')
  local oldest = call('XRANGE', K .. 'new', '-', '+', 'COUNT', 1)[1]
  if not mark[1] or tonumber(seq_at(oldest[1])) > tonumber(mark[1]) then
    call('HSET', counters, 'mark', last, 'marked', added)
  elseif added - mark[2] >= 4 * count + 1024 then
    for _, entry in ipairs(call('XRANGE', K .. 'new', '-', '+', 'COUNT', MOVE_OUT_MAX)) do
      make_own(seq_at(entry[1]), (unpacked(entry)))
    end
  end
end

-- Call last: lets go of spans that have no new job any more.
local function settle_spans()
  for span in pairs(thinned) do
    local from, to = span * SPAN_JOBS, span * SPAN_JOBS + SPAN_JOBS - 1
    if #call('XRANGE', K .. 'new', from, to, 'COUNT', 1) == 0 then
      call('ZREM', K .. 'spanends', span)
    end
  end
end

-- Records of this call that are not written yet, each after the number of its job, or ''; and those numbers by block.
local records, recorded = {}, {}

-- Begins a field of the trails of a block that has, instead of a job's number, the place of an entry: the value has a byte
-- for each job of the block whose first record is there. Many jobs have no other.
local FIRST_RECORDS = '@'

-- Writes them into the audit trail as one entry, and into the trails of the jobs where that is. Call after the last one.
local function save_records()
  if #records == 0 then
    return
  end
  local place = struct.pack('>I6I2', append_entry(records))
  for block, seqs in pairs(recorded) do
    local trail, values, known, first = K .. 'trail:' .. block, {}, {}, {}
    for _, seq in ipairs(seqs) do
      if unrecorded[seq] then
        first[#first + 1] = seq % BLOCK_JOBS
      else
        known[#known + 1] = seq
      end
    end
    if #first > 0 then
      values = { FIRST_RECORDS .. place, string.char(unpack(first)) }
    end
    for at, before in ipairs(#known > 0 and call('HMGET', trail, unpack(known)) or {}) do
      values[#values + 1] = known[at]
      values[#values + 1] = (before or '') .. place
    end
    call('HSET', trail, unpack(values))
  end
  records, recorded, unrecorded = {}, {}, {}
end

-- The records that are not written yet are about this job, too.
local function add_to_trail(seq)
  local block = block_of(seq)
  local seqs = recorded[block]
  if seqs then
    seqs[#seqs + 1] = seq
  else
    recorded[block] = { seq }
  end
end

-- Puts an event on record, and on the trail of the job that it is about.
local function record(seq, event)
  if #records == 2 * ENTRY_RECORDS_MAX then
    save_records()
  end
  records[#records + 1] = seq and tostring(seq) or ''
  records[#records + 1] = event
  if seq then
    add_to_trail(seq)
  end
end

-- Puts events on record, up to ENTRY_RECORDS_MAX, each after the number of the job that it is about.
local function record_all(events)
  save_records()
  records = events
  for at = 1, #events, 2 do
    add_to_trail(events[at])
  end
end

-- Time that a claim is remembered after its last lease ended.
local REMEMBERED_MS = 10000

-- In the place of a job's number among the leases: a value that is too long for a small hash. Redis searches those from end to
-- end, and a few hundred leases would make one.
local NO_JOB, LONG_VALUE = '', string.rep(' ', 65)

-- A lease is kept as: the fence of its claim in sixteen digits, '1' once it was extended or '0', the time of the claim, and the
-- holder: the worker, a zero byte, and the provider that is asked. It ends with its claim, which `leases` has by its fence. One that was extended is there by its job's number.
local FENCE_BYTES = 16

local function lease_from(fence, now, worker)
  return fence .. '0' .. struct.pack('>I6', now) .. worker
end

local function fence_in(held)
  return string.sub(held, 1, FENCE_BYTES)
end

local function is_extended(held)
  return string.byte(held, FENCE_BYTES + 1) == string.byte('1')
end

-- The time of the claim, and the holder.
local function holder_in(held)
  return struct.unpack('>I6', held, FENCE_BYTES + 2), string.sub(held, FENCE_BYTES + 8)
end

-- The fence of a job's current lease, if it has one.
local function fence_of(seq)
  local held = call('HGET', K .. 'held', seq)
  return held and fence_in(held)
end

-- So many leases do not end with their claim any more.
local function leave_claim(fence, count)
  if call('HINCRBY', K .. 'claims', fence, -count) <= 0 then
    call('HDEL', K .. 'claims', fence)
    call('ZREM', K .. 'leases', fence)
    call('PEXPIRE', K .. 'claim:' .. fence, REMEMBERED_MS)
  end
end

-- Ends leases, each as it is kept.
local function end_leases(seqs, helds)
  local extended, counts = {}, {}
  local last_held, was_extended
  for nth, held in ipairs(helds) do
    if held ~= last_held then
      last_held, was_extended = held, is_extended(held)
    end
    if was_extended then
      extended[#extended + 1] = padded(seqs[nth])
    else
      counts[held] = (counts[held] or 0) + 1
    end
  end
  for held, count in pairs(counts) do
    leave_claim(fence_in(held), count)
  end
  each_of('ZREM', K .. 'leases', extended)
  each_of('HDEL', K .. 'held', seqs)
end

-- Notes that those jobs of a list ended at a time. One member of `ended` has the numbers of all that ended together; a job
-- that is forgotten stays in it until its turn to be pruned comes.
local function note_ended(now, seqs, from, to)
  call('ZADD', K .. 'ended', now, table.concat(seqs, ' ', from, to))
  call('HINCRBY', K .. 'counters', 'ended', to - from + 1)
end

-- The phase in the head of a job that has ended is this or more.
local ENDED = 2

-- Forgets an ended job. Answers its id, unless it was forgotten before.
local function forget(seq)
  local head = call('GET', K .. 'job:' .. seq)
  if not head then
    return
  end
  local job = header(head)
  -- The head of an ended job has the bucket of its id after what all heads have.
  local bucket = job.bucket or struct.unpack('>I2', head, job.rest)
  call('DEL', K .. 'job:' .. seq)
  call('HINCRBY', K .. 'counters', 'ended', -1)
  call('HDEL', K .. 'ids:' .. bucket, job.id)
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
  for _, entry in ipairs(call('XRANGE', K .. 'new', from, from + BLOCK_JOBS - 1)) do
    heads[seq_at(entry[1]) - from + 1] = unpacked(entry)
  end
  return heads
end

-- Entries of the audit trail that this call has read, by place.
local entries = {}

-- The records of an entry, each after its job's number. A split entry is in the hash `apart`.
local function entry_at(place)
  local found = entries[place]
  if not found then
    local there = call('XRANGE', K .. 'audit', place, place)[1]
    found = there and there[2] or {}
    local split, at = not there and call('HGET', K .. 'apart', place) or '', 1
    while at <= #split do
      found[#found + 1], at = struct.unpack('>I4c0', split, at)
    end
    entries[place] = found
  end
  return found
end

-- In a trail, in the place of an entry's number: what stands before it is the number that the job has in the entries
-- that follow. A dead letter that came back has another one than its records.
local HAS_NUMBER = 65535

-- The places of the entries that tell of a job, eight bytes each, oldest first.
local function places_about(seq)
  local kept, first, own = call('HGETALL', K .. 'trail:' .. block_of(seq)), '', ''
  local in_block = string.char(seq % BLOCK_JOBS)
  for at = 1, #kept, 2 do
    if kept[at] == tostring(seq) then
      own = kept[at + 1]
    elseif string.sub(kept[at], 1, 1) == FIRST_RECORDS and string.find(kept[at + 1], in_block, 1, true) then
      first = first .. string.sub(kept[at], 2)
    end
  end
  return first .. own
end

-- The entries that tell of a job, oldest first: the place of each, and the number that the job has there.
local function entries_about(seq)
  local trail, about, whose = places_about(seq), {}, tostring(seq)
  for at = 1, #trail, 8 do
    local ms, nth = struct.unpack('>I6I2', trail, at)
    if nth == HAS_NUMBER then
      whose = string.format('%.0f', ms)
    else
      about[#about + 1] = { string.format('%.0f-%.0f', ms, nth), whose }
    end
  end
  return about
end

-- The records about a job, oldest first.
local function trail_of(seq)
  local events = {}
  for _, one in ipairs(entries_about(seq)) do
    local entry = entry_at(one[1])
    for at = 1, #entry, 2 do
      if entry[at] == one[2] then
        events[#events + 1] = entry[at + 1]
      end
    end
  end
  return events
end
