-- Forgets ended jobs at once, and the records about them. ARGV: for each its bucket and id. Answers for each 1, or 0
-- when it has not ended or is not here.

local answers = {}
for at = 1, #ARGV, 2 do
  local seq = seq_of(ARGV[at], ARGV[at + 1])
  local goes = seq and call('ZSCORE', K .. 'ended', padded(seq))
  if goes then
    local trail = call('HGET', K .. 'trail:' .. block_of(seq), seq) or ''
    for place = 1, #trail, 8 do
      local ms, nth = struct.unpack('>I6I2', trail, place)
      call('XDEL', K .. 'audit', string.format('%.0f-%.0f', ms, nth))
    end
    forget(seq)
  end
  answers[#answers + 1] = goes and 1 or 0
end
return answers
