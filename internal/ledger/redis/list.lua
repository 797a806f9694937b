-- A stretch of the ledger, the last entered first.
--
-- KEYS  1 cases   2 order   3 count
-- ARGV  1 only cases of a smaller number, 0 for all   2 how many
-- Reply how many were lost; then id, number and case of each, '' where there is none

local before = tonumber(ARGV[1])
local from = before > 0 and '(' .. ARGV[1] or '9007199254740991'
local ids = redis.call('ZREVRANGEBYSCORE', KEYS[2], from, 1, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local reply = { redis.call('HGET', KEYS[3], 'lost') or '0' }
for i = 1, #ids, 2 do
  table.insert(reply, ids[i])
  table.insert(reply, string.format('%.0f', math.floor(tonumber(ids[i + 1]))))
  table.insert(reply, redis.call('HGET', KEYS[1], ids[i]) or '')
end
return reply
