-- Versions of notes. Put after root.lua. All notes share one slot, so that versions grow over all shelves.

-- Gives out the next version, and makes it the shelf's. It is the server's time in microseconds, or one more than the
-- last if that is later: a server that lost data gives out other versions than those that were lost with it, so an
-- outdated copy does not pass for the current one.
local function next_version(shelf)
  local time = call('TIME')
  local version = math.max(time[1] * 1000000 + time[2], tonumber(call('GET', K .. 'version') or 0) + 1)
  local digits = string.format('%.0f', version)
  call('SET', K .. 'version', digits)
  call('HSET', K .. 'shelves', shelf, digits)
  return version
end

