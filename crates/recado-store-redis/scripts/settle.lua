-- Ends leases, each wholly or not at all.
-- ARGV: floor of the numbers, then for each settlement: number, fence, what becomes of it ('wait', 'end' or
-- 'bury'), its head from now on, now, record or '', letter or '', how many follow, and those as for enqueue but for the number.
-- Answers for each 1, or 0 when the fence is not the current one.

local SETTLEMENT_ARGUMENTS, JOB_ARGUMENTS = 8, 5

local floor, at, answers = tonumber(ARGV[1]), 2, {}
local last = 0

-- What is let go of and has ended, written together at the end.
local settled, let_go, members, ended, heads = {}, {}, {}, {}, {}

local function settle(seq, ending, head, now, event, letter)
  local member = padded(seq)
  settled[seq] = true
  let_go[#let_go + 1] = seq
  members[#members + 1] = member
  heads[#heads + 1] = K .. 'job:' .. seq
  heads[#heads + 1] = head
  local whose = tenant(owner(head))
  whose.leased = whose.leased - 1
  if ending == 'end' then
    finish(seq)
    ended[#ended + 1] = now
    ended[#ended + 1] = member
  else
    move_out(seq)
    if ending == 'wait' then
      local job = header(head)
      call('ZADD', K .. 'ends', job.expires, member)
      wait(seq, job, false)
    else
      file(seq, letter, numbers('letter', 1, floor) + 1)
    end
  end
  if event ~= '' then
    record(seq, event)
  end
end

while at <= #ARGV do
  local seq, count = tonumber(ARGV[at]), tonumber(ARGV[at + 7])
  local is_current = not settled[seq] and fence_of(seq) == ARGV[at + 1]
  if is_current then
    settle(seq, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6])
    last = count > 0 and numbers('seq', count, floor) or last
  end
  at = at + SETTLEMENT_ARGUMENTS
  for nth = 1, count do
    if is_current then
      take_in(last + nth, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] == '1')
    end
    at = at + JOB_ARGUMENTS
  end
  answers[#answers + 1] = is_current and 1 or 0
end
for from = 1, #heads, VALUES_MAX do
  call('MSET', unpack(heads, from, math.min(from + VALUES_MAX - 1, #heads)))
end
each_of('HDEL', K .. 'held', let_go)
each_of('ZREM', K .. 'leases', members)
each_of('ZADD', K .. 'ended', ended)
if last > 0 then
  close_intake(last)
end
save_trails()
settle_blocks()
save()
return answers
