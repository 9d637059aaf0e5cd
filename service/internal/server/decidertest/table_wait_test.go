package decidertest

var waitStories = []story{
	{
		name: "each algorithm lets its limit pass", each: "gcra fixed sliding",
		rules: `rules: [{name: all, glob: "*", rate: 3/m, algorithm: EACH}]`,
		calls: `
			take a 0 -> ok left=3
			take a 0 -> ok left=3
			take a 1 -> ok
			take a 1 -> ok
			take a 1 -> ok
			take a 1 -> over_rate retry<2m
			take a 0 -> over_rate retry<2m
			take a 4 -> over_burst retry=never
			take b 3 -> ok left=0
			top -> ok; a allowed=3 denied=2; b allowed=1 denied=0 | share: not_asked | nodes: any
			sleep 2m
			take a 1 -> ok
		`,
	}, {
		name: "each algorithm: all rules allow, or no tokens are taken", each: "gcra fixed sliding",
		rules: `
apply: all
rules:
  - {name: each, glob: "*", rate: 2/h, algorithm: EACH}
  - {name: total, glob: "*", per: rule, rate: 3/h, algorithm: EACH}
`,
		calls: `
			take a 2 -> ok | fleet: refused
			take a 1 -> over_rate by=each
			take b 1 -> ok
			take b 1 -> over_rate by=total
			explain b -> over_rate; each used=1; total used=3 | share: not_asked
		`,
	}, {
		name: "patterns and modes choose the rule",
		rules: `
rules:
  - {name: off, glob: "*", rate: 0/m, mode: off}
  - {name: admin, key: "user:admin", rate: 2/m}
  - {name: users, regex: "^user:", rate: 1/m}
`,
		calls: `
			take user:admin 2 -> ok rule=admin
			take user:admin 1 -> over_rate by=admin
			take user:x 1 -> ok
			take user:x 1 -> over_rate by=users
			take job 3 -> ok rule=none
		`,
	}, {
		name: "a request has a window of its own size", each: "fixed sliding",
		rules: `rules: [{name: all, glob: "*", rate: 5/m, algorithm: EACH}]`,
		calls: `
			take a 2 limit=2 -> ok left=0
			take a 1 limit=2 -> over_rate
			take a 3 -> ok left=0
			take b 8 limit=8 -> ok left=0
			take b 1 -> over_rate
		`,
	}, {
		name:  "a wait for a smaller limit delays no other request",
		rules: `rules: [{name: all, glob: "*", rate: 100/h, queue: 10}]`,
		calls: `
			take a 10 -> ok
			wait w a 1 limit=1 -> waits
			take a 89 -> ok | store: any
			wait w2 a 2 limit=1 -> over_burst retry=never
			wait w3 a 1 limit=1 queue=0 -> queue_full
			wait w4 a 1 limit=1 within=1s -> too_late
		`,
	}, {
		name: "turns come in order", each: "gcra fixed",
		rules: `rules: [{name: all, glob: "*", rate: 1/s, queue: 10, algorithm: EACH}]`,
		calls: `
			take a 1 -> ok
			wait w1 a 1 -> waits
			wait w2 a 1 -> waits
			take a 1 -> over_rate retry=3s | store: over_rate retry<3s
			take b 1 -> ok
			sleep 2200ms
			end w1 -> ok waited=1s place=0 | store: ok
			end w2 -> ok waited=2s place=1 | store: ok
			take a 1 -> over_rate
			sleep 1s
			take a 1 -> ok
		`,
	}, {
		name:  "many turns come in order",
		rules: `rules: [{name: all, glob: "*", rate: 5/s, burst: 1, queue: 10}]`,
		calls: `
			take a 1 -> ok
			wait w1 a 1 -> waits
			wait w2 a 1 -> waits
			wait w3 a 1 -> waits
			wait w4 a 1 -> waits
			wait w5 a 1 -> waits
			wait w6 a 1 -> waits
			wait w7 a 1 -> waits
			sleep 900ms
			end w3 -> ok waited=600ms
			end w4 -> ok waited=800ms
			end w5 -> waits
			end w7 -> waits
			sleep 400ms
			end w6 -> ok waited=1.2s
			end w7 -> waits
			sleep 200ms
			end w7 -> ok waited=1.4s
		`,
	}, {
		name:  "a window lets those in that wait when it begins",
		rules: `rules: [{name: fixed, glob: "*", rate: 3/m, algorithm: fixed}]`,
		calls: `
			take a 3 -> ok
			sleep 20s
			wait w1 a 1 -> waits
			wait w2 a 1 -> waits
			wait w3 a 1 -> waits
			wait w4 a 1 -> waits
			wait w5 a 1 -> waits
			sleep 41s
			end w1 -> ok waited=40s | store: any
			end w3 -> ok waited=40s | store: any
			end w4 -> waits | store: any
			take a 0 -> over_rate
			sleep 1m
			end w1 -> ok
			end w4 -> ok waited=1m40s | store: ok
			end w5 -> ok waited=1m40s | store: ok
		`,
	}, {
		name:  "a large request keeps its place",
		rules: `rules: [{name: all, glob: "*", rate: 4/4s}]`,
		calls: `
			take a 4 -> ok
			wait large a 4 -> waits
			wait small a 1 -> waits
			sleep 4100ms
			end large -> ok waited=4s
			end small -> waits
			sleep 1s
			end small -> ok waited=5s
		`,
	}, {
		name: "a request that leaves moves the others up", each: "gcra fixed",
		rules: `rules: [{name: all, glob: "*", rate: 1/s, algorithm: EACH}]`,
		calls: `
			take a 1 -> ok
			wait w1 a 1 -> waits
			wait w2 a 1 -> waits
			sleep 500ms
			cancel w1
			end w1 -> canceled
			sleep 700ms
			end w2 -> ok waited=1s | store: any
			sleep 2s
			end w2 -> ok
		`,
	}, {
		name: "a request that leaves takes nothing of other rules",
		rules: `
apply: all
rules:
  - {name: many, glob: "*", rate: 5/h}
  - {name: one, glob: "*", rate: 2/h, burst: 1}
`,
		calls: `
			take a 1 -> ok
			wait w a 1 -> waits
			cancel w
			end w -> canceled
			explain a -> over_rate; many used=1; one used=1 | share: not_asked
		`,
	}, {
		name:  "nobody waits under a rule in shadow mode, or without a queue",
		rules: `rules: [{name: trial, glob: "trial*", rate: 2/m, mode: shadow}, {name: none, glob: "*", rate: 1/m, queue: 0}]`,
		calls: `
			take trial 2 -> ok
			wait w1 trial 1 -> ok waited=0s
			take a 1 -> ok
			wait w2 a 1 -> queue_full retry=1m0s
		`,
	}, {
		name:  "descriptors without a rule of their kind are a batch",
		rules: `rules: [{name: jobs, glob: "jobs*", concurrency: {limit: 2}}, {name: all, glob: "*", rate: 60/m, burst: 10}]`,
		calls: `
			batch descriptors a 4, a 7, b 1 -> no; ok left=6; over_rate; ok left=9 | share: not_asked
			batch descriptors all a 4, b 10 -> no; batch_denied; over_rate | share: not_asked
			batch descriptors a 1, jobs 1 -> no_rate | share: not_asked
		`,
	}, {
		name: "rules allow quotas of requests",
		rules: `
apply: all
rules:
  - {name: open, glob: "a*", rate: 1/h, own_quota: true}
  - {name: trial, glob: "*t", rate: 1/h, mode: shadow}
  - {name: closed, glob: "*b", rate: 1/h}
  - {name: leases, glob: "l*", concurrency: {limit: 1}}
  - {name: shadow, glob: "s*", rate: 1/h, own_quota: true, mode: shadow}
`,
		calls: `
			take a 3 own=3/1m -> ok left=0 rule=open
			take a 1 own=3/1m -> over_rate retry=20s
			take a 0 own=3/1m -> over_rate retry=20s
			take a 4 own=3/1m -> over_burst retry=never
			take a 1 own=1/20s/3 -> over_rate
			take a 1 own=4/1m -> ok left=3
			take at 1 own=3/1m -> ok
			take tb 1 own=3/1m -> own_quota
			take ab 1 own=3/1m -> own_quota
			wait w ab 1 own=3/1m -> own_quota
			batch other 1, ab 1 own=3/1m -> own_quota
			take l 3 own=3/1m -> ok
			take l 1 own=3/1m -> over_rate
			take s 3 own=3/1m -> ok
			take s 1 own=3/1m -> ok
			take a 1 -> ok left=0
			sleep 21s
			take a 1 own=3/1m -> ok left=0
			take x 1 own=-1/1m -> bad_quota
			take x 1 own=1/1s/-1 -> bad_quota
			take x 1 own=1/0s -> bad_quota
			batch all x 2 own=3/1m, a 1 -> no; batch_denied; over_rate
			take x 3 own=3/1m -> ok left=0
			batch all y 1 own=3/1m, y 2 own=3/1m -> ok; ok; ok left=0
		`,
	}, {
		name: "a reset fills the buckets of each rule",
		rules: `
apply: all
rules:
  - {name: bucket, glob: "*", rate: 10/h, burst: 20}
  - {name: fixed, glob: "*", rate: 15/h, algorithm: fixed}
  - {name: sliding, glob: "*", rate: 25/h, algorithm: sliding}
  - {name: jobs, glob: "*", concurrency: {limit: 1}}
`,
		calls: `
			take a 15 -> ok
			take a 1 -> over_rate by=fixed
			take b 15 -> ok
			lease l a 1 -> ok
			reset a -> ok bucket=15 fixed=15 sliding=15 | leaf: reset_upstream | link share: no_reset
			take a 15 -> ok | leaf link share: over_rate
			take a 1 -> over_rate
			take b 1 -> over_rate
			lease l2 a 1 -> over_limit
			reset c -> ok bucket=0 | leaf: reset_upstream | link share: no_reset
			take c 15 -> ok
		`,
	}, {
		name:  "a reset of windows that slide",
		rules: `rules: [{name: jobs, key: jobs, concurrency: {limit: 1}}, {name: sliding, glob: "a*", rate: 10/m, algorithm: sliding}]`,
		calls: `
			take a 10 -> ok
			sleep 70s
			take a 1 -> ok
			reset a -> ok | leaf: reset_upstream | link share: no_reset
			take a 10 -> ok left=0 | leaf link share: over_rate
			reset jobs -> ok | link share: no_reset
			reset none -> ok | link share: no_reset
		`,
	},
}
