-- The jobs that have been in the queue longest and are not being replayed. ARGV: how many at most. Answers for each:
-- order and number.

local PAGE = 100

local wanted, found, at = tonumber(ARGV[1]), {}, 0
while #found < wanted do
  local page = call('ZRANGE', K .. 'dead', at, at + PAGE - 1, 'WITHSCORES')
  if #page == 0 then
    break
  end
  for nth = 1, #page, 2 do
    if #found < wanted and call('ZSCORE', K .. 'deadlines', page[nth]) then
      found[#found + 1] = { tonumber(page[nth + 1]), tonumber(page[nth]) }
    end
  end
  at = at + PAGE
end
return found
