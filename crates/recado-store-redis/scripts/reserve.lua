-- Reserves ids for jobs that belong to another partition. ARGV: the partition's mark, then bucket and id of each.
-- Answers for each what the id is taken by: the mark, if it is this partition's now.

local answers = {}
for at = 2, #ARGV, 2 do
  call('HSETNX', K .. 'ids:' .. ARGV[at], ARGV[at + 1], ARGV[1])
  answers[at / 2] = call('HGET', K .. 'ids:' .. ARGV[at], ARGV[at + 1])
end
return answers
