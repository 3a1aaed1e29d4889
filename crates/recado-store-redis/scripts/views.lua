-- One job as it is shown: number, head, data, and its lease, if it has one. Put after jobs.lua.

local function view(seq)
  local head, data = find(seq)
  if not head then
    return false
  end
  local held = call('HGET', K .. 'held', seq)
  if not held then
    return { seq, head, data }
  end
  local fence, since, by = fence_in(held), holder_in(held)
  local lease_until = call('ZSCORE', K .. 'leases', is_extended(held) and padded(seq) or fence)
  return { seq, head, data, fence, since, tonumber(lease_until), by }
end
