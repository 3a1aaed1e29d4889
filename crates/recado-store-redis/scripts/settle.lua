-- Ends leases, each wholly or not at all.
-- ARGV: floor of the numbers; how many groups of settlements, and each: the fence, what becomes of the jobs ('e'nds,
-- 'w'ait or are 'b'uried), now, how many, and for each job its number, its head from now on, its record or '', and if it
-- is buried its letter; then how many tenants, and each: route, company and how many of the jobs are its; then for each
-- job that follows: of which settlement, and as for enqueue but for the number.
-- Answers for each settlement 1, or 0 when the fence is not the current one.

local JOB_ARGUMENTS = 6

local floor, at, answers = tonumber(ARGV[1]), 2, {}

-- The groups, each with where its first job is; then who holds each job.
local groups, seqs = {}, {}
for nth = 1, tonumber(ARGV[at]) do
  local ending, count = ARGV[at + 2], tonumber(ARGV[at + 4])
  local size = ending == 'b' and 4 or 3
  groups[nth] = { fence = ARGV[at + 1], ending = ending, now = ARGV[at + 3], from = at + 5, size = size, count = count }
  for job = at + 5, at + 4 + count * size, size do
    seqs[#seqs + 1] = ARGV[job]
  end
  at = at + 4 + count * size
end
local held = call('HMGET', K .. 'held', unpack(seqs))

-- Leases that end, as they were kept, and the heads of their jobs, written together.
local settled, let_go, helds, heads = {}, {}, {}, {}

-- The job does not end here: it waits or is a dead letter.
local function stay(seq, ending, head, letter)
  move_out(seq)
  if ending == 'w' then
    local job = header(head)
    call('ZADD', K .. 'ends', job.expires, padded(seq))
    wait(seq, job, false)
  else
    add_dead_letter(seq, letter, floor)
  end
end

-- Settles those of a group whose lease is current. Who is not is still leased to another one.
local function settle(group)
  local ended, last_held, is_current = {}, nil, false
  for from = group.from, group.from + (group.count - 1) * group.size, group.size do
    local seq, head, event = ARGV[from], ARGV[from + 1], ARGV[from + 2]
    local held_as = held[#answers + 1]
    -- Those of one claim are held alike.
    if held_as ~= last_held then
      last_held, is_current = held_as, held_as and fence_in(held_as) == group.fence
    end
    if is_current and not settled[seq] then
      settled[seq] = true
      let_go[#let_go + 1] = seq
      helds[#helds + 1] = held_as
      heads[#heads + 1] = K .. 'job:' .. seq
      heads[#heads + 1] = head
      if group.ending == 'e' then
        ended[#ended + 1] = seq
      else
        stay(seq, group.ending, head, ARGV[from + 3])
      end
      if event ~= '' then
        record(seq, event)
      end
      answers[#answers + 1] = 1
    else
      local whose = tenant(owner(head))
      whose.leased = whose.leased + 1
      answers[#answers + 1] = 0
    end
  end
  if #ended > 0 then
    finish(ended)
    note_ended(group.now, ended)
  end
end

for _, group in ipairs(groups) do
  settle(group)
end
if #heads > 0 then
  call('MSET', unpack(heads))
end
end_leases(let_go, helds)
at = at + 1
for _ = 1, tonumber(ARGV[at]) do
  local whose = tenant(ARGV[at + 1], ARGV[at + 2])
  whose.leased = whose.leased - tonumber(ARGV[at + 3])
  at = at + 3
end
local last = 0
for job = at + 1, #ARGV, JOB_ARGUMENTS do
  if answers[tonumber(ARGV[job])] == 1 then
    last = numbers('seq', 1, floor) + 1
    take_in(last, ARGV[job + 1], ARGV[job + 2], ARGV[job + 3], ARGV[job + 4], ARGV[job + 5] == '1')
  end
end
if last > 0 then
  close_intake(last)
end
save_records()
settle_blocks()
save()
return answers
