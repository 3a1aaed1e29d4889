-- Writes notes, each only at the version that it expects. The version of a shelf is that of its last change.
-- ARGV: now, then for each: shelf, key, '1' and the value or '0' and '' to remove it, expected version or '', end
-- or ''. Answers for each: '1' and its version, or '0' and the version that stands against it.

local now = tonumber(ARGV[1])
local answers = {}

local function version_of(shelf, key)
  local note = call('HGET', shelf, key)
  if note then
    local version, expires = struct.unpack('>I7I6', note)
    return (expires == 0 or expires > now) and version or 0
  end
  return 0
end

for at = 2, #ARGV, 6 do
  local shelf, key, expires = K .. 'shelf:' .. ARGV[at], ARGV[at + 1], ARGV[at + 5]
  local current, name = version_of(shelf, key), ARGV[at] .. '/' .. key
  if ARGV[at + 4] ~= '' and tonumber(ARGV[at + 4]) ~= current then
    answers[#answers + 1] = { 0, current }
  elseif ARGV[at + 2] == '0' then
    if call('HDEL', shelf, key) == 1 then
      call('ZREM', K .. 'ends', name)
      next_version(ARGV[at])
    end
    answers[#answers + 1] = { 1, 0 }
  else
    local version = next_version(ARGV[at])
    call('HSET', shelf, key, struct.pack('>I7I6', version, expires ~= '' and expires or 0) .. ARGV[at + 3])
    if expires ~= '' then
      call('ZADD', K .. 'ends', expires, name)
    else
      call('ZREM', K .. 'ends', name)
    end
    answers[#answers + 1] = { 1, version }
  end
end
return answers
