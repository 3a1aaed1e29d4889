-- Dead letters: one value each, in the order in which they entered the queue, with counts of every kind kept as they
-- come and go. Put after intake.lua, before every script that buries, brings back or gives up.

-- The groups that dead letters are counted by, in the order of the stored value's first fields.
local KINDS = { 'code', 'company', 'route', 'fingerprint' }

-- The fields that scripts read of a stored dead letter.
local function indexed_fields(letter)
  local expires, code, company, route, fingerprint, reason =
    struct.unpack('>I6I2c0I2c0I2c0I2c0I2c0', letter)
  return expires, { code, company, route, fingerprint }, reason
end

-- Takes a dead letter out of the counts. One that cannot be read was counted under names that are no longer known.
local function uncount(letter)
  local readable, _, keys = pcall(indexed_fields, letter)
  if not readable then
    return
  end
  for nth, kind in ipairs(KINDS) do
    local group = K .. 'group:' .. kind
    if call('HINCRBY', group, keys[nth], -1) <= 0 then
      call('HDEL', group, keys[nth])
      call('HDEL', group .. ':reason', keys[nth])
    end
  end
end

-- Stores a dead letter. One of a job that has one already takes that one's place: it has never left the queue. Another
-- one goes to its `place`, or to the end.
local function add_dead_letter(seq, letter, floor, place)
  local old = call('GET', K .. 'letter:' .. seq)
  if old then
    uncount(old)
  elseif place then
    call('HSET', K .. 'counters', 'letter', math.max(place, tonumber(call('HGET', K .. 'counters', 'letter') or 0)))
    call('ZADD', K .. 'dead', place, padded(seq))
  else
    call('ZADD', K .. 'dead', numbers('letter', 1, floor) + 1, padded(seq))
  end
  local expires, keys, reason = indexed_fields(letter)
  for nth, kind in ipairs(KINDS) do
    call('HINCRBY', K .. 'group:' .. kind, keys[nth], 1)
    call('HSET', K .. 'group:' .. kind .. ':reason', keys[nth], reason)
  end
  call('SET', K .. 'letter:' .. seq, letter)
  call('ZADD', K .. 'deadlines', expires, padded(seq))
end

local function remove_dead_letter(seq, letter)
  uncount(letter)
  call('DEL', K .. 'letter:' .. seq)
  call('ZREM', K .. 'dead', padded(seq))
  call('ZREM', K .. 'deadlines', padded(seq))
end

-- Jobs have ended: their data goes. Their heads stay until they are pruned; the caller writes them.
local function finish(seqs)
  if #seqs == 0 or drop_new(seqs) then
    return
  end
  local data, letters = {}, {}
  for nth, seq in ipairs(seqs) do
    data[2 * nth - 1], data[2 * nth] = K .. 'data:' .. seq, K .. 'corrected:' .. seq
    letters[nth] = K .. 'letter:' .. seq
  end
  call('DEL', unpack(data))
  for nth, letter in ipairs(call('MGET', unpack(letters))) do
    if letter then
      remove_dead_letter(seqs[nth], letter)
    end
  end
end
