-- Counts jobs by state. ARGV: now. Answers: leased, dead, ended, then route, ready and delayed of each lane.

local now = tonumber(ARGV[1])
local ended = tonumber(call('HGET', K .. 'counters', 'ended') or 0)
local leased = call('HLEN', K .. 'held') - call('HEXISTS', K .. 'held', NO_JOB)
local answers = { leased, call('ZCARD', K .. 'dead'), ended }
for _, route in ipairs(call('HKEYS', K .. 'lanes')) do
  look(route, now)
  local later = K .. 'later:' .. route
  local due = call('ZCOUNT', later, '-inf', now)
  answers[#answers + 1] = route
  answers[#answers + 1] = lane(route).kept.ready + due
  answers[#answers + 1] = call('ZCARD', later) - due
end
save()
return answers
