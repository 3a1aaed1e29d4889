-- Counts ended jobs, and the times at which the oldest of them ended. ARGV: how many of those to list at least. Answers:
-- their number, then a time and how many ended at it, the earliest first. Those that were forgotten one by one may
-- still be counted.

local PAGE = 100

local wanted, told, from, last = tonumber(ARGV[1]), 0, 0
local answers = { tonumber(call('HGET', K .. 'counters', 'ended') or 0) }
while true do
  local page = call('ZRANGE', K .. 'ended', from, from + PAGE - 1, 'WITHSCORES')
  if #page == 0 then
    return answers
  end
  for at = 1, #page, 2 do
    local _, spaces = string.gsub(page[at], ' ', '')
    if page[at + 1] == last then
      answers[#answers] = answers[#answers] + spaces + 1
    elseif told >= wanted then
      return answers
    else
      last = page[at + 1]
      answers[#answers + 1], answers[#answers + 2] = tonumber(last), spaces + 1
    end
    told = told + spaces + 1
  end
  from = from + PAGE
end
