-- Moves the ends of leases. ARGV: the new end, then number and fence of each. Answers 1, or 0 when it is stale.

local answers, ends, left = {}, {}, {}
for at = 2, #ARGV, 2 do
  local seq, fence = ARGV[at], ARGV[at + 1]
  local held = call('HGET', K .. 'held', seq)
  local is_current = held and fence_in(held) == fence
  if is_current then
    ends[#ends + 1] = ARGV[1]
    ends[#ends + 1] = padded(seq)
    if not is_extended(held) then
      call('HSET', K .. 'held', seq, fence .. '1' .. string.sub(held, FENCE_BYTES + 2))
      left[fence] = (left[fence] or 0) + 1
    end
  end
  answers[at / 2] = is_current and 1 or 0
end
each_of('ZADD', K .. 'leases', ends)
for fence, count in pairs(left) do
  leave_claim(fence, count)
end
return answers
