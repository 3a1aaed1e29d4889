-- Forgets ended jobs at once, and the records about them. ARGV: for each its bucket and id. Answers for each 1, or 0
-- when it has not ended or is not here.

-- As jobs.lua reads it in what lies apart.
local function packed(text)
  return struct.pack('>I4', #text) .. text
end

-- Takes the records about a job out of an entry. What else is in it stays, under the same numbers.
local function rewrite(place, whose)
  local entry, texts, is_empty = entry_at(place), {}, true
  for at = 1, #entry, 2 do
    if entry[at] == whose then
      entry[at + 1] = ''
    end
    is_empty = is_empty and entry[at + 1] == ''
    texts[at], texts[at + 1] = packed(entry[at]), packed(entry[at + 1])
  end
  call('XDEL', K .. 'audit', place)
  if is_empty then
    call('HDEL', K .. 'apart', place)
  else
    call('HSET', K .. 'apart', place, table.concat(texts))
  end
end

local answers = {}
for at = 1, #ARGV, 2 do
  local seq = seq_of(ARGV[at], ARGV[at + 1])
  local head = seq and call('GET', K .. 'job:' .. seq)
  local goes = head and header(head).phase >= ENDED
  if goes then
    for _, one in ipairs(entries_about(seq)) do
      rewrite(one[1], one[2])
    end
    forget(seq)
  end
  answers[#answers + 1] = goes and 1 or 0
end
return answers
