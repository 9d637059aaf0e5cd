// weir serve over the protocol of Redis: npx tsx over_resp.ts 6379

import { Redis } from "ioredis";

const weir = new Redis({ port: Number(process.argv[2]) });

/** Returns the map that answers a command, which is a list of names and values in RESP2. */
async function call(command: string, ...args: (string | number)[]): Promise<Record<string, string | number>> {
  const list = (await weir.call(command, ...args)) as (string | number)[];
  return Object.fromEntries(list.flatMap((name, i) => (i % 2 ? [] : [[name, list[i + 1]]])));
}

// Tokens: the third request of an hour is denied, unless one gives its token back.
let key = "user:ts/resp";
const grant = await call("WEIR.TAKE", key);
console.log("allowed");
const done = await call("WEIR.SETTLE", key, grant.request_id, 0); // the true cost
console.log("settled", done.was, done.charged);
for (let i = 0; i < 3; i++) {
  const answer = await call("WEIR.TAKE", key);
  console.log(answer.allowed ? "allowed" : `denied ${answer.reason}`);
}

// A request that waits for its turn, for ten seconds at most. Later commands on its connection wait for it.
key = "late:ts/resp";
await call("WEIR.TAKE", key);
const waited = await call("WEIR.WAIT", key, "TIMEOUT", "10s");
console.log("granted", Number(waited.waited_ms) > 0 ? "after a wait" : "at once");

// A lease bounds the work in flight.
key = "job:ts/resp";
const lease = await call("WEIR.LEASE", key, "TTL", "10s");
console.log("leased");
console.log("refused", (await call("WEIR.LEASE", key)).reason);
await call("WEIR.RENEW", key, lease.lease_id, "TTL", "20s");
console.log("renewed");
await weir.call("WEIR.RELEASE", key, lease.lease_id, "success");
console.log("returned");
weir.disconnect();
