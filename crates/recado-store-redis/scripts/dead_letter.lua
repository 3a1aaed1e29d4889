-- Dead letters of jobs. ARGV: their numbers. Answers for each: letter, head, original data, and the corrected data or
-- false; or false. A letter or a head whose value is gone is empty.

local answers = {}
for nth, seq in ipairs(ARGV) do
  local letter = call('GET', K .. 'letter:' .. seq) or (call('ZSCORE', K .. 'dead', padded(seq)) and '')
  answers[nth] = letter and { letter, call('GET', K .. 'job:' .. seq) or '', call('GET', K .. 'data:' .. seq) or 'null', call('GET', K .. 'corrected:' .. seq) }
end
return answers
