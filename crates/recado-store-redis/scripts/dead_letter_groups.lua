-- Counts dead letters by a kind of group. ARGV: the kind. Answers key, count and a reason of each, in a row.

local answers = {}
local counted = call('HGETALL', K .. 'group:' .. ARGV[1])
for at = 1, #counted, 2 do
  answers[#answers + 1] = counted[at]
  answers[#answers + 1] = counted[at + 1]
  answers[#answers + 1] = call('HGET', K .. 'group:' .. ARGV[1] .. ':reason', counted[at])
end
return answers
