//! weir serve over HTTP: cargo run --bin over_http http://127.0.0.1:8080

use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Weir {
    agent: ureq::Agent,
    base: String,
}

impl Weir {
    /// Sends a request. A denial is an answer, too: it has a reason.
    fn call(&self, method: &str, path: &[&str], query: &str) -> Result<Value> {
        let path: Vec<String> = path.iter().map(|part| part.replace('%', "%25").replace('/', "%2F")).collect();
        let request = ureq::http::Request::builder().method(method).uri(format!("{}/{}?{query}", self.base, path.join("/"))).body(())?;
        let mut response = self.agent.run(request)?;
        let answer: Value = serde_json::from_str(&response.body_mut().read_to_string()?)?;
        if response.status().is_success() || answer.get("reason").is_some() {
            return Ok(answer);
        }
        Err(format!("{}: {}", response.status(), answer["error"]).into())
    }
}

fn text<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer[name].as_str().unwrap_or_default()
}

fn main() -> Result<()> {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let weir = Weir { agent, base: std::env::args().nth(1).ok_or("the address is missing")? };

    // Tokens: the third request of an hour is denied, unless one gives its token back.
    let user = ["rate", "user:rust/http"];
    let grant = weir.call("POST", &user, "")?;
    println!("allowed");
    let done = weir.call("POST", &[user[0], user[1], text(&grant, "request_id")], "n=0")?; // the true cost
    println!("settled {} {}", done["was"], done["charged"]);
    for _ in 0..3 {
        let answer = weir.call("POST", &user, "")?;
        match text(&answer, "reason") {
            "" => println!("allowed"),
            reason => println!("denied {reason}"),
        }
    }

    // A request that waits for its turn, for ten seconds at most.
    let late = ["rate", "late:rust/http"];
    weir.call("POST", &late, "")?;
    let waited = weir.call("POST", &late, "canWait=true&timeout=10s")?;
    println!("granted {}", if waited.get("waited_ms").is_some() { "after a wait" } else { "at once" });

    // A lease bounds the work in flight.
    let job = ["lease", "job:rust/http"];
    let lease = weir.call("POST", &job, "ttl=10s")?;
    let held = [job[0], job[1], text(&lease, "lease_id")];
    println!("leased");
    println!("refused {}", text(&weir.call("POST", &job, "")?, "reason"));
    weir.call("POST", &held, "ttl=20s")?;
    println!("renewed");
    weir.call("DELETE", &held, "outcome=success")?;
    println!("returned");
    Ok(())
}
