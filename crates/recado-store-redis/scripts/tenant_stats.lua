-- Statistics of tenants. ARGV: now, route or '', company or ''. Answers: '1' when there is more to read, then for
-- each: route, company, ready, delayed, leased, last served or false, rounds, processed, jobs in a row.

local now, answers, more = tonumber(ARGV[1]), {}, '0'
local routes = ARGV[2] ~= '' and { ARGV[2] } or call('HKEYS', K .. 'lanes')
for _, route in ipairs(routes) do
  if look(route, now) then
    more = '1'
  end
end
save()
for _, route in ipairs(routes) do
  local kept = lane(route).kept
  local companies = ARGV[3] ~= '' and { ARGV[3] } or call('HKEYS', K .. 'tenants:' .. route)
  for _, company in ipairs(companies) do
    if call('HEXISTS', K .. 'tenants:' .. route, company) == 1 then
      local one = tenant(route, company)
      answers[#answers + 1] = {
        route, company, one.ready, one.waiting - one.ready, one.leased,
        one.done > 0 and one.at,
        one.place > 0 and kept.turns - one.since or 0,
        one.done,
        kept.last == company and one.taken or 0,
      }
    end
  end
end
return { more, answers }
