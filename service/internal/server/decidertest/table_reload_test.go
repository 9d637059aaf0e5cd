package decidertest

var reloadStories = []story{
	{
		name: "what a reload does to those that wait",
		rules: `
rules:
  - {name: same, key: same, rate: 1/10s}
  - {name: faster, key: faster, rate: 1/10s}
  - {name: slower, key: slower, rate: 1/10s}
  - {name: fixed, key: fixed, rate: 1/10s}
  - {name: gone, key: gone, rate: 1/10s}
  - {name: none, key: none, rate: 1/10s}
  - {name: trial, key: trial, rate: 1/10s}
---
rules:
  - {name: same, key: same, rate: 1/10s}
  - {name: faster, key: faster, rate: 1/2s}
  - {name: slower, key: slower, rate: 1/20s}
  - {name: fixed, key: fixed, rate: 1/10s, algorithm: fixed}
  - {name: none, key: none, rate: 0/s}
  - {name: trial, key: trial, rate: 1/10s, mode: shadow}
`,
		calls: `
			batch same 1, faster 1, slower 1, fixed 1, gone 1, none 1, trial 1 -> ok; ok; ok; ok; ok; ok; ok; ok
			wait same1 same 1 -> waits
			wait same2 same 1 -> waits
			wait faster1 faster 1 -> waits
			wait faster2 faster 1 -> waits
			wait slower1 slower 1 -> waits
			wait slower2 slower 1 -> waits
			wait fixed1 fixed 1 -> waits
			wait fixed2 fixed 1 -> waits
			wait gone1 gone 1 -> waits
			wait gone2 gone 1 -> waits
			wait none1 none 1 -> waits
			wait trial1 trial 1 -> waits
			sleep 1s
			rules 1
			end gone1 -> ok waited=1s | store: waits
			end gone2 -> ok waited=1s | store: waits
			end none1 -> over_burst | store: waits
			end trial1 -> ok waited=1s | store: waits
			end fixed1 -> ok waited=1s | store: waits
			end fixed2 -> waits
			sleep 1700ms
			end faster1 -> waits
			sleep 200ms
			end faster1 -> ok waited=2.8s | store: waits
			sleep 2s
			end faster2 -> ok waited=4.8s | store: waits
			sleep 5500ms
			end same1 -> ok waited=10s
			sleep 1s
			end fixed2 -> ok waited=11s | store: waits
			sleep 8s
			end slower1 -> ok waited=19s | store: ok
			sleep 1s
			end same2 -> ok waited=20s
			sleep 20s
			end slower2 -> ok
		`,
	}, {
		name: "counts of a rule over a reload",
		rules: `
rules:
  - {name: pattern, glob: "pattern", rate: 10/h}
  - {name: larger, key: larger, rate: 10/h}
  - {name: smaller, key: smaller, rate: 10/h}
  - {name: kind, key: kind, rate: 10/h}
  - {name: named, key: named, rate: 10/h}
---
rules:
  - {name: pattern, glob: "pat*", rate: 10/h, queue: 5}
  - {name: larger, key: larger, rate: 10/h, burst: 20}
  - {name: smaller, key: smaller, rate: 10/h, burst: 2}
  - {name: kind, key: kind, rate: 10/h, algorithm: fixed}
  - {name: other, key: named, rate: 10/h}
`,
		calls: `
			batch pattern 7, larger 7, smaller 7, kind 7, named 7 -> ok; ok; ok; ok; ok; ok
			rules 1
			take pattern 0 -> ok left=3
			take larger 0 -> ok left=3 | store: ok left=13
			take smaller 0 -> ok left=2 | store: over_rate
			take kind 0 -> ok left=10
			take named 0 -> ok left=10
		`,
	}, {
		name: "rules that come, go and move reach those that wait",
		rules: `
rules: [{name: a, glob: "a*", rate: 1/10s}, {name: all, glob: "*", rate: 1/10s}]
---
rules: [{name: all, glob: "*", rate: 1/10s}, {name: a, glob: "a*", rate: 1/10s}]
---
rules: [{name: new, key: b, rate: 0/h}, {name: all, glob: "*", rate: 1/10s}, {name: a, glob: "a*", rate: 1/10s}]
`,
		calls: `
			take a 1 -> ok
			take b 1 -> ok
			wait wa a 1 -> waits
			wait wb b 1 -> waits
			sleep 1s
			rules 1
			end wa -> ok waited=1s | store: waits
			end wb -> waits
			sleep 1s
			rules 2
			end wb -> over_burst | store: waits
		`,
	}, {
		name: "a wait does not begin again with a reload",
		rules: `
rules: [{name: all, glob: "*", rate: 1/10s, max_wait: 10s}]
---
apply: all
rules: [{name: before, glob: "*", rate: 1/s}, {name: all, glob: "*", rate: 1/20s, max_wait: 10s}]
`,
		calls: `
			take a 1 -> ok
			wait w a 1 -> waits
			sleep 9s
			rules 1
			end w -> over_rate | store: waits
		`,
	},
}
