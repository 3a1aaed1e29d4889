-- Appends to the audit trail. ARGV: for each event the bucket and the id of the job it names, or '' twice, and the
-- event.

for at = 1, #ARGV, 3 do
  local seq = ARGV[at] ~= '' and seq_of(ARGV[at], ARGV[at + 1])
  local entry = seq and new_entry(seq)
  if entry then
    make_own(seq, (unpacked(entry)))
  end
  record(seq, ARGV[at + 2])
end
save_records()
settle_spans()
return 1
