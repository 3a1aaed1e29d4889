-- One line per route: tenants take turns in a ring, each with its own jobs by priority, and the jobs that are
-- not due yet. Put after jobs.lua, before every script that changes who waits.
--
-- A tenant's jobs of one priority are in order of due time and arrival. Those that came in that order are in a
-- list, a few bytes each; the others lie aside in a sorted set, and whichever is first of the two is next. Who
-- leaves the list by another door is put down as having left, and is passed over when it comes up.
--
-- Lanes and tenants are read once in a call and written back by `save`.

-- Jobs at most that one look at a lane puts in line.
local LOOK_JOBS_MAX = 1000

-- Tenants without jobs that a lane remembers at most.
local IDLE_TENANTS_MAX = 10000

-- Every so many jobs that a tenant gets it is the one due longest, whatever its priority.
local OLDEST_EVERY_JOBS = 10

local lanes = {}

local function lane(route)
  local found = lanes[route]
  if not found then
    local kept = call('HGET', K .. 'lanes', route)
    found = {
      route = route,
      tenants = {},
      kept = kept and cmsgpack.unpack(kept) or { place = 1, turns = 0, last = '', ready = 0, idles = 0 },
    }
    lanes[route] = found
  end
  return found
end

local function tenant(route, company)
  local of = lane(route)
  local found = of.tenants[company]
  if not found then
    local kept = call('HGET', K .. 'tenants:' .. route, company)
    found = kept and cmsgpack.unpack(kept)
      or { taken = 0, since = 0, done = 0, at = 0, ready = 0, waiting = 0, leased = 0, place = 0, idle = 0, levels = {} }
    of.tenants[company] = found
  end
  return found
end

local function save()
  for route, of in pairs(lanes) do
    local tenants, idle = K .. 'tenants:' .. route, K .. 'idle:' .. route
    for company, one in pairs(of.tenants) do
      local is_idle = one.waiting == 0 and one.leased == 0
      if is_idle and one.done == 0 then
        call('HDEL', tenants, company)
      else
        if is_idle and one.idle == 0 then
          of.kept.idles = of.kept.idles + 1
          one.idle = of.kept.idles
          call('ZADD', idle, one.idle, company)
        elseif one.idle > 0 and not is_idle then
          one.idle = 0
          call('ZREM', idle, company)
        end
        call('HSET', tenants, company, cmsgpack.pack(one))
      end
    end
    local too_many = call('ZCARD', idle) - IDLE_TENANTS_MAX
    if too_many > 0 then
      local forgotten = call('ZPOPMIN', idle, too_many)
      for nth = 1, #forgotten, 2 do
        call('HDEL', tenants, forgotten[nth])
      end
    end
    if next(of.tenants) then
      call('HSET', K .. 'lanes', route, cmsgpack.pack(of.kept))
    end
  end
end

local function line_of(job)
  return job.route .. '/' .. job.company .. '/' .. job.priority
end

local function later_as(seq, job)
  return padded(seq) .. '/' .. job.company .. '/' .. job.priority
end

-- A job is due. A new one goes into the list, unless it is due before the last one there.
local function ready(seq, job, is_new)
  local of, one = lane(job.route), tenant(job.route, job.company)
  local level = one.levels[tostring(job.priority)]
  if not level then
    level = { live = 0, aside = 0, gone = 0, tail = 0 }
    one.levels[tostring(job.priority)] = level
  end
  if is_new and job.due >= level.tail then
    call('RPUSH', K .. 'line:' .. line_of(job), seq)
    level.tail = job.due
  else
    call('ZADD', K .. 'aside:' .. line_of(job), job.due, padded(seq))
    level.aside = level.aside + 1
  end
  level.live = level.live + 1
  one.ready = one.ready + 1
  of.kept.ready = of.kept.ready + 1
  if one.ready == 1 then
    call('SADD', K .. 'joining:' .. job.route, job.company)
  end
end

-- A job waits: in line at once if it is new, else among the later ones, where a look finds it when it is due.
local function wait(seq, job, is_new)
  local one = tenant(job.route, job.company)
  one.waiting = one.waiting + 1
  if is_new then
    ready(seq, job, true)
  else
    call('ZADD', K .. 'later:' .. job.route, job.due, later_as(seq, job))
  end
end

-- Ready jobs of a level are not ready any more.
local function unready(job, level, count)
  local of, one = lane(job.route), tenant(job.route, job.company)
  level.live = level.live - count
  if level.live == 0 then
    if level.gone > 0 then
      call('DEL', K .. 'line:' .. line_of(job), K .. 'left:' .. line_of(job))
    end
    one.levels[tostring(job.priority)] = nil
  end
  one.ready = one.ready - count
  of.kept.ready = of.kept.ready - count
  if one.ready == 0 then
    call('ZREM', K .. 'ring:' .. job.route, job.company)
    call('SREM', K .. 'joining:' .. job.route, job.company)
    one.place = 0
  end
end

-- A job that waits leaves without its turn having come.
local function leave(seq, job)
  local one = tenant(job.route, job.company)
  one.waiting = one.waiting - 1
  if call('ZREM', K .. 'later:' .. job.route, later_as(seq, job)) == 1 then
    return
  end
  local level = one.levels[tostring(job.priority)]
  if call('ZREM', K .. 'aside:' .. line_of(job), padded(seq)) == 1 then
    level.aside = level.aside - 1
  else
    call('SADD', K .. 'left:' .. line_of(job), seq)
    level.gone = level.gone + 1
  end
  unready(job, level, 1)
end

-- The first job of a level, its due time, and whether it lies aside.
local function first(job, level, needs_due)
  local aside, seq
  if level.aside > 0 then
    aside = call('ZRANGE', K .. 'aside:' .. line_of(job), 0, 0, 'WITHSCORES')
  end
  if level.live > level.aside then
    seq = call('LINDEX', K .. 'line:' .. line_of(job), 0)
    while level.gone > 0 and call('SREM', K .. 'left:' .. line_of(job), seq) == 1 do
      call('LPOP', K .. 'line:' .. line_of(job))
      level.gone = level.gone - 1
      seq = call('LINDEX', K .. 'line:' .. line_of(job), 0)
    end
  end
  if not aside then
    return tonumber(seq), needs_due and header(head_of(seq)).due, false
  end
  local aside_seq, aside_due = tonumber(aside[1]), tonumber(aside[2])
  if not seq then
    return aside_seq, aside_due, true
  end
  local due = header(head_of(seq)).due
  if aside_due < due or (aside_due == due and aside_seq < tonumber(seq)) then
    return aside_seq, aside_due, true
  end
  return tonumber(seq), due, false
end

-- The job that a tenant has had due longest: number, due time, whether aside, and its priority.
local function oldest(route, company, one)
  local found
  for priority = 1, 9 do
    local level = one.levels[tostring(priority)]
    if level then
      local seq, due, aside = first({ route = route, company = company, priority = priority }, level, true)
      if not found or due < found.due or (due == found.due and seq < found.seq) then
        found = { seq = seq, due = due, aside = aside, priority = priority }
      end
    end
  end
  return found
end

-- Takes the tenant's next jobs out of line, at least one and up to `max`, and puts them at the end of `picked`.
local function pop(route, company, one, max, picked)
  local job, nth = { route = route, company = company, priority = 1 }, one.done % OLDEST_EVERY_JOBS
  local next_in, count = nil, 1
  if nth == OLDEST_EVERY_JOBS - 1 then
    next_in = oldest(route, company, one)
    job.priority = next_in.priority
  else
    while not one.levels[tostring(job.priority)] do
      job.priority = job.priority + 1
    end
  end
  local level = one.levels[tostring(job.priority)]
  if not next_in and (level.aside > 0 or level.gone > 0) then
    local seq, _, aside = first(job, level, false)
    next_in = { seq = seq, aside = aside }
  end
  if not next_in then
    count = math.min(max, level.live, OLDEST_EVERY_JOBS - 1 - nth)
  end
  if next_in and next_in.aside then
    call('ZREM', K .. 'aside:' .. line_of(job), padded(next_in.seq))
    level.aside = level.aside - 1
    picked[#picked + 1] = { seq = next_in.seq }
  else
    for _, seq in ipairs(call('LPOP', K .. 'line:' .. line_of(job), count)) do
      picked[#picked + 1] = { seq = tonumber(seq) }
    end
  end
  unready(job, level, count)
  one.waiting, one.done = one.waiting - count, one.done + count
end

-- Finds out what has become due, puts it in line, and lets tenants that have a job now join the ring, by who
-- has been due longest. Says whether there is more.
local function look(route, now)
  local later = K .. 'later:' .. route
  local due = call('ZRANGEBYSCORE', later, '-inf', now, 'WITHSCORES', 'LIMIT', 0, LOOK_JOBS_MAX)
  for nth = 1, #due, 2 do
    local seq, company, priority = string.match(due[nth], '^(%d+)/([^/]+)/(%d)$')
    ready(tonumber(seq), { route = route, company = company, priority = tonumber(priority), due = tonumber(due[nth + 1]) })
  end
  if #due > 0 then
    call('ZREMRANGEBYRANK', later, 0, #due / 2 - 1)
  end
  local joining = call('SMEMBERS', K .. 'joining:' .. route)
  if #joining > 0 then
    for nth, company in ipairs(joining) do
      joining[nth] = oldest(route, company, tenant(route, company))
      joining[nth].company = company
    end
    table.sort(joining, function(a, b)
      return a.due < b.due or (a.due == b.due and a.seq < b.seq)
    end)
    local kept = lane(route).kept
    for _, next_in in ipairs(joining) do
      local one = tenant(route, next_in.company)
      one.place, one.taken, one.since = kept.place, 0, kept.turns
      call('ZADD', K .. 'ring:' .. route, one.place, next_in.company)
      kept.place = kept.place + 1
    end
    call('DEL', K .. 'joining:' .. route)
  end
  return #due == 2 * LOOK_JOBS_MAX
end
