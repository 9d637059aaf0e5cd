package decidertest

var leaseStories = []story{
	{
		name: "how long a lease lasts",
		rules: `
rules:
  - {name: minute, key: minute, concurrency: {limit: 9, ttl: 1m, max_ttl: 1h}}
  - {name: second, key: second, concurrency: {limit: 9, ttl: 1s}}
  - {name: all, glob: "*", concurrency: {limit: 1}}
`,
		calls: `
			lease l1 minute 1 -> ok ttl=1m0s
			lease l2 minute 1 ttl=2h -> ok ttl=1h0m0s
			renew minute l2 3h -> ok ttl=1h0m0s
			renew minute l1 2s -> ok ttl=2s
			lease l3 second 1 ttl=1m -> ok ttl=10s
			lease l4 a 1 -> ok ttl=30s
			sleep 29900ms
			lease l5 a 1 -> over_limit
			renew a l4 -> ok ttl=30s
			sleep 29900ms
			lease l5 a 1 -> over_limit
			sleep 200ms
			renew a l4 -> no_lease
			return a l4 -> no_lease
			lease l5 a 1 -> ok inflight=1
			lease l6 a 1 -> over_limit
		`,
	}, {
		name:  "what is no lease",
		rules: `rules: [{name: all, glob: "*", concurrency: {limit: 1}}]`,
		calls: `
			lease l a 1 -> ok
			return b l -> no_lease
			renew b l -> no_lease
			return a 00000000000000000000000000000000 -> no_lease
			return a 00000000000000000000000000000000-2 -> no_lease
			renew a - -> no_lease
			explain a -> ok; all inflight=1 limit=1 | share: not_asked
			return a l -> ok
			lease l2 a 1 -> ok
			return a l -> no_lease
			lease l3 a 1 -> over_limit
		`,
	}, {
		name:  "a rule of leases in shadow mode",
		rules: `rules: [{name: trial, glob: "*", concurrency: {limit: 1, ttl: 10s}, mode: shadow}]`,
		calls: `
			lease l1 a 1 -> ok
			lease l2 a 1 -> ok
			lease l3 a 1 wait -> ok
			renew a l3 1h -> ok ttl=1m40s
			return a l2 -> ok
			return a l1 -> ok
			return a l3 -> ok
			return a l3 -> no_lease
		`,
	}, {
		name: "no queue, no wait",
		rules: `
rules:
  - {name: none, key: none, concurrency: {limit: 1, queue: 0}}
  - {name: brief, key: brief, concurrency: {limit: 1, max_wait: 1s, queue: 1}}
  - {name: rate, key: rate, rate: 1/s}
`,
		calls: `
			lease l1 none 1 -> ok
			lease l2 none 1 wait -> over_limit | store: queue_full
			lease l3 brief 1 -> ok
			lease l4 brief 1 wait -> waits
			lease l5 brief 1 wait -> queue_full
			lease l6 brief 2 wait -> over_limit retry=never | wire: over_limit
			sleep 1100ms
			end l4 -> overdue
			lease l7 rate 1 -> no_leasing
			lease l8 other 1 -> no_leasing
		`,
	}, {
		name:  "leases are granted in the order of arrival",
		rules: `rules: [{name: all, glob: "*", concurrency: {limit: 2, ttl: 1s, max_wait: 1h}}]`,
		calls: `
			lease l0 a 2 -> ok
			lease l1 a 2 wait -> waits
			sleep 1ms
			lease l2 a 2 wait -> waits
			sleep 1ms
			lease l3 a 2 wait -> waits
			explain a -> ok; all inflight=2 leasewaiting=3 | share: not_asked | store: any
			sleep 1500ms
			end l1 -> ok
			end l2 -> waits
			lease l4 a 1 -> over_limit
			sleep 1100ms
			end l2 -> ok
			end l3 -> waits
			sleep 1200ms
			end l3 -> ok
		`,
	}, {
		name: "a request for several leases is in order for each",
		rules: `
apply: all
rules:
  - {name: first, glob: "*1*", per: rule, concurrency: {limit: 1, ttl: 1h}}
  - {name: second, glob: "*2*", per: rule, concurrency: {limit: 1, ttl: 1h}}
`,
		calls: `
			lease one 1 1 -> ok
			lease two 2 1 -> ok
			lease early 12 1 wait -> waits
			sleep 1ms
			lease late 2 1 wait -> waits
			return 1 one -> ok
			sleep 2s
			return 2 two -> ok
			sleep 2s
			end early -> ok
			end late -> waits
		`,
	}, {
		name: "what a reload does to leases",
		rules: `
rules:
  - {name: more, key: more, concurrency: {limit: 1, ttl: 1m}}
  - {name: fewer, key: fewer, concurrency: {limit: 2, ttl: 1m}}
  - {name: brief, key: brief, concurrency: {limit: 1, ttl: 1m}}
  - {name: gone, key: gone, concurrency: {limit: 1, ttl: 1m}}
  - {name: off, key: off, concurrency: {limit: 1, ttl: 1m}}
  - {name: rate, key: rate, concurrency: {limit: 1, ttl: 1m}}
---
rules:
  - {name: more, key: more, concurrency: {limit: 2, ttl: 2m}}
  - {name: fewer, key: fewer, concurrency: {limit: 1, ttl: 1m}}
  - {name: brief, key: brief, concurrency: {limit: 1, ttl: 1m, queue: 1, max_wait: 10s}}
  - {name: off, key: off, concurrency: {limit: 1, ttl: 1m}, mode: off}
  - {name: rate, key: rate, rate: 1/s}
`,
		calls: `
			lease more1 more 1 -> ok
			lease more2 more 1 wait -> waits
			lease fewer1 fewer 2 -> ok
			lease fewer2 fewer 1 wait -> waits
			lease brief1 brief 1 -> ok
			lease brief2 brief 1 wait -> waits
			lease brief3 brief 1 wait -> waits
			lease gone1 gone 1 -> ok
			lease gone2 gone 1 wait -> waits
			lease off1 off 1 -> ok
			lease off2 off 1 wait -> waits
			lease rate1 rate 1 -> ok
			lease rate2 rate 1 wait -> waits
			sleep 1s
			rules 1
			sleep 500ms
			end more2 -> ok ttl=2m0s
			end fewer2 -> waits
			renew fewer fewer1 -> ok inflight=2
			lease brief4 brief 1 wait -> queue_full
			end brief2 -> waits
			end gone2 -> no_leasing
			end off2 -> no_leasing
			end rate2 -> no_leasing
			sleep 9s
			end brief2 -> overdue
			end brief3 -> overdue
			return gone gone1 -> ok | nodes: any
			return off off1 -> ok | nodes: any
			rules 0
			lease gone3 gone 1 -> ok | nodes: any
			lease rate3 rate 1 -> over_limit
			return rate rate1 -> ok | nodes: any
			lease rate4 rate 1 -> ok | nodes: any
		`,
	},
}
