-- Appends to the audit trail. ARGV: for each event the bucket and the id of the job it names, or '' twice, and the
-- event.

for at = 1, #ARGV, 3 do
  record(ARGV[at] ~= '' and seq_of(ARGV[at], ARGV[at + 1]), ARGV[at + 2])
end
save_trails()
return 1
