-- Leases jobs. `lane`, `tenant`, `pop` and `put_back` are in lanes.lua, what concerns single jobs in jobs.lua.
-- ARGV: fence, which try, pick, most jobs, now, end of the leases, holder, route, jobs of a turn, the first and the last
-- number of the new jobs that the caller reads from the stream by itself, then for each tenant with terms of its own:
-- company, jobs of its turn, most jobs of it in this claim.
-- Answers: when time alone brings more (or false), how many tenants have a job that is due, number and value of each lease,
-- and of each that is taken over, in the same order, the time and the holder of its last lease. The value is what the
-- stream has of a new job, false if the caller reads it, head and data of any other, or '' of one that is gone.
--
-- The fence is the request's own number: a repetition with the same one, because the answer was lost, gets the same
-- leases.

-- Tenants of the ring that are read at a time.
local RING_PAGE = 64

-- Numbers for each of some new jobs, at most, within which they are read at once: in several partitions numbers lie apart.
local NEAR_PER_JOB = 4

-- Spans of new jobs at most that are looked through for those whose time is over, and for the next such time.
local OVERDUE_SPANS_MAX = 16

local fence, tries, pick = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local max, now, lease_until = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local worker, route, turn_jobs = ARGV[7], ARGV[8], tonumber(ARGV[9])
local terms = {}
local read_from, read_to = tonumber(ARGV[10]), tonumber(ARGV[11])
for at = 12, #ARGV, 3 do
  terms[ARGV[at]] = { turn = tonumber(ARGV[at + 1]), quota = tonumber(ARGV[at + 2]) }
end

-- Of jobs that are taken over: the time and the holder of the last lease.
local lost = {}

-- The tenants of the ring in order, read a page at a time: names and places side by side. A tenant that goes to the back
-- stands there once more: what is read is not changed until the end, so a place that is not the tenant's any more is passed
-- over. Those that went to the back before the whole ring was read wait in `back`.
local ring = { key = K .. 'ring:' .. route, companies = {}, places = {}, more = true, back = {} }

local function put_at_back(company, place)
  if ring.more then
    ring.back[#ring.back + 1] = { company, place }
  else
    local at = #ring.companies + 1
    ring.companies[at], ring.places[at] = company, place
  end
end

local function read_ring()
  local read = #ring.companies
  local page = call('ZRANGE', ring.key, read, read + RING_PAGE - 1, 'WITHSCORES')
  for nth = 1, #page / 2 do
    ring.companies[read + nth], ring.places[read + nth] = page[2 * nth - 1], tonumber(page[2 * nth])
  end
  ring.more = #page == 2 * RING_PAGE
  for nth = 1, ring.more and 0 or #ring.back do
    put_at_back(ring.back[nth][1], ring.back[nth][2])
  end
end

-- Sends a tenant whose turn is over to the back. Not as soon as it is over: a tenant that arrived since then was served
-- less recently.
local function end_turn(company, one, kept)
  local own = terms[company]
  if one.place > 0 and one.taken >= (own and own.turn or turn_jobs) then
    one.taken, one.place = 0, kept.place
    kept.place = kept.place + 1
    put_at_back(company, one.place)
  end
end

-- Takes up to `max` jobs of the lane, tenant after tenant.
local function take_ready()
  local of, picked, count, had = lane(route), {}, 0, {}
  local kept, tenants = of.kept, of.tenants
  -- The share of each in whole turns if all have enough.
  local fair = math.floor(max / math.max(call('ZCARD', ring.key), 1) / turn_jobs) * turn_jobs
  -- Tenants before this are held back: what is left of a quota only shrinks while a claim lasts.
  local at = 1
  while count < max do
    local last = kept.last
    if last ~= '' then
      end_turn(last, tenants[last] or tenant(route, last), kept)
    end
    if ring.more and not ring.companies[at] then
      read_ring()
    end
    local company = ring.companies[at]
    if not company then
      break
    end
    local one, own, left = tenants[company] or tenant(route, company), terms[company], max - count
    local turn = own and own.turn or turn_jobs
    if own then
      left = math.min(left, own.quota - (had[company] or 0))
    end
    if one.place ~= ring.places[at] or left <= 0 then
      at = at + 1
    elseif one.taken >= turn then
      end_turn(company, one, kept)
    else
      local run = math.min(left, turn - one.taken, one.ready)
      if last ~= company or one.taken == 0 then
        kept.turns = kept.turns + 1
        kept.last = company
      end
      local enough = count + run
      while count < enough do
        count = count + pop(route, company, one, enough - count, math.min(left, fair), picked, count)
      end
      one.taken, one.leased = one.taken + run, one.leased + run
      one.since, one.at = kept.turns, now
      if own then
        had[company] = (had[company] or 0) + run
      end
    end
  end
  put_back()
  return picked
end

-- The new jobs of a span that wait, each with the end of its life, and the earliest of those ends.
local function waiting_in(span)
  local from, to = span * SPAN_JOBS, span * SPAN_JOBS + SPAN_JOBS - 1
  local entries, seqs = call('XRANGE', K .. 'new', from, to), {}
  for nth, entry in ipairs(entries) do
    seqs[nth] = seq_at(entry[1])
  end
  local found, earliest = {}, nil
  for nth, held in ipairs(#seqs > 0 and call('HMGET', K .. 'held', unpack(seqs)) or {}) do
    if not held then
      local expires = header((unpacked(entries[nth]))).expires
      found[#found + 1] = { seq = tonumber(seqs[nth]), expires = expires }
      earliest = math.min(earliest or expires, expires)
    end
  end
  return found, earliest
end

local function note_earliest(span, earliest)
  if earliest then
    call('ZADD', K .. 'spanends', earliest, span)
  else
    call('ZREM', K .. 'spanends', span)
  end
end

-- Takes up to `max` waiting jobs whose time is over, the earliest first.
local function take_overdue()
  local found, limit = {}, now
  local spans = call('ZRANGEBYSCORE', K .. 'spanends', '-inf', now, 'WITHSCORES', 'LIMIT', 0, OVERDUE_SPANS_MAX + 1)
  if #spans > 2 * OVERDUE_SPANS_MAX then
    -- Nothing in the spans that are left comes before this.
    limit = tonumber(table.remove(spans))
    table.remove(spans)
  end
  for at = 1, #spans, 2 do
    for _, one in ipairs((waiting_in(tonumber(spans[at])))) do
      found[#found + 1] = one
    end
  end
  local ends = call('ZRANGEBYSCORE', K .. 'ends', '-inf', limit, 'WITHSCORES', 'LIMIT', 0, max)
  for at = 1, #ends, 2 do
    found[#found + 1] = { seq = tonumber(ends[at]), expires = tonumber(ends[at + 1]) }
  end
  table.sort(found, function(a, b)
    return a.expires < b.expires or (a.expires == b.expires and a.seq < b.seq)
  end)
  local picked = {}
  for _, one in ipairs(found) do
    if #picked == max or one.expires > limit then
      break
    end
    picked[#picked + 1] = tostring(one.seq)
    local job = header(head_of(one.seq))
    leave(one.seq, job)
    local whose = tenant(job.route, job.company)
    whose.leased = whose.leased + 1
  end
  return picked
end

-- Takes leases over that ran out, the earliest first, and puts down what they were.
local function take_orphaned()
  local found = {}
  local ends = call('ZRANGEBYSCORE', K .. 'leases', '-inf', now, 'WITHSCORES', 'LIMIT', 0, max)
  for at = 1, #ends, 2 do
    local member, seqs = ends[at], nil
    if #member == FENCE_BYTES then
      seqs = cmsgpack.unpack(call('GET', K .. 'claim:' .. member)).picked
    else
      seqs = { tostring(tonumber(member)) }
    end
    for nth, held in ipairs(call('HMGET', K .. 'held', unpack(seqs))) do
      if held and (#seqs == 1 or not is_extended(held) and fence_in(held) == member) then
        found[#found + 1] = { seq = seqs[nth], ends = tonumber(ends[at + 1]), held = held }
      end
    end
  end
  table.sort(found, function(a, b)
    return a.ends < b.ends or (a.ends == b.ends and tonumber(a.seq) < tonumber(b.seq))
  end)
  local picked, helds = {}, {}
  for nth = 1, math.min(max, #found) do
    local one = found[nth]
    picked[nth], helds[nth] = one.seq, one.held
    lost[one.seq] = { holder_in(one.held) }
  end
  end_leases(picked, helds)
  return picked
end

-- Jobs that the caller reads by itself. Those that came from a list are new, and so in the stream, but for the oldest ones.
local function read_by_caller(picked)
  local read = {}
  if pick == 'ready' and read_to > 0 then
    local from = math.max(read_from, tonumber(call('HGET', K .. 'counters', 'moved') or 0) + 1)
    for _, seq in ipairs(picked) do
      local number = tonumber(seq)
      read[seq] = number >= from and number <= read_to and not taken_aside[seq]
    end
  end
  return read
end

-- Entries of new jobs by number, read at once where those that were picked lie close together.
local function new_entries(picked, read)
  local least, most, count, entries = math.huge, 0, 0, {}
  for _, seq in ipairs(picked) do
    if not read[seq] then
      local number = tonumber(seq)
      least, most, count = math.min(least, number), math.max(most, number), count + 1
    end
  end
  if count > 0 and most - least < NEAR_PER_JOB * count then
    for _, entry in ipairs(call('XRANGE', K .. 'new', least, most)) do
      entries[seq_at(entry[1])] = entry
    end
  end
  return entries
end

-- Puts down who holds them, and answers with what their holder needs.
local function lease(picked, is_repeated)
  local held, waited, jobs, taken_over = {}, {}, {}, {}
  local fresh, read = lease_from(fence, now, worker), is_repeated and {} or read_by_caller(picked)
  local entries = new_entries(picked, read)
  for nth, seq in ipairs(picked) do
    -- A claim that names no provider keeps the one of the lease that it takes over.
    local provider = lost[seq] and string.byte(worker, -1) == 0 and string.match(lost[seq][2], '%z([^%z]*)$')
    held[2 * nth - 1], held[2 * nth] = seq, provider and lease_from(fence, now, worker .. provider) or fresh
    local value = false
    if not read[seq] then
      local entry = entries[seq] or new_entry(seq)
      if entry and not entry[2][4] then
        value = entry[2][2]
      else
        local head, data = find(seq)
        value = head and { head, data } or ''
      end
      if not entry then
        waited[#waited + 1] = padded(seq)
      end
    end
    jobs[2 * nth - 1], jobs[2 * nth] = seq, value
    taken_over[nth] = lost[seq]
  end
  each_of('ZREM', K .. 'ends', waited)
  if #picked > 0 then
    held[#held + 1], held[#held + 2] = NO_JOB, LONG_VALUE
    each_of('HSET', K .. 'held', held)
    call('HINCRBY', K .. 'claims', fence, #picked)
    call('ZADD', K .. 'leases', lease_until, fence)
    call('SET', K .. 'claim:' .. fence, cmsgpack.pack({ tries = tries, picked = picked, lost = lost }))
  end
  return jobs, taken_over
end

local function first_after(key)
  local score = call('ZRANGEBYSCORE', key, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return score and tonumber(score)
end

-- The earliest end of life that is still to come. A span's note may be of a job that is gone: then it is put
-- right and the next one is looked at.
local function next_overdue()
  local own = first_after(K .. 'ends')
  for _ = 1, OVERDUE_SPANS_MAX do
    local noted = call('ZRANGEBYSCORE', K .. 'spanends', '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #noted == 0 then
      return own
    end
    local _, earliest = waiting_in(tonumber(noted[1]))
    if earliest == tonumber(noted[2]) then
      return math.min(own or earliest, earliest)
    end
    note_earliest(tonumber(noted[1]), earliest)
  end
  return now
end

-- Puts a job back that the repetition has no use for any more.
local function give_back(seq)
  local job = header(head_of(seq))
  local whose = tenant(job.route, job.company)
  whose.leased = whose.leased - 1
  if new_entry(seq) then
    call('ZADD', K .. 'spanends', 'LT', job.expires, span_of(seq))
  else
    call('ZADD', K .. 'ends', job.expires, padded(seq))
  end
  wait(seq, job, false)
end

-- The jobs that this very request took before, as far as it still holds them and not more than is wanted now.
-- A try that arrives after a later one gets nothing: no caller waits for its answer.
local function taken_before()
  local kept = call('GET', K .. 'claim:' .. fence)
  if not kept then
    return nil
  end
  kept = cmsgpack.unpack(kept)
  lost = kept.lost
  local again, ended, helds = {}, {}, {}
  for _, seq in ipairs(tries > kept.tries and kept.picked or {}) do
    local held = call('HGET', K .. 'held', seq)
    local is_held, is_wanted = held and fence_in(held) == fence, #again < max
    if is_held and (is_wanted or not lost[seq]) then
      ended[#ended + 1], helds[#helds + 1] = seq, held
      if is_wanted then
        again[#again + 1] = seq
      else
        give_back(seq)
      end
    end
  end
  end_leases(ended, helds)
  return again
end

local function next_at()
  if pick == 'overdue' then
    return next_overdue()
  elseif pick == 'orphaned' then
    return first_after(K .. 'leases')
  end
  return first_after(K .. 'later:' .. route)
end

local picked, more = taken_before(), false
local is_repeated = picked ~= nil
if not picked then
  if pick == 'overdue' then
    picked = take_overdue()
  elseif pick == 'orphaned' then
    picked = take_orphaned()
  else
    more = look(route, now)
    picked = take_ready()
  end
end
local jobs, taken_over = lease(picked, is_repeated)
local at = more and now or next_at()
save()
return { at or false, pick == 'ready' and call('ZCARD', ring.key) or 0, jobs, taken_over }
