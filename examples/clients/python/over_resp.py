"""weir serve over the protocol of Redis: python over_resp.py 6379"""

import sys

import redis

weir = redis.Redis(port=int(sys.argv[1]), protocol=3, decode_responses=True)


def call(*command):
    """Returns the map that answers a command."""
    answer = weir.execute_command(*command)
    return answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2]))


# Tokens: the third request of an hour is denied, unless one gives its token back.
grant = call("WEIR.TAKE", "user:python/resp")
print("allowed")
done = call("WEIR.SETTLE", "user:python/resp", grant["request_id"], 0)  # the true cost
print("settled", done["was"], done["charged"])
for _ in range(3):
    answer = call("WEIR.TAKE", "user:python/resp")
    print("allowed" if answer["allowed"] else "denied " + answer["reason"])

# A request that waits for its turn, for ten seconds at most. Later commands on its connection wait for it.
call("WEIR.TAKE", "late:python/resp")
answer = call("WEIR.WAIT", "late:python/resp", "TIMEOUT", "10s")
print("granted", "after a wait" if answer["waited_ms"] > 0 else "at once")

# A lease bounds the work in flight.
lease = call("WEIR.LEASE", "job:python/resp", "TTL", "10s")
print("leased")
print("refused", call("WEIR.LEASE", "job:python/resp")["reason"])
call("WEIR.RENEW", "job:python/resp", lease["lease_id"], "TTL", "20s")
print("renewed")
weir.execute_command("WEIR.RELEASE", "job:python/resp", lease["lease_id"], "success")
print("returned")
