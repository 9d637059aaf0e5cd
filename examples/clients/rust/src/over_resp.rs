//! weir serve over the protocol of Redis: cargo run --bin over_resp 6379

use redis::{cmd, Connection, RedisResult, Value};
use std::collections::HashMap;

/// Returns the map that answers a command.
fn call(weir: &mut Connection, command: &str, args: &[&str]) -> RedisResult<HashMap<String, Value>> {
    cmd(command).arg(args).query(weir)
}

fn text(answer: &HashMap<String, Value>, name: &str) -> String {
    answer.get(name).and_then(|v| redis::from_redis_value(v.clone()).ok()).unwrap_or_default()
}

fn main() -> RedisResult<()> {
    let port = std::env::args().nth(1).unwrap_or_default();
    let weir = &mut redis::Client::open(format!("redis://127.0.0.1:{port}/"))?.get_connection()?;

    // Tokens: the third request of an hour is denied, unless one gives its token back.
    let user = "user:rust/resp";
    let grant = call(weir, "WEIR.TAKE", &[user])?;
    println!("allowed");
    let done = call(weir, "WEIR.SETTLE", &[user, &text(&grant, "request_id"), "0"])?; // the true cost
    println!("settled {} {}", text(&done, "was"), text(&done, "charged"));
    for _ in 0..3 {
        let answer = call(weir, "WEIR.TAKE", &[user])?;
        match text(&answer, "allowed").as_str() {
            "1" => println!("allowed"),
            _ => println!("denied {}", text(&answer, "reason")),
        }
    }

    // A request that waits for its turn, for ten seconds at most. Later commands on its connection wait for it.
    let late = "late:rust/resp";
    call(weir, "WEIR.TAKE", &[late])?;
    let waited = call(weir, "WEIR.WAIT", &[late, "TIMEOUT", "10s"])?;
    println!("granted {}", if text(&waited, "waited_ms") != "0" { "after a wait" } else { "at once" });

    // A lease bounds the work in flight.
    let job = "job:rust/resp";
    let lease = text(&call(weir, "WEIR.LEASE", &[job, "TTL", "10s"])?, "lease_id");
    println!("leased");
    println!("refused {}", text(&call(weir, "WEIR.LEASE", &[job])?, "reason"));
    call(weir, "WEIR.RENEW", &[job, &lease, "TTL", "20s"])?;
    println!("renewed");
    cmd("WEIR.RELEASE").arg(&[job, &lease, "success"]).exec(weir)?;
    println!("returned");
    Ok(())
}
