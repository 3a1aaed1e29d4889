-- Lets go of ids whose jobs another partition has forgotten. ARGV: the partition's mark, then bucket and id of each.

for at = 2, #ARGV, 2 do
  if call('HGET', K .. 'ids:' .. ARGV[at], ARGV[at + 1]) == ARGV[1] then
    call('HDEL', K .. 'ids:' .. ARGV[at], ARGV[at + 1])
  end
end
return 1
