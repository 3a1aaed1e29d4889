-- Ends leases: all of them, or none if one of them is not current.
-- ARGV: floor of the numbers; how many jobs, and their numbers; how many groups of them, in that order, and each: the
-- fence, what becomes of its jobs ('e'nd, 'w'ait or are 'b'uried), now, how many; of each job its key and its head from
-- now on; how many records, and each after the number of its job; the letter of each job that is buried; how many tenants,
-- and each: route, company and how many of the jobs are its; then for each job that follows as for enqueue but for the
-- number.
-- Answers for each job 1, or 0 when the fence is not the current one. With a 0 among them nothing was done: the caller asks
-- again for the others.
--
-- Values that go into one command lie side by side, so they are handed on as they came.

local JOB_ARGUMENTS = 5

local floor, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local seqs, at = { unpack(ARGV, 3, 2 + count) }, 3 + count
local helds = call('HMGET', K .. 'held', unpack(seqs))

local groups, answers, is_stale, all_end = {}, {}, false, true
for nth = 1, tonumber(ARGV[at]) do
  local fence, ending, from, to = ARGV[at + 1], ARGV[at + 2], #answers + 1, #answers + tonumber(ARGV[at + 4])
  groups[nth] = { ending = ending, now = ARGV[at + 3], from = from, to = to }
  all_end = all_end and ending == 'e'
  local last_held, is_current
  for job = from, to do
    -- Those of one claim are held alike.
    if helds[job] ~= last_held then
      last_held = helds[job]
      is_current = last_held and fence_in(last_held) == fence
    end
    answers[job] = is_current and 1 or 0
    is_stale = is_stale or not is_current
  end
  at = at + 4
end
if is_stale then
  return answers
end

local heads = at + 1
local events = heads + 2 * count
local letter = events + 1 + 2 * tonumber(ARGV[events])

local ended = all_end and seqs or {}
for _, group in ipairs(groups) do
  if group.ending == 'e' then
    note_ended(group.now, seqs, group.from, group.to)
  end
  for nth = group.from, all_end and 0 or group.to do
    local seq = seqs[nth]
    if group.ending == 'e' then
      ended[#ended + 1] = seq
    elseif group.ending == 'w' then
      local job = header(ARGV[heads + 2 * nth - 1])
      move_out(seq)
      call('ZADD', K .. 'ends', job.expires, padded(seq))
      wait(seq, job, false)
    else
      move_out(seq)
      add_dead_letter(seq, ARGV[letter], floor)
      letter = letter + 1
    end
  end
end
finish(ended)
call('MSET', unpack(ARGV, heads, events - 1))
end_leases(seqs, helds)
record_all({ unpack(ARGV, events + 1, events + 2 * tonumber(ARGV[events])) })

at = letter
for _ = 1, tonumber(ARGV[at]) do
  local whose = tenant(ARGV[at + 1], ARGV[at + 2])
  whose.leased = whose.leased - tonumber(ARGV[at + 3])
  at = at + 3
end
local last = 0
for job = at + 1, #ARGV, JOB_ARGUMENTS do
  last = numbers('seq', 1, floor) + 1
  take_in(last, ARGV[job], ARGV[job + 1], ARGV[job + 2], ARGV[job + 3], ARGV[job + 4] == '1')
end
if last > 0 then
  close_intake(last)
end
save_records()
settle_spans()
save()
return answers
