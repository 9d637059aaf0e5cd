"""weir serve over HTTP: python over_http.py http://127.0.0.1:8080"""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request

base = sys.argv[1]


def call(method, *path, **query):
    """Sends a request. A denial is an answer, too: it has a reason."""
    url = base + "/" + "/".join(urllib.parse.quote(part, safe="") for part in path) + "?" + urllib.parse.urlencode(query)
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as err:
        answer = json.load(err)
        if "reason" not in answer:
            raise RuntimeError(f"{err.code}: {answer['error']}") from err
        return answer


# Tokens: the third request of an hour is denied, unless one gives its token back.
grant = call("POST", "rate", "user:python/http")
print("allowed")
done = call("POST", "rate", "user:python/http", grant["request_id"], n=0)  # the true cost
print("settled", done["was"], done["charged"])
for _ in range(3):
    answer = call("POST", "rate", "user:python/http")
    print("denied " + answer["reason"] if "reason" in answer else "allowed")

# A request that waits for its turn, for ten seconds at most.
call("POST", "rate", "late:python/http")
answer = call("POST", "rate", "late:python/http", canWait="true", timeout="10s")
print("granted", "after a wait" if "waited_ms" in answer else "at once")

# A lease bounds the work in flight.
lease = call("POST", "lease", "job:python/http", ttl="10s")
print("leased")
print("refused", call("POST", "lease", "job:python/http")["reason"])
call("POST", "lease", "job:python/http", lease["lease_id"], ttl="20s")
print("renewed")
call("DELETE", "lease", "job:python/http", lease["lease_id"], outcome="success")
print("returned")
