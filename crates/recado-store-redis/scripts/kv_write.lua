-- Writes key-value entries, each only at the version that it expects. The version of a namespace is that of its last
-- change. ARGV: now, then for each: namespace, key, '1' and the value or '0' and '' to remove it, expected version or '', end
-- or '', how many audit records it has, and those, which are written if the entry is. Answers for each: '1' and its
-- version, or '0' and the version that stands against it.

local now = tonumber(ARGV[1])
local answers = {}

local function version_of(namespace, key)
  local entry = call('HGET', namespace, key)
  if entry then
    local version, expires = struct.unpack('>I7I6', entry)
    return (expires == 0 or expires > now) and version or 0
  end
  return 0
end

-- Records of this call that are not written yet, each after ''.
local records = {}

local function save_records()
  if #records > 0 then
    append_entry(records)
    records = {}
  end
end

local function record(first, last)
  for at = first, last do
    if #records == 2 * ENTRY_RECORDS_MAX then
      save_records()
    end
    records[#records + 1] = ''
    records[#records + 1] = ARGV[at]
  end
end

local at = 2
while at <= #ARGV do
  local namespace, key, expires = K .. 'shelf:' .. ARGV[at], ARGV[at + 1], ARGV[at + 5]
  local current, name = version_of(namespace, key), ARGV[at] .. '/' .. key
  if ARGV[at + 4] ~= '' and tonumber(ARGV[at + 4]) ~= current then
    answers[#answers + 1] = { 0, current }
  elseif ARGV[at + 2] == '0' then
    if call('HDEL', namespace, key) == 1 then
      call('ZREM', K .. 'ends', name)
      next_version(ARGV[at])
    end
    answers[#answers + 1] = { 1, 0 }
  else
    local version = next_version(ARGV[at])
    call('HSET', namespace, key, struct.pack('>I7I6', version, expires ~= '' and expires or 0) .. ARGV[at + 3])
    if expires ~= '' then
      call('ZADD', K .. 'ends', expires, name)
    else
      call('ZREM', K .. 'ends', name)
    end
    answers[#answers + 1] = { 1, version }
  end
  local last = at + 6 + tonumber(ARGV[at + 6])
  if answers[#answers][1] == 1 then
    record(at + 7, last)
  end
  at = last + 1
end
save_records()
return answers
