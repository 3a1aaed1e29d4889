-- Entries of the audit trail that were split, because some of their records were erased. ARGV: their places. Returns
-- place and entry of each one that exists.

local answers = {}
for _, place in ipairs(ARGV) do
  local entry = entry_at(place)
  if #entry > 0 then
    answers[#answers + 1] = { place, entry }
  end
end
return answers
