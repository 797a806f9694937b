-- Cases into the ledger, each only where it still is what the caller has seen: at once or not at all.
--
-- KEYS  1 cases (hash): a case by its id   2 order (sorted set): ids by the number of their entering
--       3 resolved (sorted set): ids by the number of their resolving
--       4 count (hash): last number of entering, of resolving, and how many cases were lost unresolved
--       5 events (stream): each case as it came to be, numbered n-0
-- ARGV  1 how many cases are kept   2 how many events are   3 cases that were lost on the way here
--       then, to the end, id, the case as the caller has seen it or '' for none, the case as it is to be,
--       and 'r' where it is resolved by that
-- Reply how many are open, how many were lost; then of each case '=' where it is as it is to be, '-' where
--       there is none, '+' and the case where it is another
--
-- Numbers are integers below 2^53, which Lua holds exactly.

for i, kind in ipairs({ 'hash', 'zset', 'zset', 'hash', 'stream' }) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= kind then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. found .. ', not a ' .. kind)
  end
end

local cases, order, resolved, count, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local size, keep, dropped = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local function decimal(x) return string.format('%.0f', x) end
local function counter(field)
  local x = tonumber(redis.call('HGET', count, field))
  return x and x >= 0 and x < 2 ^ 53 and math.floor(x) or 0
end

-- Numbers go on from what is there, also where the counter was lost.
local function after(field, set)
  local top = redis.call('ZREVRANGE', set, 0, 0, 'WITHSCORES')[2]
  local n = math.max(counter(field), math.floor(tonumber(top) or 0)) + 1
  redis.call('HSET', count, field, decimal(n))
  return n
end

local lost, lostBefore = counter('lost') + dropped, counter('lost')
local function makeRoom()
  while redis.call('ZCARD', order) >= size do
    local id = redis.call('ZPOPMIN', resolved)[1]
    if not id then
      id = redis.call('ZPOPMIN', order)[1]
      lost = lost + 1
    end
    redis.call('ZREM', order, id)
    redis.call('HDEL', cases, id)
  end
end

local top = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
local event = top and tonumber(string.match(top[1], '^%d+')) or 0

local reply = { 0, 0 }
for i = 4, #ARGV, 4 do
  local id, seen, case = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local there = redis.call('HGET', cases, id)
  if (there or '') ~= seen then
    table.insert(reply, there and '+' .. there or '-')
  else
    redis.call('HSET', cases, id, case) -- first: once a script has written, memory may grow without limit
    if not there then
      redis.call('ZREM', order, id) -- somebody has removed the case alone
      redis.call('ZREM', resolved, id)
      makeRoom()
    end
    if not redis.call('ZSCORE', order, id) then redis.call('ZADD', order, decimal(after('last', order)), id) end
    if ARGV[i + 3] == 'r' then redis.call('ZADD', resolved, decimal(after('resolved', resolved)), id) end
    event = event + 1
    redis.call('XADD', events, 'MAXLEN', '~', keep, decimal(event) .. '-0', 'case', case)
    table.insert(reply, '=')
  end
end
if lost > lostBefore then redis.call('HSET', count, 'lost', decimal(lost)) end
reply[1] = decimal(redis.call('ZCARD', order) - redis.call('ZCARD', resolved))
reply[2] = decimal(lost)
return reply
