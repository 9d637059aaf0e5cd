-- Token buckets by GCRA and windows of time, all or nothing over KEYS, by the clock of the
-- server. No key comes twice.
--
-- ARGV holds six numbers for each key. For a token bucket they are: the units that are
-- refilled in a microsecond, the units of a token, the most units that may be owed, the most
-- that a state of this quota can owe, the tokens to take (less than zero gives back, zero only
-- looks), and the least tokens to take if there are not enough. For a window they are: 0, the
-- period in microseconds, the most events that may count, the kind, the events to count and
-- the least of them. To give back, the third is the microsecond of the take, or 0 for now, and the
-- last is how many tokens or events remain. If tokens can be given back later, "/" and the
-- microseconds of a group of takes follow the least. The kinds are
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
-- units that are then still missing, if any: "1764000000000000" or "1764000000000000+5". Or it has
-- the microsecond after which nothing is missing, a zero byte, the units that are missing a
-- microsecond before, or 0, "|", and a log of takes. Versions without logs read the number before
-- the zero byte. The log is as that of package usage: the units of a microsecond and of a token,
-- and the microseconds of a group; the last take that is in no group; and the groups with their
-- first and last microsecond, the tokens taken, the units that a bucket which was full before owed
-- at last, and the tokens of the last millisecond:
-- "1764000000000001\0005|1/600000/3750000;;1763999990000000,1763999990000000,100,60000000,100;". What was
-- taken before an instant with "x" was under another quota, and is not given back. The key of a window holds its start or end, its events, and those of the window before:
-- "1764000000000000:5:0". Keys expire when their state makes no difference any more. A value
-- that is no state counts as none.
local call, format = redis.call, string.format
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local none = -4503599627370496
local reply, granted = {now, 1}, true
local windows, stale, logs -- by the index of the key; nil if there are none

-- logging returns the functions for logs, and that for milliseconds. Other calls do not pay for them.
local function logging(now)
  -- grain returns the millisecond of a microsecond. A grant states its millisecond.
  local function grain(micros)
    return micros - micros % 1000
  end

  -- split returns the last take that is in no group, the groups of a log, and the microseconds of a
  -- group. A log under another quota has no groups.
  local function split(log, tag)
    local known, span, before, groups = string.match(log, '^(%d+/%d+)/(%d+);([^;]*);(.*)$')
    if known ~= tag then
      return format('x%d', now), '', span
    end
    return before, groups, span
  end

  -- noted returns a log with n tokens more. Full says that the bucket was full before.
  local function noted(log, tag, span, n, full, rate, token)
    local before, groups, known = full and '' or format('%d', now), '', span
    if log then
      before, groups, known = split(log, tag)
    end
    span = tonumber(span or known)
    local first, last, taken, owes, recent = now, now, n, 0, n
    local at, f, l, t, o, r = string.match(groups, '()(%d+),(%d+),(%-?%d+),(%-?%d+),(%-?%d+);$')
    if full and not (at and grain(tonumber(l)) == grain(now)) then
      before, groups = '', ''
    elseif at and (now - f <= span or grain(now) <= grain(tonumber(l))) then
      groups = string.sub(groups, 1, at - 1)
      first, last, taken = f, math.max(now, tonumber(l)), n + t
      owes = math.max(o - (last - l) * rate, math.min(o, 0))
      if grain(last) == grain(tonumber(l)) then
        recent = n + r
      end
    end
    if #groups > 1600 then
      before, groups = string.match(groups, '^%d+,(%d+),[^;]*;(.*)$')
    end
    owes = owes + n * token
    local shape = '%s/%d;%s;%s%.0f,%.0f,%.0f,%.0f,%.0f;'
    return format(shape, tag, span, before, groups, first, last, taken, owes, recent)
  end

  -- settled returns the units owed if tokens that were taken at an instant were not, of which some
  -- remain, the tokens given back, and the log then.
  local function settled(log, tag, owed, back, remain, at, rate, token)
    local before, groups, span = owed > 0 and format('%d', now) or '', '', nil
    if log then
      before, groups, span = split(log, tag)
    end
    local list, from = {}, 0
    for f, l, t, o, r in string.gmatch(groups, '(%d+),(%d+),(%-?%d+),(%-?%d+),(%-?%d+);') do
      list[#list + 1] = {f, tonumber(l), tonumber(t), tonumber(o), tonumber(r)}
      if grain(tonumber(f)) <= grain(at) then
        from = #list
      end
    end
    local units = back * token
    if from > 0 then
      local group = list[from]
      group[3] = group[3] - back
      if grain(at) == grain(group[2]) then -- only takes of the same millisecond came after it
        group[4] = math.min(group[4], math.max(group[4] - units, (group[5] - back - remain) * token))
        group[5] = group[5] - back
      end
      group[4] = math.min(group[4], group[3] * token)
    elseif string.sub(before, 1, 1) == 'x' then
      if at < tonumber(string.sub(before, 2)) then
        units = 0
      end
    elseif before ~= '' and tonumber(before) > at then
      units = math.max(units - math.max((before - grain(at)) * rate - remain * token, 0), 0)
    end
    local taken, least = 0, owed - units
    for i = #list, math.max(from, 1), -1 do
      local group = list[i]
      least = math.max(least, taken + group[4] - (now - group[2]) * rate)
      taken = taken + group[3] * token
    end
    if log then
      for i = 1, #list do
        list[i] = format('%s,%.0f,%.0f,%.0f,%.0f;', unpack(list[i]))
      end
      log = format('%s/%s;%s;%s', tag, span, before, table.concat(list))
    end
    return math.max(math.min(least, owed), 0), math.floor(units / token), log
  end

  return noted, settled, grain
end

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

local window, fading, store, noted, settled, grain
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
      if not grain then
        noted, settled, grain = logging(now)
      end
      local start, at = w.kind == '3' and w.at or w.at - w.period, limit
      if at == 0 or at >= grain(start) then
        n = math.max(n, -w.used)
      elseif w.kind == '3' and at >= grain(start - w.period) then
        n = math.max(n, -w.last)
        w.last, w.past = w.last + n, n
      else
        n = 0
      end
    elseif counts + n > limit then
      room = limit - counts
    end
  else
    local token, state, owed = ARGV[a - 4], call('GET', KEYS[i]), 0
    if state then
      local full, rest = nil, 0
      if #state > 16 then -- more than the digits of a microsecond
        local bar = string.find(state, '|', 1, true)
        if bar then
          logs = logs or {}
          logs[i], state = string.sub(state, bar + 1), string.sub(state, 1, bar - 1)
        end
        local zero = string.find(state, '\0', 1, true)
        if zero then
          full, rest = tonumber(string.sub(state, 1, zero - 1)), tonumber(string.sub(state, zero + 1))
          if full and rest and rest > 0 then
            full = full - 1
          end
        else
          full, rest = string.match(state, '^(%d+)%+(%d+)$')
        end
      end
      full, rest = full or tonumber(state) or 0, rest or 0
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
    local least = tonumber(string.match(ARGV[a], '^[^/]*'))
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
    if take and not w.past then
      w.add = n
    end
    w.used = w.used + w.add
    if w.add ~= 0 or w.past or w.stale then
      store(w)
    end
    reply[2 * i + 1] = w.used
  elseif take or stale and stale[i] then
    local rate, token, owed, log = ARGV[a - 5], ARGV[a - 4], reply[2 * i + 1], logs and logs[i]
    local span = take and n > 0 and string.match(ARGV[a], '/(.*)$')
    if take and not noted and (log or n < 0 or span) then
      noted, settled, grain = logging(now)
    end
    local tag = (log or n < 0 or span) and rate .. '/' .. token
    if take and n < 0 then
      local at = tonumber(ARGV[a - 3])
      owed, n, log = settled(log, tag, owed, -n, tonumber(ARGV[a]), at > 0 and at or now, rate, token)
      reply[2 * i + 2] = -n
    elseif take then
      if log or span then
        log = noted(log, tag, span, n, owed == 0, rate, token)
      end
      owed = owed + n * token
    end
    local rest = owed % rate
    local ahead = (owed - rest) / rate
    local state
    if log then
      state = format('%d', now + ahead + (rest > 0 and 1 or 0)) .. '\0' .. format('%d', rest) .. '|' .. log
    elseif rest > 0 then
      state = format('%d+%d', now + ahead, rest)
    else
      state = format('%d', now + ahead)
    end
    if owed > 0 or log then -- a log lasts for the millisecond of its takes
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
