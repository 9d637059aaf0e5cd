package decidertest

// The stories of decisions, and of nodes as a whole. Every implementation answers alike, but for what a WANT of a trait says.
var stories = []story{
	// Decide.
	{
		name:  "a bucket gives what it has, and refills",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			take a 4 -> ok left=6 step=exact rule=all answers=all by=none | share: ok left=6 step=share
			take a 7 -> over_rate left=6 retry=1s by=all
			take a 6 -> ok left=0
			take a 1 -> over_rate left=0 retry=1s
			take b 1 -> ok left=9
			sleep 1s
			take a 1 -> ok left=0
			take a 11 -> over_burst retry=never
			take a 0 -> over_rate retry=1s
			sleep 1m
			take a 0 -> ok left=10
		`,
	}, {
		name:  "keys without a rule are allowed",
		rules: `rules: [{name: known, glob: "a*", rate: 60/m}]`,
		calls: `
			take b 1000 -> ok left=none rule=none answers=
			wait w b 1000 -> ok
		`,
	}, {
		name:  "keys without a rule are denied",
		rules: "unmatched: deny\nrules: [{name: known, glob: 'a*', rate: 60/m}]",
		calls: `
			take b 1 -> over_rate retry=never left=none rule=none answers= by=none
			wait w b 1 -> over_rate retry=never
			take a 1 -> ok left=59
		`,
	}, {
		name:  "a rate of none allows nothing",
		rules: `rules: [{name: none, key: none, rate: 0/s}]`,
		calls: `
			take none 1 -> over_burst retry=never rule=none
			take none 0 -> over_rate retry=never
			wait w none 1 -> over_burst
		`,
	}, {
		name:  "the first rule that matches decides",
		rules: `rules: [{name: one, key: a, rate: 1/m}, {name: other, glob: "*", rate: 10/m}]`,
		calls: `
			take a 1 -> ok rule=one answers=one
			take a 1 -> over_rate by=one
			take b 1 -> ok rule=other left=9
		`,
	}, {
		name: "all rules allow, or no tokens are taken",
		rules: `
apply: all
rules:
  - {name: many, glob: "*", rate: 60/m, burst: 10}
  - {name: few, glob: "a*", rate: 6/m, burst: 3}
`,
		calls: `
			take a 3 -> ok left=0 rule=many answers=many,few
			take a 1 -> over_rate retry=10s by=few answers=many,few
			take a 11 -> over_burst by=many answers=many
			take a 4 -> over_burst by=few
			explain a -> over_rate; many used=3; few used=3 | share: not_asked
			take b 10 -> ok left=0 answers=many
		`,
	}, {
		name: "a rule in shadow mode denies nothing",
		rules: `
apply: all
rules:
  - {name: trial, glob: "*", rate: 6/m, burst: 2, mode: shadow}
  - {name: real, glob: "*", rate: 6/m, burst: 4}
  - {name: off, glob: "*", rate: 1/h, mode: off}
`,
		calls: `
			take a 3 -> ok left=1 answers=trial,real | wire: ok left=1 answers=real
			take a 1 -> ok left=0
			take a 1 -> over_rate by=real
			explain a -> over_rate; trial; real used=4 | share: not_asked
		`,
	}, {
		name:  "keys share the bucket of a rule",
		rules: `rules: [{name: total, glob: "*", per: rule, rate: 6/m, burst: 4}]`,
		calls: `
			take a 3 -> ok left=1
			take b 2 -> over_rate left=1 retry=10s
			take c 1 -> ok left=0
		`,
	}, {
		name:  "windows begin with the first request",
		rules: `rules: [{name: fixed, glob: "*", rate: 5/m, algorithm: fixed}]`,
		calls: `
			take a 3 -> ok left=2
			sleep 20s
			take a 3 -> over_rate left=2 retry=40s
			take a 2 -> ok left=0
			take a 6 -> over_burst
			sleep 40s
			take a 5 -> ok left=0
		`,
	}, {
		name:  "windows that slide",
		rules: `rules: [{name: sliding, glob: "*", rate: 10/2s, algorithm: sliding}]`,
		calls: `
			take a 10 -> ok left=0
			take a 1 -> over_rate
			sleep 3s
			take a 5 -> ok left=0
			take a 1 -> over_rate
			sleep 4s
			take a 10 -> ok left=0
		`,
	}, {
		name:  "windows of the calendar",
		rules: `rules: [{name: dates, glob: "*", rate: 5/minute, algorithm: calendar}]`,
		calls: `
			take a 5 -> ok left=0 | store leaf: refused
			take a 1 -> over_rate
			sleep 1m
			take a 5 -> ok left=0
		`,
	}, {
		name:  "a request makes its bucket smaller",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			take a 3 limit=4 -> ok left=1
			take a 2 limit=4 -> over_rate retry=1s
			take a 5 limit=4 -> over_burst
			take a 2 limit=100 -> ok left=5
		`,
	}, {
		name:  "a candidate has no effect",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10, candidate: {rate: 1/m}}]`,
		calls: `
			take a 10 -> ok left=0 answers=all
			take a 1 -> over_rate retry=1s
		`,
	}, {
		name:  "a rate and leases are asked for apart",
		rules: `rules: [{name: jobs, glob: "jobs*", concurrency: {limit: 2}}, {name: all, glob: "*", rate: 60/m}]`,
		calls: `
			take jobs 1 -> no_rate
			wait w jobs 1 -> no_rate
			batch jobs 1, a 1 -> no_rate
			take a 1 -> ok left=59
			lease l a 1 -> no_leasing
		`,
	},

	// Quotas of requests.
	{
		name: "a request brings a quota of its own",
		rules: `
rules:
  - {name: own, glob: "own*", rate: 60/m, own_quota: true}
  - {name: rule, glob: "rule*", rate: 60/m}
  - {name: shadow, glob: "shadow*", rate: 60/m, mode: shadow}
`,
		calls: `
			take own 3 own=6/1m/4 -> ok left=1
			take own 2 own=6/1m/4 -> over_rate left=1 retry=10s
			take own 5 own=6/1m/4 -> over_burst
			take own 2 own=6/1m/5 -> ok left=3
			take own 60 -> ok left=0
			take rule 1 own=6/1m -> own_quota
			take other 6 own=6/1m -> ok left=0 rule=none
			take other 1 own=6/1m -> over_rate
			take shadow 6 own=6/1m -> ok left=0 rule=shadow
			take own 1 own=0/1m -> bad_quota
			take own 1 own=1/100000h/1000 -> bad_quota
			wait w own 2 own=6/1m/4 -> over_rate
		`,
	}, {
		name:  "no quota of its own where keys without a rule are denied",
		rules: "unmatched: deny\nrules: [{name: all, glob: 'a*', rate: 60/m}]",
		calls: `take b 1 own=6/1m -> own_quota`,
	},

	// Batch.
	{
		name:  "a batch is decided in order",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			batch a 7, a 4, a 3, b 1 -> no; ok left=3; over_rate left=3 retry=1s; ok left=0; ok left=9 | wire: no; ok left=3; over_rate retry=1s; ok left=0; ok left=9
			batch a 0, c 1 -> no; over_rate; ok
			batch c 1, d 1 -> ok; ok left=8; ok left=9
		`,
	}, {
		name:  "a batch takes all or nothing",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			batch all a 3, b 3 -> ok; ok left=7; ok left=7
			batch all a 7, b 8, c 1 -> no; batch_denied; over_rate by=all; batch_denied
			batch all a 7, b 11 -> no; batch_denied; over_burst
			take a 7 -> ok left=0
			take b 7 -> ok left=0
			take c 10 -> ok left=0
		`,
	}, {
		name:  "a key comes twice in a batch of all or nothing",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			batch all a 6, a 4 -> ok; ok; ok left=0
			batch all b 6, b 5 -> no; batch_denied; over_rate | store: no; batch_denied; batch_denied
			take b 10 -> ok left=0
		`,
	}, {
		name:  "a batch with a wrong request takes nothing",
		rules: `rules: [{name: jobs, glob: "jobs*", concurrency: {limit: 2}}, {name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			batch a 1, jobs 1 -> no_rate
			batch all a 1, jobs 1 -> no_rate
			batch a 1, b 1 own=6/1m -> own_quota
			take a 10 -> ok left=0
		`,
	}, {
		name:  "quotas of requests in a batch",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10, own_quota: true}]`,
		calls: `
			batch all a 3 own=6/1m/4, b 10 -> ok; ok left=1; ok left=0
			batch all a 1 own=6/1m/4, b 1 -> no; batch_denied; over_rate
			take a 1 own=6/1m/4 -> ok left=0
		`,
	},

	// Wait.
	{
		name:  "requests wait in order",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 2}]`,
		calls: `
			wait w0 a 2 -> ok left=0 waited=0s place=0
			wait w1 a 2 -> waits
			wait w2 a 1 -> waits
			take a 1 -> over_rate
			sleep 1900ms
			end w1 -> waits
			sleep 200ms
			end w1 -> ok waited=2s place=0
			end w2 -> waits
			sleep 1s
			end w2 -> ok waited=3s place=1 | store: ok waited=3s
		`,
	}, {
		name:  "a request that does not wait is behind those that do",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 5}]`,
		calls: `
			take a 5 -> ok
			wait w a 4 -> waits
			sleep 2s
			take a 1 -> over_rate retry=3s
			sleep 2100ms
			end w -> ok waited=4s
		`,
	}, {
		name:  "a queue is bounded",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 1, queue: 2}]`,
		calls: `
			take a 1 -> ok
			wait w1 a 1 -> waits
			wait w2 a 1 -> waits
			wait w3 a 1 -> queue_full retry=3s
			wait w4 b 1 -> ok
			wait w5 a 2 -> over_burst retry=never
			wait w6 a 1 queue=3 -> waits
			wait w7 b 1 queue=0 -> queue_full
			sleep 3100ms
			end w1 -> ok waited=1s
			end w2 -> ok waited=2s
			end w6 -> ok waited=3s
		`,
	}, {
		name:  "a wait is bounded by the rule and by the caller",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 1, max_wait: 1500ms}]`,
		calls: `
			take a 1 -> ok
			wait w1 a 1 within=500ms -> too_late retry=1s
			wait w2 a 1 within=1100ms -> waits
			wait w3 a 1 -> over_rate retry=2s
			sleep 1100ms
			end w2 -> ok waited=1s
		`,
	}, {
		name:  "a caller that leaves takes no tokens",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 2}]`,
		calls: `
			take a 2 -> ok
			wait w1 a 2 -> waits
			wait w2 a 1 -> waits
			cancel w1
			end w1 -> canceled
			sleep 1100ms
			end w2 -> ok waited=1s | store: waits
			sleep 2s
			end w2 -> ok
			take a 2 -> ok left=0
		`,
	}, {
		name: "a request waits under several rules",
		rules: `
apply: all
rules:
  - {name: fast, glob: "*", rate: 60/m, burst: 1}
  - {name: slow, glob: "a*", rate: 30/m, burst: 1}
`,
		calls: `
			take a 1 -> ok
			wait w a 1 -> waits
			sleep 1100ms
			end w -> waits
			sleep 1s
			end w -> ok waited=2s
		`,
	}, {
		name:  "a request waits for a window",
		rules: `rules: [{name: fixed, glob: "*", rate: 2/m, algorithm: fixed}]`,
		calls: `
			take a 2 -> ok
			wait w a 1 -> waits
			sleep 59s
			end w -> waits
			sleep 1100ms
			end w -> ok left=1
		`,
	}, {
		name:  "a request of none does not wait",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 1}]`,
		calls: `
			take a 1 -> ok
			wait w a 0 -> over_rate
		`,
	},

	// Settle.
	{
		name:  "a grant is settled once",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			take a 5 id=g -> ok left=5
			settle b g 1 -> no_grant
			settle a nonsense 1 -> no_grant
			settle a g 1 -> ok was=5 charged=1
			take a 0 -> ok left=9
			settle a g 1 -> no_grant
		`,
	}, {
		name:  "a bucket is as if only the cost had been taken",
		rules: `rules: [{name: all, glob: "*", rate: 350/m}]`,
		calls: `
			take a 100 id=g -> ok left=250
			sleep 4s
			settle a g 40 -> ok was=100 charged=40
			take a 0 -> ok left=333
			sleep 8s
			take a 0 -> ok left=350
		`,
	}, {
		name:  "a higher cost is charged up to the debt",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10, max_debt: 5}]`,
		calls: `
			take a 8 id=g -> ok left=2
			settle a g 12 -> ok was=8 charged=12
			take a 1 -> over_rate retry=3s
			take b 8 id=h -> ok
			settle b h 100 -> ok was=8 charged=15
			take b 1 -> over_rate retry=6s
		`,
	}, {
		name:  "a grant of a window is settled in its window",
		rules: `rules: [{name: fixed, glob: "*", rate: 10/m, algorithm: fixed}]`,
		calls: `
			take a 6 id=g -> ok left=4
			settle a g 1 -> ok was=6 charged=1
			take a 0 -> ok left=9
			take a 6 id=h -> ok
			sleep 61s
			settle a h 1 -> ok was=6 charged=6
			take a 10 -> ok left=0
		`,
	}, {
		name: "a grant of several rules",
		rules: `
apply: all
rules:
  - {name: many, glob: "*", rate: 60/m, burst: 10}
  - {name: few, glob: "a*", rate: 60/m, burst: 5, max_debt: 0}
`,
		calls: `
			take a 4 id=g -> ok left=1
			settle a g 1 -> ok was=4 charged=1
			explain a -> ok; many used=1; few used=1 | share: not_asked
			take a 4 id=h -> ok left=0
			settle a h 6 -> ok was=4 charged=6
			explain a -> over_rate; many used=7; few used=5 | share: not_asked
		`,
	}, {
		name:  "a grant is settled within an hour",
		rules: `rules: [{name: all, glob: "*", rate: 60/h, burst: 100}]`,
		calls: `
			take a 50 id=g -> ok
			take a 50 id=h -> ok
			sleep 59m
			settle a g 0 -> ok was=50 charged=0
			sleep 2m
			settle a h 0 -> no_grant
		`,
	}, {
		name:  "grants of a batch",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			batch all a 5 id=g, b 5 id=h -> ok; ok; ok
			settle a g 0 -> ok was=5 charged=0
			settle b h 2 -> ok was=5 charged=2
			take a 10 -> ok
			take b 8 -> ok
		`,
	},

	// Leases.
	{
		name:  "leases up to the limit",
		rules: `rules: [{name: jobs, glob: "*", concurrency: {limit: 3, ttl: 10s}}]`,
		calls: `
			lease l1 a 2 -> ok n=2 ttl=10s limit=3 inflight=2 step=exact | share: ok step=share
			lease l2 a 1 ttl=2s -> ok n=1 ttl=2s inflight=3
			lease l3 a 1 -> over_limit
			lease l4 b 3 -> ok
			lease l5 c 4 -> over_limit retry=never | wire: over_limit
			return a l1 -> ok
			return a l1 -> no_lease
			return b l2 -> no_lease
			return a nonsense -> no_lease
			lease l6 a 2 -> ok inflight=3
		`,
	}, {
		name:  "leases expire unless they are renewed",
		rules: `rules: [{name: jobs, glob: "*", concurrency: {limit: 2, ttl: 10s, max_ttl: 20s}}]`,
		calls: `
			lease l1 a 1 -> ok
			lease l2 a 1 ttl=100s -> ok ttl=20s
			sleep 9s
			renew a l1 -> ok ttl=10s inflight=2
			sleep 9s
			lease l3 a 1 -> over_limit
			renew a l1 3s -> ok ttl=3s
			sleep 3100ms
			renew a l1 -> no_lease
			renew a l2 -> no_lease
			lease l4 a 2 -> ok inflight=2
			renew a nonsense -> no_lease
		`,
	}, {
		name:  "requests wait for leases in order",
		rules: `rules: [{name: jobs, glob: "*", concurrency: {limit: 2, ttl: 10s, queue: 3}}]`,
		calls: `
			lease l1 a 2 -> ok
			lease l2 a 2 wait -> waits
			sleep 1ms
			lease l3 a 1 wait -> waits
			sleep 1ms
			lease l4 a 1 wait -> waits
			lease l5 a 1 wait -> queue_full
			lease l6 a 1 -> over_limit
			sleep 1s
			return a l1 -> ok
			sleep 2s
			end l2 -> ok n=2
			end l3 -> waits
			return a l2 -> ok
			sleep 2s
			end l3 -> ok
			end l4 -> ok
		`,
	}, {
		name:  "a wait for a lease is bounded",
		rules: `rules: [{name: jobs, glob: "*", concurrency: {limit: 1, ttl: 10s, max_wait: 2s}}]`,
		calls: `
			lease l1 a 1 -> ok
			lease l2 a 1 wait -> waits
			lease l3 a 1 wait within=1s -> waits
			lease l4 a 1 wait -> waits
			cancel l4
			end l4 -> canceled
			sleep 1100ms
			end l3 -> deadline
			sleep 1s
			end l2 -> overdue
			return a l1 -> ok
			lease l5 a 1 -> ok inflight=1
		`,
	}, {
		name:  "units of a holder that is gone go to those that wait",
		rules: `rules: [{name: jobs, glob: "*", concurrency: {limit: 1, ttl: 3s}}]`,
		calls: `
			lease l1 a 1 -> ok
			lease l2 a 1 wait -> waits
			sleep 4100ms
			end l2 -> ok inflight=1
			renew a l1 -> no_lease
		`,
	}, {
		name: "leases of several rules",
		rules: `
apply: all
rules:
  - {name: many, glob: "*", concurrency: {limit: 3, ttl: 20s}}
  - {name: few, glob: "a*", concurrency: {limit: 2, ttl: 10s}}
  - {name: trial, glob: "*", concurrency: {limit: 1}, mode: shadow}
`,
		calls: `
			lease l1 a 2 -> ok ttl=10s limit=2 inflight=2
			lease l2 a 1 -> over_limit
			lease l3 b 3 -> ok limit=3 inflight=3
			return a l1 -> ok
			lease l4 a 1 -> ok
		`,
	}, {
		name:  "a rule of a rate and leases",
		rules: `rules: [{name: both, glob: "*", rate: 60/m, burst: 5, concurrency: {limit: 2, ttl: 10s}}]`,
		calls: `
			take a 5 -> ok left=0
			lease l a 2 -> ok
			explain a -> over_rate; both used=5 limit=2 inflight=2 leasewaiting=0 | share: not_asked
		`,
	},

	// Explain, Top, Reset.
	{
		name:  "what a request would get",
		rules: `rules: [{name: all, glob: "a*", rate: 60/m, burst: 10}]`,
		calls: `
			explain a -> ok retry=0s; all left=10 used=0 reset=0s allowed=true retry=0s waiting=0 | share: not_asked
			take a 10 -> ok
			take a 1 -> over_rate
			explain a -> over_rate retry=1s; all left=0 used=10 reset=10s allowed=false retry=1s denied=1 | share: not_asked | nodes: over_rate retry=1s; all used=10
			wait w a 1 -> waits
			explain a -> over_rate retry=2s; all waiting=1 | share: not_asked | store: over_rate retry=2s; all used=11
			explain b -> ok | share: not_asked
		`,
	}, {
		name:  "the keys with the most requests",
		rules: `rules: [{name: all, glob: "*", rate: 60/m, burst: 2}]`,
		calls: `
			take a 2 -> ok
			take a 1 -> over_rate
			take b 1 -> ok
			top -> ok; a allowed=1 denied=1; b allowed=1 denied=0 | share: not_asked | nodes: any
		`,
	}, {
		name:  "a reset gives a key its whole limit",
		rules: `rules: [{name: all, glob: "a*", rate: 60/m, burst: 10, max_debt: 5}]`,
		calls: `
			take a 10 id=g -> ok
			settle a g 12 -> ok charged=12
			wait w a 1 -> waits
			reset a -> ok all=12 | leaf: reset_upstream | store: ok all=13 | link share: no_reset
			end w -> ok | store leaf link share: waits
			take a 9 -> ok left=0 | leaf link share: over_rate | store: ok left=1
			reset b -> ok | link share: no_reset
		`,
	},

	// Reload.
	{
		name: "counts stay over a reload",
		rules: `
rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]
---
rules: [{name: all, glob: "*", rate: 60/m, burst: 10, queue: 3}]
---
rules: [{name: all, glob: "*", rate: 120/m, burst: 10}]
---
rules: [{name: all, glob: "*", rate: 120/m, burst: 5}]
---
rules: [{name: other, glob: "*", rate: 120/m, burst: 5}]
`,
		calls: `
			take a 6 -> ok left=4
			rules 1
			take a 0 -> ok left=4
			rules 2
			take a 0 -> ok left=4 | store: over_rate
			sleep 1s
			take a 0 -> ok left=6 | store: over_rate
			rules 3
			sleep 1s
			take a 0 -> ok left=5 | store: over_rate
			rules 4
			take a 5 -> ok left=0
		`,
	}, {
		name: "a request that waits keeps its place over a reload",
		rules: `
rules: [{name: all, glob: "*", rate: 6/m, burst: 1}]
---
rules: [{name: all, glob: "*", rate: 60/m, burst: 1}]
---
rules: [{name: other, glob: "*", rate: 60/m, burst: 1}]
`,
		calls: `
			take a 1 -> ok
			wait w1 a 1 -> waits
			wait w2 a 1 -> waits
			sleep 1s
			rules 1
			sleep 10s
			end w1 -> ok
			rules 2
			sleep 11s
			end w2 -> ok
		`,
	}, {
		name: "leases stay over a reload",
		rules: `
rules: [{name: jobs, glob: "*", concurrency: {limit: 2, ttl: 10s}}]
---
rules: [{name: jobs, glob: "*", concurrency: {limit: 3, ttl: 20s}}]
---
rules: []
`,
		calls: `
			lease l1 a 2 -> ok
			lease l2 a 1 -> over_limit
			lease l3 a 1 wait -> waits
			rules 1
			sleep 2s
			end l3 -> ok inflight=3 ttl=20s
			rules 2
			lease l4 a 1 -> no_leasing
			rules 1
			lease l5 a 1 -> over_limit
			renew a l1 -> ok
			return a l1 -> ok
			lease l6 a 2 -> ok inflight=3
		`,
	}, {
		name: "counts begin at zero in windows",
		rules: `
rules: [{name: all, glob: "*", rate: 6/m}]
---
rules: [{name: all, glob: "*", rate: 6/m, algorithm: fixed}]
---
rules: [{name: all, glob: "*", rate: 6/m, per: rule}]
`,
		calls: `
			take a 6 -> ok left=0
			rules 1
			take a 4 -> ok left=2
			rules 2
			take a 5 -> ok left=1
		`,
	}, {
		name: "a grant over a reload",
		rules: `
rules: [{name: all, glob: "*", rate: 60/m, burst: 10}]
---
rules: [{name: other, glob: "*", rate: 60/m, burst: 10}]
`,
		calls: `
			take a 5 id=g -> ok
			take a 5 id=h -> ok
			rules 0
			settle a g 0 -> ok was=5 charged=0
			rules 1
			settle a h 0 -> no_grant
		`,
	},

	// Close.
	{
		name:  "requests do not wait at a node that closes",
		rules: `rules: [{name: all, glob: "a*", rate: 60/m, burst: 1}, {name: jobs, glob: "*", concurrency: {limit: 1}}]`,
		calls: `
			take a 1 -> ok
			lease l1 b 1 -> ok
			wait w1 a 1 -> waits
			lease l2 b 1 wait -> waits
			close -> ok | link: no_close
			end w1 -> waits
			wait w2 a 1 -> closed | link: waits
			lease l3 b 1 wait -> closed | link: waits
			lease l4 c 1 -> closed | link store leaf: ok
			close now -> ok | link: no_close
			end w1 -> closed | link: waits
			end l2 -> closed | link: waits
			return b l1 -> ok
			take c 1 -> no_rate
			sleep 3100ms
			take a 1 -> ok
		`,
	},

	// Without what is behind.
	{
		name: "without what is behind, a node decides by its share or as the rule says",
		rules: `
rules:
  - {name: share, glob: "share*", rate: 6/m, burst: 9}
  - {name: deny, glob: "deny*", rate: 6/m, burst: 9, away: deny}
  - {name: allow, glob: "allow*", rate: 6/m, burst: 9, concurrency: {limit: 6}, away: allow}
  - {name: leases, glob: "lease*", concurrency: {limit: 6, ttl: 1h}}
  - {name: locks, glob: "lock*", concurrency: {limit: 6}, away: deny}
`,
		calls: `
			take share 9 -> ok left=0
			lease l1 lease 1 -> ok
			cut -> ok | alone: nothing_behind
			load probe 20 1s -> ok given=20 | link: unavailable
			load share-probe 20 1s -> ok | link: unavailable
			take share-new 4 -> over_burst step=share | alone: ok left=5 | link: unavailable
			take share-new 3 -> ok left=0 step=share | alone: ok left=2 | link: unavailable
			take share-new 1 -> over_rate retry=30s step=share | alone: ok left=1 | link: unavailable
			take deny 1 -> closed step=rule | share: closed step=rule | alone: ok left=8 | link: unavailable
			take allow 100 -> ok step=rule | share: ok step=rule | alone: over_burst | link: unavailable
			take other 1 -> ok rule=none | link: unavailable
			reset share -> unavailable | alone link: any | leaf: reset_upstream
			batch all share-b 2, deny 1 -> no; batch_denied; closed | share: no; batch_denied; closed | alone: ok; ok; ok | link: unavailable
			take share-b 3 -> ok left=0 step=share | share: ok left=6 | alone: ok left=4 | link: unavailable
			batch share-e 2, share-e 2 -> no; ok step=share; over_rate step=share | alone: ok; ok; ok | link: unavailable
			take share-c 3 own=6/1m/3 -> own_quota | link: unavailable
			wait w share-new 1 -> waits | alone: ok | link: unavailable
			sleep 30100ms
			end w -> ok step=share | alone: ok | link: unavailable
			take share-d 3 id=g -> ok left=0 step=share | alone: ok left=6 | link: unavailable
			settle share-d g 1 -> ok was=3 charged=1 | link: unavailable | store: unavailable
			take share-d 2 -> ok step=share | alone: ok | link: unavailable | store: over_rate
			lease l2 lease-new 3 -> over_limit step=share | alone: ok | link: unavailable
			lease l3 lease-new 2 -> ok step=share inflight=2 | alone: ok inflight=5 | link: unavailable
			lease l4 lock 1 -> closed step=rule | share: closed step=rule | alone: ok | link: unavailable
			lease l6 allow 5 -> ok step=rule | share: ok step=rule | alone: ok | link: unavailable
			lease l7 allow 5 -> ok step=rule | share: ok step=rule | alone: over_limit | link: unavailable
			renew lease-new l3 -> ok step=share | alone: ok | link: unavailable
			heal -> ok | alone: nothing_behind
			sleep 1m
			load share-probe 5 1s -> ok exact=5 | share: ok share=5
			take deny 1 -> ok step=exact | share: closed
			take allow 1 -> ok step=exact | share: ok
			lease l5 lock 1 -> ok step=exact | share: closed
			renew lease-new l3 -> ok | link: no_lease | nodes: any
			return lease-new l3 -> ok | link: no_lease | nodes: any
		`,
	},

	// Parts of limits.
	{
		name:  "a hot key gets its limit, and no more",
		rules: `rules: [{name: all, glob: "*", rate: 20/s}]`,
		calls: `
			take b 1 limit=10 -> ok left=9
			load a 10 10s -> ok given=100 | leaf: ok given<100 given>80
			load a 50 4s -> ok given<100 given>98 | leaf: ok given<100 given>70
			load a 50 4s -> ok given<81 given>79 | leaf: ok given<85 given>75
		`,
	}, {
		name:  "requests for a hot key do not wait at a node that closes",
		rules: `rules: [{name: all, glob: "*", rate: 20/s}]`,
		calls: `
			load a 40 4s -> ok
			wait w1 a 5 -> waits
			close now -> ok | link: no_close
			end w1 -> closed | link: waits
			wait w2 a 5 -> closed | link: waits
		`,
	}, {
		name:  "a hot key is settled",
		rules: `rules: [{name: all, glob: "*", rate: 20/s, burst: 320}]`,
		calls: `
			load a 5 20s -> ok given=100 | leaf: ok given<100 given>90
			take a 5 id=g -> ok left>313 left<315 | leaf: ok left>1
			settle a g 1 -> ok was=5 charged=1
			take a 0 -> ok left>317 left<319 | leaf: ok left>5
		`,
	}, {
		name:  "without what is behind, a hot key has its last part, then its share",
		rules: `rules: [{name: all, glob: "*", rate: 30/s}]`,
		calls: `
			load a 15 10s -> ok given=150 | leaf: ok given<150 given>140
			load a 50 5s -> ok given=179 | leaf: ok given<180 given>145
			cut -> ok | alone: nothing_behind
			load a 50 2s -> ok given=29 share=100 | alone: ok given=60 | leaf: ok given<61 last>1 | store: ok given<29 share=100 | link: unavailable
			sleep 1m
			load a 50 2s -> ok given=29 share=100 | alone: ok given=89 | leaf: ok given<30 share=100 | link: unavailable
			heal -> ok | alone: nothing_behind
			sleep 1m
			load a 50 2s -> ok given=89 | leaf: ok given<90 given>30
		`,
	},
}
