-- Begins every script.
--
-- KEYS[1] is the common prefix of all keys of a partition, or of the key-value entries, hash tag included, so they share one slot (KEYS[2]
-- only makes a Cluster refuse while it moves that slot). KEYS[3] is the fence of a writer that has one.

local call = redis.call
local K = KEYS[1] .. ':'

if KEYS[3] then
  local name, number = string.match(KEYS[3], ':fence:(.+):(%d+)$')
  if call('HGET', K .. 'fences', name) ~= number then
    return redis.error_reply('FENCED a newer writer has taken over')
  end
end

-- Records at most in one entry of the audit trail. A record's number has eight bits for its place in there.
local ENTRY_RECORDS_MAX = 250

-- Entries of one millisecond that numbers tell apart. There are more only while the server's clock, set back, catches up.
local ENTRIES_MAX = 8192

-- Appends an entry to the audit trail: each record after the number of its job, or ''. Answers the entry's place.
local function append_entry(records)
  local place = call('XADD', K .. 'audit', '*', unpack(records))
  local ms, nth = string.match(place, '^(%d+)-(%d+)$')
  if tonumber(nth) >= ENTRIES_MAX then
    call('XDEL', K .. 'audit', place)
    ms, nth = string.format('%.0f', ms + 1), 0
    call('XADD', K .. 'audit', ms, unpack(records))
  end
  return ms, nth
end
