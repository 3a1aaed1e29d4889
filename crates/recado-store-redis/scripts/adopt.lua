-- Adopts jobs as another store had them.
-- ARGV: floor of the numbers, then for each: bucket, id, head, where it stands ('wait', 'dead' or 'end'), data, '1' and
-- the corrected data or '0' and '', letter or '', its place in the queue or '', when it ended, how many records, and
-- those.
-- Answers for each 1, or 0 when its id is taken.

local DISCARDED = 4

local floor, at, answers = tonumber(ARGV[1]), 1, {}

local function argument()
  at = at + 1
  return ARGV[at]
end

-- The trail of the job that the last dead letter took the place of, its number there, and the records that are on it.
local trail, before, known

-- Returns true if the id is free, or was made free: a dead letter that comes back takes the place of its discarded job.
local function is_free(bucket, id, standing)
  trail, before, known = nil, nil, {}
  local taken = call('HGET', K .. 'ids:' .. bucket, id)
  if not taken then
    return true
  end
  local seq = tonumber(taken)
  local head = seq and head_of(seq)
  if standing == 'dead' and head and header(head).phase == DISCARDED then
    trail, before = places_about(seq), seq
    for _, event in ipairs(trail_of(seq)) do
      known[event] = true
    end
    forget(seq)
    return true
  end
  return false
end

while at < #ARGV do
  local bucket, id, head, standing, data = argument(), argument(), argument(), argument(), argument()
  local is_corrected, corrected, letter, place, ended_at = argument() == '1', argument(), argument(), argument(), argument()
  local free = is_free(bucket, id, standing)
  local seq, job = free and numbers('seq', 1, floor) + 1, header(head)
  if free then
    call('HSET', K .. 'ids:' .. bucket, id, seq)
    if trail then
      trail = struct.pack('>I6I2', before, HAS_NUMBER) .. trail .. struct.pack('>I6I2', seq, HAS_NUMBER)
      call('HSET', K .. 'trail:' .. block_of(seq), seq, trail)
    end
    call('SET', K .. 'job:' .. seq, head)
    call('ZADD', K .. 'blocks', block_of(seq), block_of(seq))
    if standing == 'end' then
      note_ended(ended_at, { seq }, 1, 1)
    else
      call('SET', K .. 'data:' .. seq, data)
    end
    if letter ~= '' then
      add_dead_letter(seq, letter, floor, tonumber(place))
    end
    if is_corrected then
      call('SET', K .. 'corrected:' .. seq, corrected)
    end
    if standing == 'wait' then
      call('ZREM', K .. 'deadlines', padded(seq))
      call('ZADD', K .. 'ends', job.expires, padded(seq))
      wait(seq, job, false)
    end
  end
  for _ = 1, tonumber(argument()) do
    local event = argument()
    if free and not known[event] then
      record(seq, event)
    end
  end
  answers[#answers + 1] = free and 1 or 0
end
save_records()
save()
return answers
