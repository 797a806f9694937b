-- What has happened to cases since a number.
--
-- KEYS  1 events
-- ARGV  1 the number from which on, '' for nothing but the last number   2 how many
-- Reply the last number; then number and case of each event

local function number(id) return string.match(id, '^%d+') end
local top = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local reply = { top and number(top[1]) or '0' }
if ARGV[1] ~= '' then
  for _, e in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1] .. '-0', '+', 'COUNT', ARGV[2])) do
    table.insert(reply, number(e[1]))
    table.insert(reply, e[2][2] or '')
  end
end
return reply
