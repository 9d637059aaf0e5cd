-- Leases of units of KEYS[1], by the clock of the server.
--
-- ARGV holds what to do, the limit in units, the time to live of a lease in microseconds, the
-- id of the lease, and its units:
--
--   take   grants the lease if the limit allows it
--   keep   renews the lease, unless it has ended
--   force  renews the lease, or counts it again, even above the limit
--   give   ends the lease
--
-- The reply is the time in microseconds, 1 or 0 for granted or denied, the units held, and a
-- fencing token of take or force or, if denied, the microseconds until the first lease expires.
--
-- The key is a sorted set. Each unit is a member, "id:1" to "id:n", with the microsecond in
-- which it expires. The member "" has 2^52 more than the last fencing token.
local call = redis.call
local op, ttl, id, n = ARGV[1], ARGV[3], ARGV[4], tonumber(ARGV[5])
local key, mark = KEYS[1], 4503599627370496
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if op == 'give' then
  for i = 1, n do
    call('ZREM', key, id .. ':' .. i)
  end
  return {now, 1, 0, 0}
end
call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
local held, last, mine = call('ZCARD', key), call('ZSCORE', key, ''), call('ZSCORE', key, id .. ':1')
if last then
  held = held - 1
end
if op == 'take' and not mine and held + n > tonumber(ARGV[2]) or op == 'keep' and not mine then
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return {now, 0, held, held > 0 and first[2] - now or 0}
end
local token = 0
if op == 'take' or not mine then
  token = math.max(now, last and last - mark + 1 or 0)
  call('ZADD', key, string.format('%d', mark + token), '')
end
if not mine then
  held = held + n
end
for i = 1, n do
  call('ZADD', key, string.format('%d', now + ttl), id .. ':' .. i)
end
local ms = math.ceil(ttl / 1000) + 1
if call('PTTL', key) < ms then
  call('PEXPIRE', key, string.format('%d', ms))
end
return {now, 1, held, token}
