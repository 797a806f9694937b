-- One flush of one process into one account: deposits and returns in, a lease out.
--
-- KEYS  1 account (hash): epoch, interval, time, e<bucket> earned milli-tokens, r<bucket> reserve tokens
--       2 epoch (string, never expires): run id of the server, instant it began, number
--       3 the process's last sequence
-- ARGV  1 interval in ms   2 M   3 sequence, 0 if nothing is brought   4 epoch as the process knows it, or ''
--       5 1: the process has seen the clock step since it knows that    6 lower bound of the time, us
--       7 tokens wanted    8 number of deposits, then bucket and milli-tokens of each;
--       then, to the end, source (e or r), bucket and tokens of each return
-- Reply time in us, epoch, its beginning in us, 1 if what was brought counted now or before,
--       milli-tokens left, reserve left; then source, bucket and tokens of each lot leased
--
-- A bucket is interval/50 by the server's clock. All numbers are integers below 2^53, which Lua holds
-- exactly; it prints large ones with an exponent unless told otherwise.

local BUCKETS, LATE, TOKEN, MOST = 50, 5, 1000, 1e15
local interval, reserve = tonumber(ARGV[1]), tonumber(ARGV[2])
local width = interval * 1000 / BUCKETS
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local cur = math.floor(now / width)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')

local function integer(s)
  local x = tonumber(s)
  return x and x >= 0 and x == math.floor(x) and x < 2 ^ 53 and x or nil
end
local function decimal(x) return string.format('%.0f', x) end

-- A key of another type is somebody's mistake: it goes, and counts as a lost past.
local damaged = false
local function holds(key, kind)
  local found = redis.call('TYPE', key).ok
  if found == kind or found == 'none' then return found == kind end
  redis.call('DEL', key)
  damaged = true
  return false
end

local earned, spent, account = {}, {}, {}
local exists = holds(KEYS[1], 'hash')
if exists then
  local all, latest = redis.call('HGETALL', KEYS[1]), 0
  for i = 1, #all, 2 do
    local kind, bucket = string.match(all[i], '^([er])(%d+)$')
    if not kind then
      account[all[i]] = all[i + 1]
    else
      local b, x = tonumber(bucket), integer(all[i + 1])
      latest = math.max(latest, b)
      if not x or x > MOST then
        damaged = true
      elseif kind == 'e' then
        earned[b] = x
      else
        spent[b] = x
      end
    end
  end
  account.time = integer(account.time)
  damaged = damaged or not account.time or account.time <= now and latest > cur + 2 or #all > 8 * BUCKETS
end

-- The epoch ends when the server may have lost or forged the past: another run, TIME below what it was.
local epoch = holds(KEYS[2], 'string') and redis.call('GET', KEYS[2]) or ''
local owner, since, number = string.match(epoch, '^(%w+):(%d+):(%d+)$')
since, number = integer(since), integer(number)
local same = epoch == ARGV[4] or ARGV[4] == '' -- as far as the process can tell
if owner ~= run or damaged or not since or since > now or exists and account.time > now
    or same and (ARGV[5] == '1' or now < tonumber(ARGV[6])) then
  since = now
  epoch = run .. ':' .. decimal(now) .. ':' .. decimal((number or 0) % 1000000 + 1)
  redis.call('SET', KEYS[2], epoch)
end

local gone, changed = {}, {}
if account.epoch ~= epoch or account.interval ~= ARGV[1] then
  -- Nothing is earned and the reserve counts as just spent: since the epoch began, or since now where
  -- the interval is another one. An account that is not there and not younger than an interval is new.
  local at = account.epoch == epoch and now or since
  if exists then redis.call('DEL', KEYS[1]) end
  earned, spent = {}, {}
  local b = math.floor(at / width) + 2
  if b > cur - BUCKETS - 1 and reserve > 0 then
    spent[b] = reserve
    changed['r' .. decimal(b)] = decimal(reserve)
  end
else
  for b in pairs(earned) do
    if b <= cur - BUCKETS then
      earned[b] = nil
      gone[#gone + 1] = 'e' .. decimal(b)
    end
  end
  for b in pairs(spent) do
    if b <= cur - BUCKETS - 1 then
      spent[b] = nil
      gone[#gone + 1] = 'r' .. decimal(b)
    end
  end
end

local function set(kind, of, bucket, x)
  of[bucket] = x
  changed[kind .. decimal(bucket)] = decimal(x)
end

local total, used = 0, 0
for _, x in pairs(earned) do total = total + x end
for _, x in pairs(spent) do used = used + x end

local function earn(bucket, milli)
  milli = math.min(milli, MOST - total)
  if bucket <= cur and bucket > cur - BUCKETS and milli > 0 then
    set('e', earned, bucket, (earned[bucket] or 0) + milli)
    total = total + milli
  end
end

-- What a flush brings counts once, and only in the epoch for which it was meant: its stamps are of
-- that time, and in another epoch nobody remembers whether it has counted. Nor does it count when it was
-- under way for long, for the clock may have stepped back meanwhile by as much.
local counted = epoch == ARGV[4] and now - tonumber(ARGV[6]) <= LATE * width
local sequence = tonumber(ARGV[3])
if counted and sequence > 0 then
  local last = 0
  if holds(KEYS[3], 'string') then last = integer(redis.call('GET', KEYS[3])) end
  if last and not damaged and sequence > last then
    local n = tonumber(ARGV[8])
    for i = 9, 7 + 2 * n, 2 do earn(tonumber(ARGV[i]), tonumber(ARGV[i + 1])) end
    for i = 9 + 2 * n, #ARGV, 3 do
      local bucket, tokens = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
      if ARGV[i] == 'e' then
        earn(bucket, tokens * TOKEN)
      elseif spent[bucket] then
        local back = math.min(tokens, spent[bucket])
        set('r', spent, bucket, spent[bucket] - back)
        used = used - back
      end
    end
    redis.call('SET', KEYS[3], ARGV[3], 'PX', 2 * interval)
  end
end

-- The lease: the oldest milli-tokens first, a token bears its oldest one's bucket.
local lots = {}
local function lease(source, bucket, tokens)
  lots[#lots + 1], lots[#lots + 2], lots[#lots + 3] = source, bucket, tokens
end
local want = tonumber(ARGV[7])
local order = {}
for b, x in pairs(earned) do
  if x > 0 then order[#order + 1] = b end
end
table.sort(order)
local i = 1
while want > 0 and total >= TOKEN do
  local b = order[i]
  local whole = math.min(want, math.floor(earned[b] / TOKEN))
  local tokens, left = whole, earned[b] - whole * TOKEN
  total, want = total - whole * TOKEN, want - whole
  if want > 0 and left > 0 and total >= TOKEN then
    tokens, total, want = tokens + 1, total - TOKEN, want - 1
    local due = TOKEN - left
    left = 0
    while due > 0 do
      i = i + 1
      local paid = math.min(due, earned[order[i]])
      set('e', earned, order[i], earned[order[i]] - paid)
      due = due - paid
    end
  elseif left == 0 then
    i = i + 1
  end
  if tokens > 0 then
    set('e', earned, b, left)
    lease('e', b, tokens)
  end
end
-- Of the reserve: a lease lives to the end of bucket cur+2 and counts until an interval after that.
local granted = math.min(want, reserve - used)
if granted > 0 then
  set('r', spent, cur + 2, (spent[cur + 2] or 0) + granted)
  used = used + granted
  lease('r', cur + 2, granted)
end

if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
local fields = { 'epoch', epoch, 'interval', ARGV[1], 'time', decimal(now) }
for field, x in pairs(changed) do
  fields[#fields + 1] = field
  fields[#fields + 1] = x
end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('PEXPIRE', KEYS[1], 2 * interval)

local reply = { now, epoch, since, counted and 1 or 0, total, math.max(reserve - used, 0) }
for _, x in ipairs(lots) do reply[#reply + 1] = x end
return reply
