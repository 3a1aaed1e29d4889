-- Takes jobs in, each once by its id.
-- ARGV: for each job the least number that it may have, bucket, id, and head, data and '0', or head and data packed, '' and
-- '1' if it is new and due.
-- Answers for each: 1, or what the id is taken by: { head, '1' while it is leased }, or another partition's mark.

local JOB_ARGUMENTS = 6

local count, seqs, answers = #ARGV / JOB_ARGUMENTS, {}, {}
local last = tonumber(call('HGET', K .. 'counters', 'seq') or 0)
for nth = 1, count do
  last = math.max(last + 1, tonumber(ARGV[(nth - 1) * JOB_ARGUMENTS + 1]))
  seqs[nth] = last
end
call('HSET', K .. 'counters', 'seq', last)
for nth = 1, count do
  local at = (nth - 1) * JOB_ARGUMENTS
  local known = take_in(seqs[nth], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6] == '1')
  if not known then
    answers[nth] = 1
  elseif tonumber(known) then
    answers[nth] = { head_of(known), tostring(call('HEXISTS', K .. 'held', known)) }
  else
    answers[nth] = known
  end
end
close_intake(last)
settle_spans()
save()
return answers
