-- Shares one limit out among leaves, by the clock of the server: the allocator of weir serve, for
-- leaves that have no other upstream than the store.
--
-- ARGV holds the leaf, the microseconds for which its share is valid, and whether it leaves (1) or
-- not (0); then, in parts of the limit of which the limit has 2^40: what the leaf would use if there
-- were no limit, and what it may use now.
--
-- The reply is what the leaf may use from now on, in parts; the number of leaves; and 1 if they
-- want more than there is, else 0.
--
-- KEYS[1] has the leaves, each with the microsecond until which its share is valid, what it wants,
-- and the most that it may be using: "pod-1:1764000000000000:1024:512;pod-2:...". A value that is
-- no state counts as none.
--
-- Shares are max-min fair (Bertsekas and Gallager, Data Networks, 6.5.2). What all leaves may be
-- using never exceeds the limit: what a leaf had counts until it reports less, or until its time
-- is over.
local call, key, leaf = redis.call, KEYS[1], ARGV[1]
local time = call('TIME')
local now, whole = time[1] * 1000000 + time[2], 1099511627776
local wants, has = math.min(tonumber(ARGV[4]), whole), tonumber(ARGV[5])
local demands, sum, others, latest, held = {}, 0, 0, now, nil
local states = {}
for name, till, want, use in string.gmatch(call('GET', key) or '', '([^:;]+):(%d+):(%d+):(%d+)') do
  till, want, use = tonumber(till), tonumber(want), tonumber(use)
  if name == leaf then
    held = use
  elseif till > now then
    states[#states + 1] = string.format('%s:%d:%d:%d', name, till, want, use)
    demands[#demands + 1], sum, others, latest = want, sum + want, others + use, math.max(latest, till)
  end
end

-- store stores the states of leaves until the last share is not valid any more.
local function store()
  if #states == 0 then
    return call('DEL', key)
  end
  call('PSETEX', key, string.format('%d', (latest - now) / 1000 + 1), table.concat(states, ';'))
end

if ARGV[3] == '1' then
  store()
  return {0, #states, 0}
end
demands[#demands + 1], sum = wants, sum + wants

-- level returns the share at which the limit is used up, of leaves that want more than it.
local function level()
  table.sort(demands)
  local rest, left = whole, #demands
  for _, want in ipairs(demands) do
    if want * left > rest then
      break
    end
    rest, left = rest - want, left - 1
  end
  return rest / left
end

local free = math.max(whole - others, 0)
local uses = math.min(has, held or free) -- a leaf that the store has lost keeps what it has
local share = sum > whole and math.min(wants, level()) or wants + (whole - sum) / (#demands + 1)
share = math.floor(math.min(share, free))
local till = now + ARGV[2]
latest = math.max(latest, till)
states[#states + 1] = string.format('%s:%d:%d:%d', leaf, till, wants, math.max(share, uses))
store()
return {share, #states, sum > whole and 1 or 0}
