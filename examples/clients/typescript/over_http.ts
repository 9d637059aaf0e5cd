// weir serve over HTTP: npx tsx over_http.ts http://127.0.0.1:8080

const base = process.argv[2];

interface Answer {
  request_id?: string;
  lease_id?: string;
  was?: number;
  charged?: number;
  waited_ms?: number;
  reason?: string;
  error?: string;
  retry_after_ms?: number;
}

/** Sends a request. A denial is an answer, too: it has a reason. */
async function call(method: string, path: string[], query: Record<string, string> = {}): Promise<Answer> {
  const url = `${base}/${path.map(encodeURIComponent).join("/")}?${new URLSearchParams(query)}`;
  const response = await fetch(url, { method });
  const answer = (await response.json()) as Answer;
  if (!response.ok && !answer.reason) throw new Error(`${response.status}: ${answer.error}`);
  return answer;
}

// Tokens: the third request of an hour is denied, unless one gives its token back.
const grant = await call("POST", ["rate", "user:ts/http"]);
console.log("allowed");
const done = await call("POST", ["rate", "user:ts/http", grant.request_id!], { n: "0" }); // the true cost
console.log("settled", done.was, done.charged);
for (let i = 0; i < 3; i++) {
  const { reason } = await call("POST", ["rate", "user:ts/http"]);
  console.log(reason ? `denied ${reason}` : "allowed");
}

// A request that waits for its turn, for ten seconds at most.
await call("POST", ["rate", "late:ts/http"]);
const waited = await call("POST", ["rate", "late:ts/http"], { canWait: "true", timeout: "10s" });
console.log("granted", waited.waited_ms! > 0 ? "after a wait" : "at once");

// A lease bounds the work in flight.
const lease = await call("POST", ["lease", "job:ts/http"], { ttl: "10s" });
console.log("leased");
console.log("refused", (await call("POST", ["lease", "job:ts/http"])).reason);
await call("POST", ["lease", "job:ts/http", lease.lease_id!], { ttl: "20s" });
console.log("renewed");
await call("DELETE", ["lease", "job:ts/http", lease.lease_id!], { outcome: "success" });
console.log("returned");
