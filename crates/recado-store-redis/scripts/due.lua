-- Since when the oldest job of each lane has been due. ARGV: now, then a route ('' for all) and a company for each that is
-- left out. Answers: route and time of each lane that has one.
--
-- Looks at the 100 tenants that have waited longest for a turn: the oldest due job is almost always theirs.

local TENANTS_MAX = 100

local now, answers, left_out, left_out_count = tonumber(ARGV[1]), {}, {}, 0
for at = 2, #ARGV, 2 do
  local route, company = ARGV[at], ARGV[at + 1]
  left_out[route] = left_out[route] or {}
  left_out[route][company] = true
  left_out_count = left_out_count + 1
end
local everywhere = left_out[''] or {}
for _, route in ipairs(call('HKEYS', K .. 'lanes')) do
  look(route, now)
  local since
  local here = left_out[route] or {}
  for _, company in ipairs(call('ZRANGE', K .. 'ring:' .. route, 0, TENANTS_MAX + left_out_count - 1)) do
    if not everywhere[company] and not here[company] then
      local found = oldest(route, company, tenant(route, company))
      if found and (not since or found.due < since) then
        since = found.due
      end
    end
  end
  if since then
    answers[#answers + 1] = route
    answers[#answers + 1] = since
  end
end
save()
return answers
