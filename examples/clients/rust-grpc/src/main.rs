//! weir serve over gRPC: cargo run http://127.0.0.1:8082

use pb::{wait_response::Event, weir_service_client::WeirServiceClient, *};
use std::time::Duration;
use tonic::{Code, Request};

mod pb {
    tonic::include_proto!("weir.v1");
}

/// Bounds a call that is answered at once. With --tokens, calls take the metadata authorization: Bearer SECRET.
fn within<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(10));
    request
}

fn name(reason: Reason) -> String {
    reason.as_str_name().trim_start_matches("REASON_").to_lowercase()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut weir = WeirServiceClient::connect(std::env::args().nth(1).ok_or("the address is missing")?).await?;

    // Tokens: the third request of an hour is denied, unless one gives its token back.
    let user = DecideRequest { key: "user:rust/grpc".into(), ..Default::default() };
    let grant = weir.decide(within(user.clone())).await?.into_inner().decision.unwrap_or_default();
    println!("allowed");
    let cost = SettleRequest { key: user.key.clone(), request_id: grant.request_id, n: 0 }; // the true cost
    let done = weir.settle(within(cost)).await?.into_inner();
    println!("settled {} {}", done.was, done.charged);
    for _ in 0..3 {
        let decision = weir.decide(within(user.clone())).await?.into_inner().decision.unwrap_or_default();
        match decision.ok {
            true => println!("allowed"),
            false => println!("denied {}", name(decision.reason())),
        }
    }

    // A request that waits for its turn, for ten seconds at most.
    let key = "late:rust/grpc".to_string();
    weir.decide(within(DecideRequest { key: key.clone(), ..Default::default() })).await?;
    let mut events = weir.wait(WaitRequest { key, timeout_ms: Some(10_000), ..Default::default() }).await?.into_inner();
    let mut queued = false;
    while let Some(message) = events.message().await? {
        match message.event {
            Some(Event::Queued(_)) => queued = true,
            Some(Event::Decision(d)) if d.ok => println!("granted {}", if queued { "after a wait" } else { "at once" }),
            _ => {}
        }
    }

    // A lease bounds the work in flight.
    let job = AcquireLeaseRequest { key: "job:rust/grpc".into(), ttl_ms: 10_000, ..Default::default() };
    let decision = weir.acquire_lease(within(job.clone())).await?.into_inner().decision.unwrap_or_default();
    let lease_id = decision.lease.unwrap_or_default().lease_id;
    println!("leased");
    let refused = weir.acquire_lease(within(job.clone())).await?.into_inner().decision.unwrap_or_default();
    println!("refused {}", name(refused.reason()));
    match weir.renew_lease(within(RenewLeaseRequest { key: job.key.clone(), lease_id: lease_id.clone(), ttl_ms: 20_000 })).await {
        Ok(_) => println!("renewed"),
        Err(e) if e.code() == Code::NotFound => return Err("the lease is lost: stop the work".into()),
        Err(e) => return Err(e.into()),
    }
    weir.return_lease(within(ReturnLeaseRequest { key: job.key, lease_id, outcome: Outcome::Success.into() })).await?;
    println!("returned");
    Ok(())
}
