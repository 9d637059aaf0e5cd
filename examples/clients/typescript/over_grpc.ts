// weir serve over gRPC: npx tsx over_grpc.ts http://127.0.0.1:8082
//
// npx buf generate makes gen/weir/v1/weir_pb.ts of api/weir/v1/weir.proto: see buf.gen.yaml.

import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Outcome, Reason, WeirService } from "./gen/weir/v1/weir_pb.js";

// With --tokens, each call takes { headers: { authorization: "Bearer SECRET" } }.
const weir = createClient(WeirService, createGrpcTransport({ baseUrl: process.argv[2] }));

const name = (reason: Reason) => Reason[reason].toLowerCase();

// Tokens: the third request of an hour is denied, unless one gives its token back.
let key = "user:ts/grpc";
const grant = await weir.decide({ key }, { timeoutMs: 10_000 });
console.log("allowed");
const done = await weir.settle({ key, requestId: grant.decision!.requestId, n: 0 }, { timeoutMs: 10_000 }); // the true cost
console.log("settled", Number(done.was), Number(done.charged));
for (let i = 0; i < 3; i++) {
  const { decision } = await weir.decide({ key }, { timeoutMs: 10_000 });
  console.log(decision!.ok ? "allowed" : `denied ${name(decision!.reason)}`);
}

// A request that waits for its turn, for ten seconds at most.
key = "late:ts/grpc";
await weir.decide({ key }, { timeoutMs: 10_000 });
let queued = false;
for await (const { event } of weir.wait({ key, timeoutMs: 10_000n })) {
  if (event.case === "queued") queued = true;
  if (event.case === "decision" && event.value.ok) console.log("granted", queued ? "after a wait" : "at once");
}

// A lease bounds the work in flight.
key = "job:ts/grpc";
const lease = (await weir.acquireLease({ key, ttlMs: 10_000n }, { timeoutMs: 10_000 })).decision!.lease!;
console.log("leased");
console.log("refused", name((await weir.acquireLease({ key }, { timeoutMs: 10_000 })).decision!.reason));
try {
  await weir.renewLease({ key, leaseId: lease.leaseId, ttlMs: 20_000n }, { timeoutMs: 10_000 });
  console.log("renewed");
} catch (err) {
  if (ConnectError.from(err).code === Code.NotFound) throw new Error("the lease is lost: stop the work");
  throw err;
}
await weir.returnLease({ key, leaseId: lease.leaseId, outcome: Outcome.SUCCESS }, { timeoutMs: 10_000 });
console.log("returned");
