-- Leases of units of all KEYS, all or nothing, by the clock of the server. No key comes twice.
--
-- ARGV holds what to do, the time to live of a lease in microseconds, the id of the lease and
-- its units; for a caller that waits, the microseconds within which it asks again, else 0, the
-- microsecond in which it asked first, or 0 if it does so now, and the most callers that may
-- wait for a key; then, for each key, the limit in units. A limit of less than zero counts, and
-- never denies.
--
--   take   grants the lease if the limits allow it, also for the callers that waited earlier
--   keep   renews the lease, unless it has ended
--   force  renews the lease, or counts it again, even above a limit
--   give   ends the lease, or the wait for it
--   look   changes nothing
--
-- The reply is the time in microseconds; 1 for granted, 0 for denied, or -1 if the caller
-- cannot wait because too many do; a fencing token of take or force or, if denied, the
-- microseconds until each key that denies has a lease that expires; how many callers wait that
-- came earlier; and for each key the units held or, of give, the units that it has ended.
--
-- A key is a sorted set. Its members are, with their scores:
--
--   id:1 to id:n   the units of a lease: the microsecond in which it expires
--   the empty one  2^52 more than the last fencing token
--   id:q:n         a caller that waits for n units: 2^53 less than its arrival
--   id:a:n         as long as it asks again: 2^52 less than the microsecond until which it must
local call = redis.call
local op, ttl, id, n = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local patience, arrived, most = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local mark = 4503599627370496
local place, alive = id .. ':q:' .. n, id .. ':a:' .. n
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local rank = (arrived > 0 and arrived or now) - 2 * mark
local reply, token, missing, denied = {now, 1, 0, 0}, 0, {}, {}

local function whole(x)
  return string.format('%d', x)
end

-- last makes a key last for some microseconds.
local function last(key, micros)
  local ms = math.ceil(micros / 1000) + 1
  if call('PTTL', key) < ms then
    call('PEXPIRE', key, whole(ms))
  end
end

-- forget removes what has ended from a key: leases, and callers that have not asked again.
local function forget(key)
  call('ZREMRANGEBYSCORE', key, 0, whole(now))
  for _, gone in ipairs(call('ZRANGEBYSCORE', key, whole(-mark), whole(now - mark))) do
    call('ZREM', key, gone, (string.gsub(gone, ':a:', ':q:')))
  end
end

-- earlier returns the units for which callers wait that came earlier; if they exceed the room,
-- only some of them.
local function earlier(key, room)
  local units, i = 0, 0
  while units <= room do
    local waiter = call('ZRANGE', key, i, i, 'WITHSCORES')
    if not waiter[1] or waiter[1] == place or tonumber(waiter[2]) > rank then
      break
    end
    units, i = units + (string.match(waiter[1], '%d+$') or 0), i + 1
  end
  return units
end

-- wait has the caller wait for a key, if it does not yet, and if too many do not wait already.
local function wait(key)
  if not call('ZSCORE', key, place) and call('ZCOUNT', key, '-inf', '(' .. whole(-mark)) >= most then
    reply[2] = -1
    return
  end
  call('ZADD', key, whole(rank), place, whole(now + patience - mark), alive)
  reply[4] = math.max(reply[4], call('ZRANK', key, place))
  last(key, patience)
end

for i = 1, #KEYS do
  local key, limit, held = KEYS[i], tonumber(ARGV[7 + i]), 0
  forget(key)
  if op == 'give' then
    for unit = 1, n do
      held = held + call('ZREM', key, id .. ':' .. unit)
    end
    call('ZREM', key, place, alive)
  else
    held = call('ZCOUNT', key, 0, '(' .. whole(mark))
    token = math.max(token, (call('ZSCORE', key, '') or 0) - mark + 1)
    missing[i] = not call('ZSCORE', key, id .. ':1')
    if limit >= 0 and missing[i] then
      local room = limit - held - n
      denied[i] = op == 'keep' or op == 'take' and (room < 0 or earlier(key, room) > room)
    end
    if denied[i] then
      local first = call('ZRANGEBYSCORE', key, 0, '(' .. whole(mark), 'WITHSCORES', 'LIMIT', 0, 1)
      reply[2], reply[3] = 0, math.max(reply[3], first[2] and first[2] - now or 0)
    end
  end
  reply[4 + i] = held
end
if op == 'give' or op == 'look' then
  return reply
end
if reply[2] == 0 then
  for i = 1, op == 'take' and patience > 0 and #KEYS or 0 do
    if denied[i] or call('ZSCORE', KEYS[i], place) then
      wait(KEYS[i])
    end
  end
  return reply
end
local fresh = op == 'take'
for i = 1, #KEYS do
  fresh = fresh or missing[i]
end
token = math.max(now, token)
for i = 1, #KEYS do
  local key = KEYS[i]
  if fresh then
    call('ZADD', key, whole(mark + token), '')
    reply[3] = token
  end
  for unit = 1, n do
    call('ZADD', key, whole(now + ttl), id .. ':' .. unit)
  end
  if arrived > 0 then
    call('ZREM', key, place, alive)
  end
  if missing[i] then
    reply[4 + i] = reply[4 + i] + n
  end
  last(key, ttl)
end
return reply
