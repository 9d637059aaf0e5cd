package main

// live are the scenarios that documents can play, by the documents.
var live = map[string]string{
	"docs/auto.md":       "slowdown.yaml",
	"docs/auto-proof.md": "outage.yaml",
	"docs/arena.md":      "arena/overload.yaml",
	"docs/capacity.md":   "capacity.yaml",
	"docs/clients.md":    "tenants.yaml",
	"docs/choose.md":     "retry-storm.yaml",
	"docs/codel.md":      "codel.yaml",
	"docs/goodput.md":    "layers.yaml",
	"docs/load.md":       "loops.yaml",
	"docs/orders.md":     "capacity.yaml",
	"docs/origins.md":    "outage.yaml",
	"docs/proxy.md":      "priorities.yaml",
	"docs/recording.md":  "knee.yaml",
	"docs/replay.md":     "slowdown.yaml",
	"docs/serve.md":      "rate.yaml",
	"docs/sim.md":        "retry-storm.yaml",
	"docs/sla.md":        "sla-slow.yaml",
	"docs/terms.md":      "capacity.yaml",
	"README.md":          "retry-storm.yaml",
}

const scenarioFiles = "service/lab/scenarios/"

// scenarios are the files that the playground offers, below scenarioFiles; those of live are among them.
var scenarios = []string{
	"arena/overload.yaml", "capacity.yaml", "codel.yaml", "knee.yaml", "layers.yaml", "loops.yaml", "outage.yaml", "priorities.yaml",
	"rate.yaml", "retry-storm.yaml", "sla-slow.yaml", "slowdown.yaml", "slow-start.yaml", "tenants.yaml",
}

// words is the text that the search has for the site's own pages.
var words = map[string]string{
	"index.html":      "Capacity management for services: rate limits, concurrency limits that find themselves, bounded queues, caches. My Go service, my gateway, I am on call.",
	"playground.html": "Simulate overload in the browser: workers, service time, clients, patience, time-out, retries, retry storm, instances, limit, queue, goodput, latency, Little's law, N = X R, knee, burst. Your numbers: a limit and a recipe.",
}
