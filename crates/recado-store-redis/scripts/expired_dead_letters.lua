-- Dead letters whose time is over. ARGV: now, how many at most. Answers number and head of each.

local answers = {}
for _, seq in ipairs(call('ZRANGEBYSCORE', K .. 'deadlines', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])) do
  seq = tonumber(seq)
  answers[#answers + 1] = { seq, call('GET', K .. 'job:' .. seq) or '' }
end
return answers
