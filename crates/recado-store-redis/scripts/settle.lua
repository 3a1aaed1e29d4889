-- Ends leases, each wholly or not at all.
-- ARGV: floor of the numbers, then for each settlement: number, fence, what becomes of it ('wait', 'end' or
-- 'bury'), its head from now on, now, record or '', letter or '', how many follow, and those as for enqueue but for the number.
-- Answers for each 1, or 0 when the fence is not the current one.

local SETTLEMENT_ARGUMENTS, JOB_ARGUMENTS = 8, 5

local floor, last, answers = tonumber(ARGV[1]), 0, {}

-- The numbers of all settlements and where each begins; then who holds each.
local seqs, begins, at = {}, {}, 2
while at <= #ARGV do
  seqs[#seqs + 1], begins[#begins + 1] = ARGV[at], at
  at = at + SETTLEMENT_ARGUMENTS + JOB_ARGUMENTS * ARGV[at + 7]
end
local holders = call('HMGET', K .. 'held', unpack(seqs))

-- What is let go of and has ended, written together at the end.
local settled, let_go, members, finished, ended, heads = {}, {}, {}, {}, {}, {}

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
    finished[#finished + 1] = seq
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

for nth, seq in ipairs(seqs) do
  local from, held = begins[nth], holders[nth]
  local is_current = held and not settled[seq] and string.sub(held, 1, 16) == ARGV[from + 1]
  if is_current then
    settle(seq, ARGV[from + 2], ARGV[from + 3], ARGV[from + 4], ARGV[from + 5], ARGV[from + 6])
    local count, job = tonumber(ARGV[from + 7]), from + SETTLEMENT_ARGUMENTS
    last = count > 0 and numbers('seq', count, floor) or last
    for follows = 1, count do
      take_in(last + follows, ARGV[job], ARGV[job + 1], ARGV[job + 2], ARGV[job + 3], ARGV[job + 4] == '1')
      job = job + JOB_ARGUMENTS
    end
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
if last > 0 then
  close_intake(last)
end
save_trails()
settle_blocks()
save()
return answers
