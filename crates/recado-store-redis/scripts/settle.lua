-- Ends leases, each wholly or not at all.
-- ARGV: floor of the numbers, how many settlements, and for each: its fence and number in one, what becomes of it ('e'nds,
-- 'w'aits or 'b'uried) and now in one, its head from now on, its record or '', and for one that is buried its letter; then
-- for each job that follows: of which settlement, and as for enqueue but for the number.
-- Answers for each 1, or 0 when the fence is not the current one.

local SETTLEMENT_ARGUMENTS, JOB_ARGUMENTS = 4, 6

local floor, count, answers = tonumber(ARGV[1]), tonumber(ARGV[2]), {}

-- The numbers of all settlements and where each begins; then who holds each.
local seqs, begins, at = {}, {}, 3
for nth = 1, count do
  seqs[nth], begins[nth] = string.sub(ARGV[at], 17), at
  at = at + SETTLEMENT_ARGUMENTS + (string.byte(ARGV[at + 1]) == string.byte('b') and 1 or 0)
end
local holders = call('HMGET', K .. 'held', unpack(seqs))

-- What is let go of and has ended, written together at the end.
local settled, let_go, members, finished, ended, heads = {}, {}, {}, {}, {}, {}

local function settle(seq, at)
  local member, ending, now = padded(seq), string.sub(ARGV[at + 1], 1, 1), string.sub(ARGV[at + 1], 2)
  local head, event = ARGV[at + 2], ARGV[at + 3]
  settled[seq] = true
  let_go[#let_go + 1] = seq
  members[#members + 1] = member
  heads[#heads + 1] = K .. 'job:' .. seq
  heads[#heads + 1] = head
  local whose = tenant(owner(head))
  whose.leased = whose.leased - 1
  if ending == 'e' then
    finished[#finished + 1] = seq
    ended[#ended + 1] = now
    ended[#ended + 1] = member
  else
    move_out(seq)
    if ending == 'w' then
      local job = header(head)
      call('ZADD', K .. 'ends', job.expires, member)
      wait(seq, job, false)
    else
      file(seq, ARGV[at + 4], numbers('letter', 1, floor) + 1)
    end
  end
  if event ~= '' then
    record(seq, event)
  end
end

for nth, seq in ipairs(seqs) do
  local held, fence = holders[nth], string.sub(ARGV[begins[nth]], 1, 16)
  local is_current = held and not settled[seq] and string.sub(held, 1, 16) == fence
  if is_current then
    settle(seq, begins[nth])
  end
  answers[nth] = is_current and 1 or 0
end
finish(finished)
if #heads > 0 then
  call('MSET', unpack(heads))
end
each_of('HDEL', K .. 'held', let_go)
each_of('ZREM', K .. 'leases', members)
each_of('ZADD', K .. 'ended', ended)
local last = 0
for job = at, #ARGV, JOB_ARGUMENTS do
  if answers[tonumber(ARGV[job])] == 1 then
    last = numbers('seq', 1, floor) + 1
    take_in(last, ARGV[job + 1], ARGV[job + 2], ARGV[job + 3], ARGV[job + 4], ARGV[job + 5] == '1')
  end
end
if last > 0 then
  close_intake(last)
end
save_trails()
settle_blocks()
save()
return answers
