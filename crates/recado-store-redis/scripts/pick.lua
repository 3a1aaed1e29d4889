-- Jobs by their numbers. ARGV: the numbers. Answers as views.lua says, false for one that is gone.

local answers = {}
for nth, seq in ipairs(ARGV) do
  answers[nth] = view(tonumber(seq))
end
return answers
