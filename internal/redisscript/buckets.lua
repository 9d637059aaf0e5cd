-- Token buckets by GCRA, all or nothing over KEYS, by the clock of the server.
--
-- ARGV holds six numbers for each key: the units that are refilled in a microsecond, the
-- units of a token, the most units that may be owed, the most that a state of this quota can
-- owe, the tokens to take (less than zero gives back, zero only looks), and the least tokens
-- to take if there are not enough.
--
-- The reply is the time in microseconds, 1 or 0 for granted or denied, and for each key the
-- units owed and the tokens taken. All numbers are whole, and below 2^53.
--
-- A key holds the microsecond in which its bucket is full again, and the units that are then
-- still missing, if any: "1764000000000000" or "1764000000000000+5". It expires when the bucket
-- is full.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local reply, granted = {now, 1}, true
for i = 1, #KEYS do
  local a = 6 * i
  local token, limit, n = ARGV[a - 4], tonumber(ARGV[a - 3]), tonumber(ARGV[a - 1])
  local state, owed = call('GET', KEYS[i]), 0
  if state then
    local full, rest = tonumber(state), 0
    if not full then
      local plus = string.find(state, '+', 1, true)
      full, rest = string.sub(state, 1, plus - 1), string.sub(state, plus + 1)
    end
    owed = math.min(math.max((full - now) * ARGV[a - 5] + rest, 0), ARGV[a - 2])
  end
  if n >= 0 and owed + n * token > limit then
    n = math.floor((limit - owed) / token)
    granted = granted and n >= tonumber(ARGV[a])
  end
  reply[2 * i + 1], reply[2 * i + 2] = owed, n
end
if not granted then
  reply[2] = 0
  return reply
end
for i = 1, #KEYS do
  local n = reply[2 * i + 2]
  if n ~= 0 then
    local rate = ARGV[6 * i - 5]
    local owed = math.max(reply[2 * i + 1] + n * ARGV[6 * i - 4], 0)
    local rest = owed % rate
    local ahead = (owed - rest) / rate
    local state = string.format('%d', now + ahead)
    if rest > 0 then
      state = string.format('%s+%d', state, rest)
    end
    if owed > 0 then
      call('PSETEX', KEYS[i], string.format('%d', ahead / 1000 + 1), state)
    else
      call('DEL', KEYS[i])
    end
    reply[2 * i + 1] = owed
  end
end
return reply
