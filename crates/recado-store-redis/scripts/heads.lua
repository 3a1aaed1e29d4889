-- The heads of leased jobs. ARGV: number and fence of each. Answers with false for one that is stale.

local answers = {}
for at = 1, #ARGV, 2 do
  answers[(at + 1) / 2] = fence_of(ARGV[at]) == ARGV[at + 1] and head_of(ARGV[at])
end
return answers
