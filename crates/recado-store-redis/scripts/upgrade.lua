-- Begins every script that upgrades a partition. ARGV[1]: the format as it was found, and the arguments of the
-- script after it. Another node that has upgraded the partition meanwhile makes the rest a step of the past: answers 0.

if call('GET', K .. 'format') ~= ARGV[1] then
  return 0
end
