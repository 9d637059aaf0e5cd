"""weir serve over gRPC: python over_grpc.py 127.0.0.1:8082

python -m grpc_tools.protoc -I api --python_out=. --grpc_python_out=. weir/v1/weir.proto
makes the package weir.v1 of api/weir/v1/weir.proto.
"""

import sys

import grpc
from weir.v1 import weir_pb2 as pb
from weir.v1 import weir_pb2_grpc

# With --tokens, each call takes metadata=[("authorization", "Bearer SECRET")].
weir = weir_pb2_grpc.WeirServiceStub(grpc.insecure_channel(sys.argv[1]))


def reason(decision):
    return pb.Reason.Name(decision.reason).removeprefix("REASON_").lower()


# Tokens: the third request of an hour is denied, unless one gives its token back.
grant = weir.Decide(pb.DecideRequest(key="user:python/grpc"), timeout=10).decision
print("allowed")
done = weir.Settle(pb.SettleRequest(key="user:python/grpc", request_id=grant.request_id, n=0), timeout=10)  # the true cost
print("settled", done.was, done.charged)
for _ in range(3):
    decision = weir.Decide(pb.DecideRequest(key="user:python/grpc"), timeout=10).decision
    print("allowed" if decision.ok else "denied " + reason(decision))

# A request that waits for its turn, for ten seconds at most.
weir.Decide(pb.DecideRequest(key="late:python/grpc"), timeout=10)
queued = False
for event in weir.Wait(pb.WaitRequest(key="late:python/grpc", timeout_ms=10_000)):
    if event.HasField("queued"):
        queued = True
    elif event.decision.ok:
        print("granted", "after a wait" if queued else "at once")

# A lease bounds the work in flight.
lease = weir.AcquireLease(pb.AcquireLeaseRequest(key="job:python/grpc", ttl_ms=10_000), timeout=10).decision.lease
print("leased")
print("refused", reason(weir.AcquireLease(pb.AcquireLeaseRequest(key="job:python/grpc"), timeout=10).decision))
try:
    weir.RenewLease(pb.RenewLeaseRequest(key="job:python/grpc", lease_id=lease.lease_id, ttl_ms=20_000), timeout=10)
    print("renewed")
except grpc.RpcError as err:
    if err.code() == grpc.StatusCode.NOT_FOUND:
        sys.exit("the lease is lost: stop the work")
    raise
weir.ReturnLease(pb.ReturnLeaseRequest(key="job:python/grpc", lease_id=lease.lease_id, outcome=pb.OUTCOME_SUCCESS), timeout=10)
print("returned")
