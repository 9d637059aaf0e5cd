-- Token buckets by GCRA and windows of time, all or nothing over KEYS, by the clock of the
-- server. No key comes twice.
--
-- ARGV holds six numbers for each key. For a token bucket they are: the units that are
-- refilled in a microsecond, the units of a token, the most units that may be owed, the most
-- that a state of this quota can owe, the tokens to take (less than zero gives back, zero only
-- looks), and the least tokens to take if there are not enough. For a window they are: 0, the
-- period in microseconds, the most events that may count, the kind, the events to count and
-- the least of them. The kinds are
--
--   1  a window begins with its first event
--   2  windows are those of the clock; events that are denied count too
--   3  windows are those of the clock; the events of the last one fade out over the next
--
-- A least of less than zero stands for -1 less it, and the key never denies the call: if not
-- even the least fit, none are taken.
--
-- The reply is the time in microseconds, 1 or 0 for granted or denied, and for each key the
-- units owed and the tokens taken, or the events of the window and those counted now. If the
-- call is denied, these are the tokens or events that would fit. If a key that never denies
-- has too few, they are -2^52. If there are windows, two numbers follow for each key: the
-- start of a window of kind 3 or the end of another, and the events of the window before. All
-- numbers are whole, and below 2^53.
--
-- The key of a token bucket holds the microsecond in which the bucket is full again, and the
-- units that are then still missing, if any: "1764000000000000" or "1764000000000000+5". The
-- key of a window holds its start or end, its events, and those of the window before:
-- "1764000000000000:5:0". Keys expire when their state makes no difference any more. A value
-- that is no state counts as none.
local call, format = redis.call, string.format
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local none = -4503599627370496
local reply, granted = {now, 1}, true
local windows, stale -- by the index of the key; nil if there are none

-- functions returns the functions for windows. Calls without windows do not pay for them.
local function functions(now)
  -- window returns the window of a key at present. A state from a clock that was ahead by
  -- more than a period moves to the window that ends next.
  local function window(key, period, kind)
    local w = {key = key, period = period, kind = kind, at = 0, used = 0, last = 0, add = 0}
    local start = now - now % period
    local finish = kind == '1' and now + period or start + period
    local state = redis.call('GET', key)
    if state then
      local at, used, last = string.match(state, '^(%d+):(%d+):(%d+)$')
      w.at, w.used, w.last = tonumber(at) or 0, tonumber(used) or 0, tonumber(last) or 0
      if w.at > now + period then
        w.at, w.stale = finish, true
      end
    end
    if kind == '3' and start > w.at then
      w.last = start - w.at <= period and w.used or 0
      w.at, w.used = start, 0
    elseif kind ~= '3' and now >= w.at then
      w.at, w.used = finish, 0
    end
    return w
  end

  -- fading returns last * left / period, rounded up: what still counts of the last window. It
  -- divides the digits of last to a base with which no number exceeds 2^53.
  local function fading(w)
    local left, low = w.at + w.period - math.max(now, w.at), w.last
    local base, digit = math.floor(2251799813685248 / w.period), 1
    while digit * base <= low do
      digit = digit * base
    end
    local whole, rest = 0, 0
    while digit >= 1 do
      local n = rest * base + math.floor(low / digit) * left
      rest = n % w.period
      whole = whole * base + (n - rest) / w.period
      low, digit = low % digit, digit / base
    end
    return rest > 0 and whole + 1 or whole
  end

  -- store stores a window until it makes no difference.
  local function store(w)
    if w.used == 0 and w.last == 0 then
      return redis.call('DEL', w.key)
    end
    local ends = w.at
    if w.kind == '3' then
      ends = ends + (w.used > 0 and 2 or 1) * w.period
    end
    local state = string.format('%d:%d:%d', w.at, w.used, w.last)
    redis.call('PSETEX', w.key, string.format('%d', (ends - now) / 1000 + 1), state)
  end

  return window, fading, store
end

local window, fading, store
for i = 1, #KEYS do
  local a = 6 * i
  local rate, limit, n = ARGV[a - 5], tonumber(ARGV[a - 3]), tonumber(ARGV[a - 1])
  local room, w -- room is what fits if n does not
  if rate == '0' then
    if not windows then
      window, fading, store = functions(now)
      windows = {}
    end
    w = window(KEYS[i], tonumber(ARGV[a - 4]), ARGV[a - 2])
    windows[i], reply[2 * i + 1] = w, w.used
    local counts = w.used + (w.last > 0 and fading(w) or 0)
    if n < 0 then
      n = math.max(n, -w.used)
    elseif counts + n > limit and (n > 0 or w.kind == '2') then
      room = limit - counts
    end
  else
    local token, state, owed = ARGV[a - 4], call('GET', KEYS[i]), 0
    if state then
      local full, rest = tonumber(state), 0
      if not full then
        full, rest = string.match(state, '^(%d+)%+(%d+)$')
        if not full then
          full, rest = 0, 0
        end
      end
      local most = tonumber(ARGV[a - 2])
      owed = (full - now) * rate + rest
      if owed < 0 then
        owed = 0
      elseif owed > most then
        owed, stale = most, stale or {}
        stale[i] = true
      end
    end
    if n >= 0 and owed + n * token > limit then
      room = math.floor((limit - owed) / token)
    end
    reply[2 * i + 1] = owed
  end
  if room then
    n = room
    local least = tonumber(ARGV[a])
    local soft = least < 0
    if soft then
      least = -1 - least
    end
    if room < least then
      if soft then
        n = none
      else
        granted = false
      end
      if w and w.kind == '2' and least > 0 then
        w.add = math.max(math.min(tonumber(ARGV[a - 1]), limit + 2147483647 - w.used), 0)
      end
    end
  end
  reply[2 * i + 2] = n
end
if not granted then
  reply[2] = 0
  if not windows and not stale then
    return reply
  end
end
for i = 1, #KEYS do
  local a, n = 6 * i, reply[2 * i + 2]
  local w, take = windows and windows[i], granted and n ~= 0 and n ~= none
  if w then
    if take then
      w.add = n
    end
    w.used = w.used + w.add
    if w.add ~= 0 or w.stale then
      store(w)
    end
    reply[2 * i + 1] = w.used
  elseif take or stale and stale[i] then
    local rate, owed = ARGV[a - 5], reply[2 * i + 1]
    if take then
      owed = math.max(owed + n * ARGV[a - 4], 0)
    end
    local rest = owed % rate
    local ahead = (owed - rest) / rate
    local state = format('%d', now + ahead)
    if rest > 0 then
      state = format('%s+%d', state, rest)
    end
    if owed > 0 then
      call('PSETEX', KEYS[i], format('%d', ahead / 1000 + 1), state)
    else
      call('DEL', KEYS[i])
    end
    reply[2 * i + 1] = owed
  end
  if windows then
    reply[#reply + 1], reply[#reply + 2] = w and w.at or 0, w and w.last or 0
  end
end
return reply
