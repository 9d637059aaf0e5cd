-- Counts the nodes that share the server, by its clock, and keeps their secret.
--
-- ARGV holds the id of a node, for how many microseconds it counts from now on, and the node's
-- secret, four numbers, which becomes the secret if there is none. An empty id only looks. The
-- reply is the number of nodes, and the secret.
--
-- KEYS[1] is a sorted set of ids, each with the microsecond until which its node counts. KEYS[2]
-- is the secret, as text.
local call, key = redis.call, KEYS[1]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local secret = call('GET', KEYS[2])
if ARGV[1] ~= '' then
  call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
  call('ZADD', key, string.format('%d', now + ARGV[2]), ARGV[1])
  call('PEXPIRE', key, string.format('%d', math.ceil(ARGV[2] / 1000)))
  if not secret then
    secret = table.concat(ARGV, ' ', 3, 6)
    call('SET', KEYS[2], secret)
  end
end
local reply = {call('ZCOUNT', key, string.format('%d', now), '+inf')}
for number in string.gmatch(secret or '', '%d+') do
  reply[#reply + 1] = tonumber(number)
end
return reply
