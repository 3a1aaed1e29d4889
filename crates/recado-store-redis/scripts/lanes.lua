-- One line per route: tenants take turns in a ring, each with its own jobs by priority, and the jobs that are
-- not due yet. Put after jobs.lua, before every script that changes who waits.
--
-- A tenant's jobs of one priority are in order of due time and arrival. Those that were due when they came are in a
-- list as they came, a few bytes each; the others lie aside in a sorted set, and whichever is first of the two is
-- next. A job that leaves out of turn (cancelled, expired) is recorded as gone, and skipped when its turn
-- comes.
--
-- Lanes and tenants are read once in a call, and written back by `save` with all that was put into lists and moved
-- in the ring.

-- Jobs at most that one look at a lane puts in line.
local LOOK_JOBS_MAX = 1000

-- Tenants without jobs that a lane remembers at most.
local IDLE_TENANTS_MAX = 10000

-- One in this many of a tenant's jobs on a route is the one due longest, whatever its priority.
local OLDEST_EVERY_JOBS = 10

-- Levels by priority, most urgent first.
local LEVELS = { '1', '2', '3', '4', '5', '6', '7', '8', '9' }

local lanes = {}

-- By level: jobs that this call adds to its list, and jobs that it took off the list and has not leased.
local added, drawn = {}, {}

-- Jobs that this call took out of line from aside, by number as text.
local taken_aside = {}

local function lane(route)
  local found = lanes[route]
  if not found then
    local kept = call('HGET', K .. 'lanes', route)
    found = {
      route = route,
      tenants = {},
      -- The place of each in the ring as it is written.
      places = {},
      kept = kept and cmsgpack.unpack(kept) or { place = 1, turns = 0, last = '', ready = 0, idles = 0 },
    }
    lanes[route] = found
  end
  return found
end

local function tenant(route, company)
  local of = lanes[route] or lane(route)
  local found = of.tenants[company]
  if not found then
    local kept = call('HGET', K .. 'tenants:' .. route, company)
    found = kept and cmsgpack.unpack(kept)
      or { taken = 0, since = 0, done = 0, at = 0, ready = 0, waiting = 0, leased = 0, place = 0, idle = 0, levels = {} }
    of.tenants[company], of.places[company] = found, found.place
  end
  return found
end

local function save_ring(route, of)
  local moved, left = {}, {}
  for company, one in pairs(of.tenants) do
    if one.place == 0 and of.places[company] > 0 then
      left[#left + 1] = company
    elseif one.place ~= of.places[company] then
      moved[#moved + 1] = one.place
      moved[#moved + 1] = company
    end
    of.places[company] = one.place
  end
  each_of('ZADD', K .. 'ring:' .. route, moved)
  each_of('ZREM', K .. 'ring:' .. route, left)
end

local function save()
  for _, add in pairs(added) do
    each_of('RPUSH', add.line, add.seqs)
  end
  for route, of in pairs(lanes) do
    local tenants, idle = K .. 'tenants:' .. route, K .. 'idle:' .. route
    local kept = {}
    save_ring(route, of)
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
        kept[#kept + 1] = company
        kept[#kept + 1] = cmsgpack.pack(one)
      end
    end
    each_of('HSET', tenants, kept)
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

-- A job of this tenant is due. A new one was when it came: it goes to the end of the list, though one that was there
-- before it may have been asked for a moment later.
local function ready(seq, job, one, is_new)
  local kept, level = lanes[job.route].kept, one.levels[LEVELS[job.priority]]
  if not level then
    level = { live = 0, aside = 0, gone = 0 }
    one.levels[LEVELS[job.priority]] = level
  end
  if is_new then
    local add = added[level]
    if not add then
      add = { line = K .. 'line:' .. line_of(job), seqs = {} }
      added[level] = add
    end
    add.seqs[#add.seqs + 1] = seq
  else
    call('ZADD', K .. 'aside:' .. line_of(job), job.due, padded(seq))
    level.aside = level.aside + 1
  end
  level.live = level.live + 1
  one.ready = one.ready + 1
  kept.ready = kept.ready + 1
  if one.ready == 1 then
    call('SADD', K .. 'joining:' .. job.route, job.company)
  end
end

-- A job waits: in line at once if it is new, else among the later ones, where a look finds it when it is due.
local function wait(seq, job, is_new)
  local one = tenant(job.route, job.company)
  one.waiting = one.waiting + 1
  if is_new then
    ready(seq, job, one, true)
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
    one.levels[LEVELS[job.priority]] = nil
  end
  one.ready = one.ready - count
  of.kept.ready = of.kept.ready - count
  if one.ready == 0 then
    if one.place == 0 then
      call('SREM', K .. 'joining:' .. job.route, job.company)
    end
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
  local level = one.levels[LEVELS[job.priority]]
  if call('ZREM', K .. 'aside:' .. line_of(job), padded(seq)) == 1 then
    level.aside = level.aside - 1
  else
    call('SADD', K .. 'left:' .. line_of(job), seq)
    level.gone = level.gone + 1
  end
  unready(job, level, 1)
end

-- Takes `count` jobs off a level's list, and puts their numbers behind the first `before` of `picked`. In the first go it is `ahead`, if that is more: a call costs more than the
-- jobs that are not leased and that `put_back` returns.
local function draw(job, level, count, ahead, picked, before)
  local hand = drawn[level]
  if not hand then
    hand = { line = K .. 'line:' .. line_of(job), at = 1 }
    hand.seqs = call('LPOP', hand.line, math.max(count, ahead))
    drawn[level] = hand
  end
  local seqs, at = hand.seqs, hand.at
  for nth = 1, count do
    local seq = seqs[at]
    if not seq then
      seqs, at = call('LPOP', hand.line, count - nth + 1), 1
      seq = seqs[1]
    end
    picked[before + nth] = seq
    at = at + 1
  end
  hand.seqs, hand.at = seqs, at
end

local function put_back()
  for _, hand in pairs(drawn) do
    local left = {}
    for at = #hand.seqs, hand.at, -1 do
      left[#left + 1] = hand.seqs[at]
    end
    each_of('LPUSH', hand.line, left)
  end
end

-- The first job of a level, its due time, and whether it lies aside.
local function first(job, level, needs_due)
  local aside, seq
  if level.aside > 0 then
    aside = call('ZRANGE', K .. 'aside:' .. line_of(job), 0, 0, 'WITHSCORES')
  end
  if level.live > level.aside then
    local hand = drawn[level]
    seq = hand and hand.seqs[hand.at] or call('LINDEX', K .. 'line:' .. line_of(job), 0)
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
  for priority, name in ipairs(LEVELS) do
    local level = one.levels[name]
    if level then
      local seq, due, aside = first({ route = route, company = company, priority = priority }, level, true)
      if not found or due < found.due or (due == found.due and seq < found.seq) then
        found = { seq = seq, due = due, aside = aside, priority = priority }
      end
    end
  end
  return found
end

-- Takes the tenant's next jobs out of line, at least one and up to `max`, and puts their numbers behind the first `before` of
-- `picked`. It may get up to `ahead` before this call is over. Answers how many there were.
local function pop(route, company, one, max, ahead, picked, before)
  local nth, name, level = one.done % OLDEST_EVERY_JOBS, next(one.levels)
  local has_one_level = not next(one.levels, name)
  local job = { route = route, company = company, priority = tonumber(name) }
  local next_in, count = nil, 1
  if nth == OLDEST_EVERY_JOBS - 1 and not has_one_level then
    next_in = oldest(route, company, one)
    job.priority = next_in.priority
    level = one.levels[LEVELS[job.priority]]
  elseif not has_one_level then
    job.priority = 1
    while not one.levels[LEVELS[job.priority]] do
      job.priority = job.priority + 1
    end
    level = one.levels[LEVELS[job.priority]]
  end
  if not next_in and (level.aside > 0 or level.gone > 0) then
    local seq, _, aside = first(job, level, false)
    next_in = { seq = seq, aside = aside }
  end
  if not next_in then
    count = math.min(max, level.live)
    if not has_one_level then
      count = math.min(count, OLDEST_EVERY_JOBS - 1 - nth)
    end
  end
  if not next_in then
    draw(job, level, count, ahead, picked, before)
  elseif next_in.aside then
    call('ZREM', K .. 'aside:' .. line_of(job), padded(next_in.seq))
    level.aside = level.aside - 1
    picked[before + 1] = tostring(next_in.seq)
    taken_aside[picked[before + 1]] = true
  else
    draw(job, level, 1, 1, picked, before)
  end
  unready(job, level, count)
  one.waiting, one.done = one.waiting - count, one.done + count
  return count
end

-- Finds out what has become due, puts it in line, and lets tenants that have a job now join the ring, by who
-- has been due longest. Says whether there is more.
local function look(route, now)
  local later = K .. 'later:' .. route
  local due = call('ZRANGEBYSCORE', later, '-inf', now, 'WITHSCORES', 'LIMIT', 0, LOOK_JOBS_MAX)
  for nth = 1, #due, 2 do
    local seq, company, priority = string.match(due[nth], '^(%d+)/([^/]+)/(%d)$')
    local job = { route = route, company = company, priority = tonumber(priority), due = tonumber(due[nth + 1]) }
    ready(tonumber(seq), job, tenant(route, company))
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
      kept.place = kept.place + 1
    end
    save_ring(route, lane(route))
    call('DEL', K .. 'joining:' .. route)
  end
  return #due == 2 * LOOK_JOBS_MAX
end
