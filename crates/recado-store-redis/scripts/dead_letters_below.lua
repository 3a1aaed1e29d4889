-- Dead letters below an order number, newest first. ARGV: the number, and how many at most.
-- Answers for each: order, number, letter and head, empty where the value is gone. Data is asked for by letter.lua.

local answers = {}
local found = call('ZREVRANGEBYSCORE', K .. 'dead', '(' .. ARGV[1], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for at = 1, #found, 2 do
  local seq = tonumber(found[at])
  answers[#answers + 1] = {
    tonumber(found[at + 1]), seq, call('GET', K .. 'letter:' .. seq) or '', call('GET', K .. 'job:' .. seq) or '',
  }
end
return answers
