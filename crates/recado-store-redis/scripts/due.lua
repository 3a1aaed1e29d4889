-- Since when the oldest job of each lane has been due. ARGV: now. Answers: route and time of each lane that has one.
--
-- Of many tenants those are asked that have waited longest for a turn; who has not been served for a while is there.

local TENANTS_MAX = 100

local now, answers = tonumber(ARGV[1]), {}
for _, route in ipairs(call('HKEYS', K .. 'lanes')) do
  look(route, now)
  local since
  for _, company in ipairs(call('ZRANGE', K .. 'ring:' .. route, 0, TENANTS_MAX - 1)) do
    local found = oldest(route, company, tenant(route, company))
    if found and (not since or found.due < since) then
      since = found.due
    end
  end
  if since then
    answers[#answers + 1] = route
    answers[#answers + 1] = since
  end
end
save()
return answers
