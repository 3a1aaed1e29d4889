-- Leases jobs.
-- ARGV: fence, which try, pick, most jobs, now, end of the leases, holder, route, jobs of a turn, then for each tenant with
-- terms of its own: company, jobs of its turn, most jobs of it in this claim.
-- Answers: when time alone brings more (or false), how many tenants have a job that is due, number, head and data of
-- each lease, and of each that is taken over, in the same order, the time and the holder of its last lease.
--
-- The fence is the request's own number: a repetition with the same one, because the answer was lost, gets the same
-- leases.

-- Tenants of the ring that are read at a time.
local RING_PAGE = 64

-- Blocks of new jobs at most that are looked through for those whose time is over, and for the next such time.
local OVERDUE_BLOCKS_MAX = 64

local fence, tries, pick = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local max, now, lease_until = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local worker, route, turn_jobs = ARGV[7], ARGV[8], tonumber(ARGV[9])
local terms = {}
for at = 10, #ARGV, 3 do
  terms[ARGV[at]] = { turn = tonumber(ARGV[at + 1]), quota = tonumber(ARGV[at + 2]) }
end

-- Of jobs that are taken over: the time and the holder of the last lease.
local lost = {}

local function turn_of(company)
  return terms[company] and terms[company].turn or turn_jobs
end

-- The tenants of the ring in order, read a page at a time. A tenant that goes to the back stands there once more: what is
-- read is not changed until the end, so a place that is not the tenant's any more is passed over.
local ring = { key = K .. 'ring:' .. route, read = {}, more = true, back = {} }

local function ring_at(at)
  if ring.more and at > #ring.read / 2 then
    local from = #ring.read / 2
    local page = call('ZRANGE', ring.key, from, from + RING_PAGE - 1, 'WITHSCORES')
    for _, value in ipairs(page) do
      ring.read[#ring.read + 1] = value
    end
    ring.more = #page == 2 * RING_PAGE
  end
  local read = #ring.read / 2
  if at <= read then
    return ring.read[2 * at - 1], tonumber(ring.read[2 * at])
  end
  local behind = ring.back[at - read]
  if behind then
    return behind.company, behind.place
  end
end

-- Sends a tenant whose turn is over to the back. Not as soon as it is over: a tenant that arrived since then was served
-- less recently.
local function end_turn(company)
  local one, kept = tenant(route, company), lane(route).kept
  if one.place > 0 and one.taken >= turn_of(company) then
    one.taken, one.place = 0, kept.place
    kept.place = kept.place + 1
    ring.back[#ring.back + 1] = { company = company, place = one.place }
  end
end

-- Takes up to `max` jobs of the lane, tenant after tenant.
local function take_ready()
  local of, picked, had = lane(route), {}, {}
  -- The share of each in whole turns if all have enough.
  local fair = math.floor(max / math.max(call('ZCARD', ring.key), 1) / turn_jobs) * turn_jobs
  -- Tenants before this are held back: what is left of a quota only shrinks while a claim lasts.
  local at = 1
  while #picked < max do
    if of.kept.last ~= '' then
      end_turn(of.kept.last)
    end
    local company, place = ring_at(at)
    if not company then
      break
    end
    local one, left = tenant(route, company), max - #picked
    if terms[company] then
      left = math.min(left, terms[company].quota - (had[company] or 0))
    end
    if one.place ~= place or left <= 0 then
      at = at + 1
    elseif one.taken >= turn_of(company) then
      end_turn(company)
    else
      local run = math.min(left, turn_of(company) - one.taken, one.ready)
      if of.kept.last ~= company or one.taken == 0 then
        of.kept.turns = of.kept.turns + 1
        of.kept.last = company
      end
      local enough = #picked + run
      while #picked < enough do
        pop(route, company, one, enough - #picked, math.min(left, fair), picked)
      end
      one.taken, one.leased = one.taken + run, one.leased + run
      one.since, one.at = of.kept.turns, now
      had[company] = (had[company] or 0) + run
    end
  end
  put_back()
  return picked
end

-- The new jobs of a block that wait, each with the end of its life, and the earliest of those ends.
local function waiting_in(block)
  local from, to = block * BLOCK_JOBS, block * BLOCK_JOBS + BLOCK_JOBS - 1
  local entries, seqs = call('XRANGE', K .. 'new', from, to), {}
  for nth, entry in ipairs(entries) do
    seqs[nth] = seq_at(entry[1])
  end
  local found, earliest = {}, nil
  for nth, held in ipairs(#seqs > 0 and call('HMGET', K .. 'held', unpack(seqs)) or {}) do
    if not held then
      local expires = header(entries[nth][2][2]).expires
      found[#found + 1] = { seq = tonumber(seqs[nth]), expires = expires }
      earliest = math.min(earliest or expires, expires)
    end
  end
  return found, earliest
end

local function note_earliest(block, earliest)
  if earliest then
    call('ZADD', K .. 'newends', earliest, block)
  else
    call('ZREM', K .. 'newends', block)
  end
end

-- Takes up to `max` waiting jobs whose time is over, the earliest first.
local function take_overdue()
  local found, limit = {}, now
  local blocks = call('ZRANGEBYSCORE', K .. 'newends', '-inf', now, 'WITHSCORES', 'LIMIT', 0, OVERDUE_BLOCKS_MAX + 1)
  if #blocks > 2 * OVERDUE_BLOCKS_MAX then
    -- Nothing in the blocks that are left comes before this.
    limit = tonumber(table.remove(blocks))
    table.remove(blocks)
  end
  for at = 1, #blocks, 2 do
    for _, one in ipairs((waiting_in(tonumber(blocks[at])))) do
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

-- Entries of new jobs by number, read at once where those that were picked lie close together.
local function new_entries(picked)
  local least, most, entries = math.huge, 0, {}
  for _, seq in ipairs(picked) do
    seq = tonumber(seq)
    least, most = math.min(least, seq), math.max(most, seq)
  end
  if #picked > 0 and most - least < 2 * #picked then
    for _, entry in ipairs(call('XRANGE', K .. 'new', least, most)) do
      entries[seq_at(entry[1])] = entry[2]
    end
  end
  return entries
end

-- Puts down who holds them, and answers with what their holder needs.
local function lease(picked)
  local held, waited, jobs, taken_over = {}, {}, {}, {}
  local fresh, entries = lease_from(fence, now, worker), new_entries(picked)
  for nth, seq in ipairs(picked) do
    local entry = entries[seq]
    -- A claim that names no provider keeps the one of the lease that it takes over.
    local provider = lost[seq] and string.byte(worker, -1) == 0 and string.match(lost[seq][2], '%z([^%z]*)$')
    held[2 * nth - 1], held[2 * nth] = seq, provider and lease_from(fence, now, worker .. provider) or fresh
    local head, data, is_new
    if entry then
      head, data, is_new = entry[2], entry[4], true
    else
      head, data, is_new = find(seq)
    end
    if not is_new then
      waited[#waited + 1] = padded(seq)
    end
    jobs[3 * nth - 2], jobs[3 * nth - 1], jobs[3 * nth] = seq, head, data
    taken_over[nth] = lost[seq]
  end
  each_of('HSET', K .. 'held', held)
  each_of('ZREM', K .. 'ends', waited)
  if #picked > 0 then
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

-- The earliest end of life that is still to come. A block's note may be of a job that is gone: then it is put
-- right and the next one is looked at.
local function next_overdue()
  local own = first_after(K .. 'ends')
  for _ = 1, OVERDUE_BLOCKS_MAX do
    local noted = call('ZRANGEBYSCORE', K .. 'newends', '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
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
    call('ZADD', K .. 'newends', 'LT', job.expires, block_of(seq))
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
local jobs, taken_over = lease(picked)
local at = more and now or next_at()
save()
return { at or false, pick == 'ready' and call('ZCARD', ring.key) or 0, jobs, taken_over }
