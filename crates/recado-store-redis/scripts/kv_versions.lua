-- Versions of key-value entries. Put after root.lua. All entries share one slot, so that versions grow over all namespaces.

-- Gives out the next version, and makes it the namespace's. It is the server's time in microseconds, or one more than the
-- last if that is later: a server that lost data gives out other versions than those that were lost with it, so an
-- outdated copy does not pass for the current one.
local function next_version(namespace)
  local time = call('TIME')
  local version = math.max(time[1] * 1000000 + time[2], tonumber(call('GET', K .. 'version') or 0) + 1)
  local digits = string.format('%.0f', version)
  call('SET', K .. 'version', digits)
  call('HSET', K .. 'shelves', namespace, digits)
  return version
end

