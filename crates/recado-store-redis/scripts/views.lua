-- One job as it is shown: number, head, data, and who holds it, if somebody does. Put after jobs.lua.

local function view(seq)
  local head, data = find(seq)
  if not head then
    return false
  end
  local fence, since, lease_until, by = holder(seq)
  if not fence then
    return { seq, head, data }
  end
  return { seq, head, data, fence, since, tonumber(lease_until), by }
end
