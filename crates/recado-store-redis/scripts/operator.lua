-- Changes a job that is not leased: an operator's action, or the end of a dead letter's time.
-- ARGV: floor of the numbers, number, the head it was decided by, verb ('cancel', 'recall', 'redrive' or 'give-up'),
-- its head from now on, now, record, '1' and the corrected data or '0' and '', and what follows as for enqueue but for the number.
-- Answers 1, or 0 when the job is not any more what it was when that was decided.

local floor, seq, before, verb = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local head, now, event = ARGV[5], ARGV[6], ARGV[7]
local count = (#ARGV - 9) / 5

-- As RECALLED_KEPT of recado-core.
local RECALLED_KEPT_MS = 24 * 60 * 60 * 1000

if head_of(seq) ~= before or call('HEXISTS', K .. 'held', seq) == 1 then
  return 0
end
local job = header(head)
if verb == 'cancel' then
  leave(seq, header(before))
  forget_end(seq)
  finish({ seq })
  call('SET', K .. 'job:' .. seq, head)
  note_ended(now, { seq }, 1, 1)
elseif verb == 'recall' then
  -- A replay that is called off leaves the dead letter where it was, for a day at least.
  leave(seq, header(before))
  forget_end(seq)
  call('SET', K .. 'job:' .. seq, head)
  local letter = call('GET', K .. 'letter:' .. seq)
  local readable, expires = pcall(indexed_fields, letter)
  local kept = now + RECALLED_KEPT_MS
  if not readable then
    expires = kept
  elseif kept > expires then
    expires = kept
    call('SET', K .. 'letter:' .. seq, struct.pack('>I6', kept) .. string.sub(letter, 7))
  end
  call('ZADD', K .. 'deadlines', expires, padded(seq))
elseif verb == 'redrive' then
  call('SET', K .. 'job:' .. seq, head)
  if ARGV[8] == '1' then
    call('SET', K .. 'corrected:' .. seq, ARGV[9])
  end
  call('ZREM', K .. 'deadlines', padded(seq))
  call('ZADD', K .. 'ends', job.expires, padded(seq))
  wait(seq, job, false)
else
  finish({ seq })
  -- A dead letter whose value is gone is still in these.
  call('ZREM', K .. 'dead', padded(seq))
  call('ZREM', K .. 'deadlines', padded(seq))
  call('SET', K .. 'job:' .. seq, head)
  note_ended(now, { seq }, 1, 1)
end
record(seq, event)
if count > 0 then
  local last = numbers('seq', count, floor)
  for nth = 1, count do
    local at = 10 + (nth - 1) * 5
    take_in(last + nth, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] == '1')
  end
  close_intake(last + count)
end
save_records()
settle_spans()
save()
return 1
