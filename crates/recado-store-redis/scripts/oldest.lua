-- The jobs that have been dead longest and are not being replayed. ARGV: how many at most. Answers their numbers.

local PAGE = 100

local wanted, found, at = tonumber(ARGV[1]), {}, 0
while #found < wanted do
  local page = call('ZRANGE', K .. 'dead', at, at + PAGE - 1)
  if #page == 0 then
    break
  end
  for _, seq in ipairs(page) do
    if #found < wanted and call('ZSCORE', K .. 'deadlines', seq) then
      found[#found + 1] = tonumber(seq)
    end
  end
  at = at + PAGE
end
return found
