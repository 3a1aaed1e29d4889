-- Ends leases, each wholly or not at all.
-- ARGV: floor of the numbers, then for each settlement: number, fence, what becomes of it ('wait', 'end' or
-- 'bury'), its head from now on, now, record or '', letter or '', how many follow, and those as for enqueue.
-- Answers for each 1, or 0 when the fence is not the current one.

local floor, at, answers = tonumber(ARGV[1]), 1, {}
local last = 0

-- What is let go of and has ended, written together at the end.
local settled, let_go, members, ended = {}, {}, {}, {}

local function argument()
  at = at + 1
  return ARGV[at]
end

local function settle(seq, ending, head, now, event, letter)
  local member = padded(seq)
  settled[seq] = true
  let_go[#let_go + 1] = seq
  members[#members + 1] = member
  local job = header(head)
  local whose = tenant(job.route, job.company)
  whose.leased = whose.leased - 1
  if ending == 'end' then
    finish(seq, head)
    ended[#ended + 1] = now
    ended[#ended + 1] = member
  else
    move_out(seq)
    call('SET', K .. 'job:' .. seq, head)
    if ending == 'wait' then
      call('ZADD', K .. 'ends', job.expires, member)
      wait(seq, job, false)
    else
      if call('EXISTS', K .. 'corrected:' .. seq) == 1 then
        call('RENAME', K .. 'corrected:' .. seq, K .. 'data:' .. seq)
      end
      file(seq, letter, numbers('letter', 1, floor) + 1)
    end
  end
  if event ~= '' then
    record(seq, event)
  end
end

while at < #ARGV do
  local seq, fence, ending, head = tonumber(argument()), argument(), argument(), argument()
  local now, event, letter, count = argument(), argument(), argument(), tonumber(argument())
  local is_current = not settled[seq] and fence_of(seq) == fence
  if is_current then
    settle(seq, ending, head, now, event, letter)
    last = count > 0 and numbers('seq', count, floor) or last
  end
  for nth = 1, count do
    local bucket, id, new_head, data, is_new = argument(), argument(), argument(), argument(), argument()
    if is_current then
      take_in(last + nth, bucket, id, new_head, data, is_new == '1')
    end
  end
  answers[#answers + 1] = is_current and 1 or 0
end
each_of('HDEL', K .. 'held', let_go)
each_of('ZREM', K .. 'leases', members)
each_of('ZADD', K .. 'ended', ended)
if last > 0 then
  close_intake(last)
end
settle_blocks()
save()
return answers
