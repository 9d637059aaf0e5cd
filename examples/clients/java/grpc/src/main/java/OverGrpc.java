// weir serve over gRPC: mvn compile exec:java -Dexec.args=127.0.0.1:8082

import io.github.weirgo.weir.v1.AcquireLeaseRequest;
import io.github.weirgo.weir.v1.DecideRequest;
import io.github.weirgo.weir.v1.Outcome;
import io.github.weirgo.weir.v1.Reason;
import io.github.weirgo.weir.v1.RenewLeaseRequest;
import io.github.weirgo.weir.v1.ReturnLeaseRequest;
import io.github.weirgo.weir.v1.SettleRequest;
import io.github.weirgo.weir.v1.WaitRequest;
import io.github.weirgo.weir.v1.WeirServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.concurrent.TimeUnit;

public class OverGrpc {
    static String name(Reason reason) {
        return reason.name().replace("REASON_", "").toLowerCase();
    }

    public static void main(String[] args) {
        var channel = Grpc.newChannelBuilder(args[0], InsecureChannelCredentials.create()).build();
        // With --tokens, calls take the metadata authorization: Bearer SECRET.
        var waits = WeirServiceGrpc.newBlockingStub(channel);

        // Tokens: the third request of an hour is denied, unless one gives its token back.
        var user = DecideRequest.newBuilder().setKey("user:java/grpc").build();
        var grant = within(waits).decide(user).getDecision();
        System.out.println("allowed");
        var done = within(waits).settle(
            SettleRequest.newBuilder().setKey(user.getKey()).setRequestId(grant.getRequestId()).setN(0).build()); // the true cost
        System.out.println("settled " + done.getWas() + " " + done.getCharged());
        for (int i = 0; i < 3; i++) {
            var decision = within(waits).decide(user).getDecision();
            System.out.println(decision.getOk() ? "allowed" : "denied " + name(decision.getReason()));
        }

        // A request that waits for its turn, for ten seconds at most.
        var late = "late:java/grpc";
        within(waits).decide(DecideRequest.newBuilder().setKey(late).build());
        var events = waits.wait(WaitRequest.newBuilder().setKey(late).setTimeoutMs(10_000).build());
        var queued = false;
        while (events.hasNext()) {
            var event = events.next();
            if (event.hasQueued()) {
                queued = true;
            } else if (event.getDecision().getOk()) {
                System.out.println("granted " + (queued ? "after a wait" : "at once"));
            }
        }

        // A lease bounds the work in flight.
        var job = AcquireLeaseRequest.newBuilder().setKey("job:java/grpc").setTtlMs(10_000).build();
        var lease = within(waits).acquireLease(job).getDecision().getLease();
        System.out.println("leased");
        System.out.println("refused " + name(within(waits).acquireLease(job).getDecision().getReason()));
        try {
            within(waits).renewLease(
                RenewLeaseRequest.newBuilder().setKey(job.getKey()).setLeaseId(lease.getLeaseId()).setTtlMs(20_000).build());
            System.out.println("renewed");
        } catch (StatusRuntimeException e) {
            if (e.getStatus().getCode() == Status.Code.NOT_FOUND) {
                throw new IllegalStateException("the lease is lost: stop the work");
            }
            throw e;
        }
        within(waits).returnLease(
            ReturnLeaseRequest.newBuilder().setKey(job.getKey()).setLeaseId(lease.getLeaseId()).setOutcome(Outcome.OUTCOME_SUCCESS).build());
        System.out.println("returned");
        channel.shutdownNow();
    }

    // within returns a stub for a call that is answered at once.
    static WeirServiceGrpc.WeirServiceBlockingStub within(WeirServiceGrpc.WeirServiceBlockingStub stub) {
        return stub.withDeadlineAfter(10, TimeUnit.SECONDS);
    }
}
