-- Leases of units of all KEYS, all or nothing, by the clock of the server. No key comes twice.
--
-- ARGV holds what to do, the time to live of a lease in microseconds, the id of the lease, its
-- units, and for each key the limit in units. A limit of less than zero counts, and never
-- denies.
--
--   take   grants the lease if the limits allow it
--   keep   renews the lease, unless it has ended
--   force  renews the lease, or counts it again, even above a limit
--   give   ends the lease
--   look   changes nothing
--
-- The reply is the time in microseconds, 1 or 0 for granted or denied, a fencing token of take
-- or force or, if denied, the microseconds until each key that denies has a lease that expires,
-- and for each key the units held or, of give, the units that it has ended.
--
-- A key is a sorted set. Each unit is a member, "id:1" to "id:n", with the microsecond in
-- which it expires. The member "" has 2^52 more than the last fencing token.
local call = redis.call
local op, ttl, id, n = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local mark = 4503599627370496
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local reply, token, wait, missing = {now, 1, 0}, 0, 0, {}
for i = 1, #KEYS do
  local key, limit, held = KEYS[i], tonumber(ARGV[4 + i]), 0
  if op == 'give' then
    for unit = 1, n do
      held = held + call('ZREM', key, id .. ':' .. unit)
    end
  else
    call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
    held = call('ZCARD', key)
    local last = call('ZSCORE', key, '')
    if last then
      held = held - 1
      token = math.max(token, last - mark + 1)
    end
    missing[i] = not call('ZSCORE', key, id .. ':1')
    if limit >= 0 and missing[i] and (op == 'take' and held + n > limit or op == 'keep') then
      local first = held > 0 and call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] - now or 0
      reply[2], wait = 0, math.max(wait, first)
    end
  end
  reply[3 + i] = held
end
if reply[2] == 0 then
  reply[3] = wait
  return reply
end
if op == 'give' or op == 'look' then
  return reply
end
local fresh = op == 'take'
for i = 1, #KEYS do
  fresh = fresh or missing[i]
end
token = math.max(now, token)
local ms = math.ceil(ttl / 1000) + 1
for i = 1, #KEYS do
  local key = KEYS[i]
  if fresh then
    call('ZADD', key, string.format('%d', mark + token), '')
    reply[3] = token
  end
  for unit = 1, n do
    call('ZADD', key, string.format('%d', now + ttl), id .. ':' .. unit)
  end
  if missing[i] then
    reply[3 + i] = reply[3 + i] + n
  end
  if call('PTTL', key) < ms then
    call('PEXPIRE', key, string.format('%d', ms))
  end
end
return reply
