package decidertest

var settleStories = []story{
	{
		name: "what is charged",
		rules: `
rules:
  - {name: three, glob: "three*", rate: 10/10s, max_debt: 3}
  - {name: none, glob: "none*", rate: 10/10s, max_debt: 0}
  - {name: burst, glob: "*", rate: 10/10s}
`,
		calls: `
			take a 4 id=a -> ok
			settle a a 4 -> ok was=4 charged=4
			explain a -> ok; burst left=6 reset=4s | share: not_asked
			take b 4 id=b -> ok
			settle b b 0 -> ok was=4 charged=0
			explain b -> ok; burst left=10 reset=0s | share: not_asked
			take c 1 id=c -> ok
			settle c c 7 -> ok was=1 charged=7
			explain c -> ok; burst left=3 reset=7s | share: not_asked
			take d 1 id=d -> ok
			settle d d 15 -> ok was=1 charged=15
			explain d -> over_rate; burst left=0 reset=15s | share: not_asked
			take e 1 id=e -> ok
			settle e e 100 -> ok was=1 charged=20
			take three 1 id=f -> ok
			settle three f 100 -> ok was=1 charged=13
			take none 1 id=g -> ok
			settle none g 100 -> ok was=1 charged=10
			explain none -> over_rate; none left=0 reset=10s | share: not_asked
			take h 10 id=h -> ok
			sleep 10010ms
			settle h h 0 -> ok was=10 charged=0
			take h 10 -> ok left=0
		`,
	}, {
		name: "debts do not add up", each: "gcra fixed sliding",
		rules: `rules: [{name: all, glob: "*", rate: 10/1000s, max_debt: 5, algorithm: EACH}]`,
		calls: `
			take a 3 id=g -> ok
			take a 3 id=h -> ok
			take a 4 id=i -> ok
			settle a g 6 -> ok was=3 charged=6
			settle a h 6 -> ok was=3 charged=5
			settle a i 6 -> ok was=4 charged=4
		`,
	}, {
		name:  "several grants are settled as if only their costs had been taken",
		rules: `rules: [{name: all, glob: "*", rate: 350/m}]`,
		calls: `
			batch a 50 id=g1, a 50 id=g2, a 50 id=g3, a 50 id=g4, a 50 id=g5, a 50 id=g6, a 50 id=g7 -> ok; ok; ok; ok; ok; ok; ok; ok left=0
			sleep 15s
			settle a g1 10 -> ok charged=10
			settle a g2 10 -> ok charged=10
			settle a g3 10 -> ok charged=10
			settle a g4 10 -> ok charged=10
			settle a g5 10 -> ok charged=10
			settle a g6 10 -> ok charged=10
			settle a g7 10 -> ok charged=10
			take a 0 -> ok left=350
		`,
	}, {
		name:  "tokens that would have been spilled do not come back",
		rules: `rules: [{name: all, glob: "*", rate: 10/10s}]`,
		calls: `
			take a 10 id=g -> ok
			sleep 9500ms
			take a 9 -> ok left=0
			settle a g 0 -> ok charged=0
			take a 1 -> ok
			take a 1 -> over_rate
			take b 10 id=h -> ok
			sleep 10010ms
			take b 10 -> ok
			settle b h 0 -> ok was=10
			take b 1 -> over_rate
		`,
	}, {
		name:  "of a bucket that was nearly empty, all comes back",
		rules: `rules: [{name: all, glob: "*", rate: 100/100s}]`,
		calls: `
			take a 80 -> ok
			take a 20 id=g -> ok left=0
			sleep 70s
			take a 0 -> ok left=70
			settle a g 5 -> ok was=20 charged=5
			take a 0 -> ok left=85
		`,
	}, {
		name:  "a settlement serves those that wait",
		rules: `rules: [{name: all, glob: "*", rate: 1/h}]`,
		calls: `
			take a 1 id=g -> ok
			wait w a 1 -> waits
			sleep 1s
			settle a g 0 -> ok charged=0
			end w -> ok waited=1s | store: waits
		`,
	}, {
		name: "a grant of a window that is over returns nothing", each: "gcra fixed sliding",
		rules: `rules: [{name: all, glob: "*", rate: 10/10s, algorithm: EACH}]`,
		calls: `
			batch a 4 id=g, a 6 id=h -> ok; ok; ok
			sleep 21s
			take a 10 -> ok
			settle a g 0 -> ok was=4
			settle a h 0 -> ok was=6
			take a 1 -> over_rate
		`,
	}, {
		name: "a rule in shadow mode is settled if it would have given",
		rules: `
apply: all
rules:
  - {name: real, glob: "*", rate: 100/h}
  - {name: trial, glob: "*", rate: 10/h, mode: shadow}
`,
		calls: `
			take a 7 id=g -> ok
			take a 7 id=h -> ok
			settle a g 2 -> ok was=7 charged=2
			settle a h 2 -> ok was=7 charged=2
			explain a -> ok; real used=4; trial used=2 | share: not_asked
		`,
	}, {
		name: "a grant is of the rules that gave it",
		rules: `
rules: [{name: a, glob: "*", rate: 100/h}, {name: b, glob: "*", rate: 10/h}]
---
rules: [{name: a, glob: "*", rate: 100/h}, {name: b, glob: "*", rate: 10/h}, {name: c, glob: "*", rate: 1/h}]
---
rules: [{name: b, glob: "*", rate: 10/h}, {name: a, glob: "*", rate: 100/h}]
---
rules: [{name: a, glob: "*", rate: 100/h, algorithm: fixed}]
`,
		calls: `
			take a 5 id=g -> ok
			take a 5 id=h -> ok
			take a 5 id=i -> ok left=85
			sleep 2ms
			rules 1
			settle a g 0 -> ok was=5 charged=0
			rules 2
			settle a h 0 -> no_grant
			take a 0 -> ok left=10
			rules 3
			settle a i 0 -> no_grant | fleet share store: ok was=5 charged=5
		`,
	}, {
		name: "a grant outlives another order of rules that all count",
		rules: `
apply: all
rules: [{name: a, glob: "*", rate: 5/h}, {name: b, glob: "*", rate: 5/h}]
---
apply: all
rules: [{name: b, glob: "*", rate: 5/h}, {name: a, glob: "*", rate: 5/h}]
`,
		calls: `
			take a 2 id=g -> ok
			rules 1
			settle a g 0 -> ok was=2 charged=0
			take a 0 -> ok left=5
		`,
	},
}
