//go:build system

package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/redisstore"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// shared returns a node of rules that shares a store.
func shared(t testing.TB, rules, url string, cfg server.StoreConfig) *server.Shared {
	t.Helper()
	client, err := redisstore.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := config.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	link := client.Link(cfg.Link.Timeout)
	link.OnAway = cfg.Link.OnAway
	cfg.Link = link
	s, err := server.NewShared(server.Config{Rules: parsed, MaxLimit: 100}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Disconnect(); _ = client.Close() })
	return s
}

// patient returns the configuration of a node that decides nothing without its store.
func patient() server.StoreConfig {
	return server.StoreConfig{Link: redislink.Config{Timeout: time.Second}}
}

const traceRules = `
apply: all
rules:
  - {name: bucket, glob: "*", rate: 100/h, burst: 20}
  - {name: fixed, glob: "*f*", rate: 15/h, algorithm: fixed}
  - {name: sliding, glob: "*s*", rate: 25/h, algorithm: sliding, max_debt: 5}
  - {name: trial, glob: "*t*", rate: 10/h, mode: shadow}
  - {name: none, key: none, rate: 0/s}
`

// One trace of requests gets the same decisions from memory and from every store: the same
// counts, and the same times but for the time between two calls and a millisecond.
func TestConformance(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"Redis":  func(t *testing.T) string { return "redis://" + redistest.Start(t, "redis-server").Addr },
		"Valkey": func(t *testing.T) string { return "valkey://" + redistest.Start(t, "valkey-server").Addr },
		"Sentinel": func(t *testing.T) string {
			return storeURL(&redistest.Store{Addrs: addresses(redistest.StartPair(t, "redis-server").Sentinel.Addr), MasterName: redistest.MasterName}, 0)
		},
		"Cluster": func(t *testing.T) string {
			c := redistest.StartCluster(t, "valkey-server", 3)
			return storeURL(&redistest.Store{Addrs: addresses(c.Addrs()...), Cluster: true}, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			conform(t, shared(t, traceRules, url(t), patient()), rand.New(rand.NewPCG(seed, 0)), name != "Cluster")
		})
	}
}

// A request without a cost that is denied denies a batch that is all or nothing, and the store takes nothing for the others: not even
// for a moment, in which others would be denied. A key that comes again is decided about once.
func TestSharedLooksInBatches(t *testing.T) {
	const rules = `
rules:
  - {name: bucket, key: bucket, rate: 1/h, burst: 1}
  - {name: sliding, key: sliding, rate: 1/h, algorithm: sliding}
  - {name: fixed, key: fixed, rate: 1/h, algorithm: fixed}
  - {name: all, glob: "*", rate: 3/h, burst: 3}
`
	node := shared(t, rules, "redis://"+redistest.Start(t, "redis-server").Addr, patient())
	batch := func(reqs ...decider.Request) (oks []bool) {
		t.Helper()
		verdicts := make([]decider.Verdict, len(reqs))
		if _, err := node.Batch(t.Context(), reqs, true, verdicts); err != nil {
			t.Fatal(err)
		}
		for i := range verdicts {
			oks = append(oks, verdicts[i].OK)
		}
		return oks
	}
	used := func(key string) int {
		t.Helper()
		x, err := node.Explain(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return x.Rules[0].Used
	}
	for _, key := range []string{"bucket", "sliding", "fixed"} {
		look := decider.Request{Key: key}
		if got := batch(decider.Request{Key: key, N: 1}); !got[0] {
			t.Fatalf("%s: the first token is denied", key)
		}
		for range 50 {
			if got, n := batch(look, decider.Request{Key: "other", N: 1}), used("other"); got[0] || n > 0 {
				t.Fatalf("%s: %v, and %d tokens of another key are used", key, got, n)
			}
		}
	}
	twice := []decider.Request{{Key: "again", N: 3}, {Key: "again"}}
	if got := batch(twice...); got[0] || got[1] || used("again") > 0 {
		t.Errorf("three of three tokens, and a look: %v, and %d are used", got, used("again"))
	}
	twice[0].N = 2
	if got := batch(twice...); !got[0] || !got[1] || used("again") != 2 {
		t.Errorf("two of three tokens, and a look: %v, and %d are used", got, used("again"))
	}
}

func addresses(addrs ...string) func(int) []string { return func(int) []string { return addrs } }

// conform compares the store with memory. With together, batches can be all or nothing.
func conform(t *testing.T, store *server.Shared, rng *rand.Rand, together bool) {
	parsed, err := config.Parse("rules.yaml", []byte(traceRules))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := server.New(server.Config{Rules: parsed, MaxLimit: 100})
	if err != nil {
		t.Fatal(err)
	}
	slowest := time.Duration(0) // step: a bucket begins in both within this
	keys := []string{"a", "f", "s", "t", "fs", "fst", "none", "}f", "{}s", "{tag}st"}
	ctx := context.Background()
	for step := range 600 {
		began := time.Now()
		switch key := keys[rng.IntN(len(keys))]; rng.IntN(10) {
		case 0:
			var all [2][]decider.Verdict
			reqs := []decider.Request{{Key: key, N: 1 + rng.IntN(3)}, {Key: keys[rng.IntN(len(keys))], N: rng.IntN(3)}, {Key: key, N: rng.IntN(2)}}
			atOnce := together && rng.IntN(2) == 0
			if atOnce { // the store decides once about a key that comes again, about the sum
				at := rng.Perm(len(keys))
				reqs[0].Key, reqs[1].Key, reqs[2].Key = keys[at[0]], keys[at[1]], keys[at[2]]
			}
			for i, d := range []decider.Decider{memory, store} {
				all[i] = make([]decider.Verdict, len(reqs))
				if _, err := d.Batch(ctx, reqs, atOnce, all[i]); err != nil {
					t.Fatal(err)
				}
			}
			for i := range reqs {
				agree(t, step, &reqs[i], &all[0][i], &all[1][i], max(slowest, time.Since(began)))
			}
		case 1:
			n := 1 + rng.IntN(4)
			cost := rng.IntN(2 * n)
			settleBoth(t, step, memory, store, key, n, cost)
		default:
			req := decider.Request{Key: key, N: rng.IntN(4)}
			switch rng.IntN(20) {
			case 0:
				req.N = 50
			case 1:
				req.Limit = 1 + rng.IntN(30)
			}
			var m, s decider.Verdict
			if err := errors.Join(memory.Decide(ctx, &req, &m), store.Decide(ctx, &req, &s)); err != nil {
				t.Fatal(err)
			}
			agree(t, step, &req, &m, &s, max(slowest, time.Since(began)))
		}
		slowest = max(slowest, time.Since(began))
		for _, key := range keys {
			explainBoth(t, step, memory, store, key)
		}
	}
	if st := store.StoreStats(); st.Decisions[decider.Exact] == 0 || st.Decisions[decider.Known]+st.Decisions[decider.Share] > 0 {
		t.Errorf("%+v: want decisions of the store alone", st)
	}
}

// explainBoth fails unless both have used as many tokens of a key.
func explainBoth(t *testing.T, step int, memory, store decider.Decider, key string) {
	t.Helper()
	a, err := memory.Explain(context.Background(), key)
	b, err2 := store.Explain(context.Background(), key)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for i := range a.Rules {
		if a.Rules[i].Used != b.Rules[i].Used {
			t.Fatalf("step %d: rule %s has used of key %s: memory %d, store %d", step, a.Rules[i].Rule.Name, key, a.Rules[i].Used, b.Rules[i].Used)
		}
	}
}

// settleBoth takes tokens from both, and settles them at another cost.
func settleBoth(t *testing.T, step int, memory, store decider.Decider, key string, n, cost int) {
	t.Helper()
	ctx, req := context.Background(), decider.Request{Key: key, N: n, WantID: true}
	var done [2]decider.Settlement
	for i, d := range []decider.Decider{memory, store} {
		var v decider.Verdict
		if err := d.Decide(ctx, &req, &v); err != nil {
			t.Fatal(err)
		}
		if !v.OK {
			continue
		}
		id := string(d.AppendGrantID(nil, v.Grant, key))
		var err error
		if done[i], err = d.Settle(ctx, key, id, cost); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Settle(ctx, key, id, cost); err != decider.ErrNoGrant {
			t.Fatalf("step %d: a second settlement: %v", step, err)
		}
	}
	if done[0] != done[1] {
		t.Fatalf("step %d: settled %s from %d to %d: memory %+v, store %+v", step, key, n, cost, done[0], done[1])
	}
}

// agree fails unless two verdicts agree.
func agree(t *testing.T, step int, req *decider.Request, memory, store *decider.Verdict, within time.Duration) {
	t.Helper()
	near := func(a, b time.Duration) bool {
		return (a == weir.Never) == (b == weir.Never) && max(a-b, b-a) <= within+time.Millisecond
	}
	ok := memory.OK == store.OK && memory.Reason == store.Reason && near(memory.RetryAfter, store.RetryAfter) && len(memory.Answers) == len(store.Answers)
	for i := range memory.Answers {
		if !ok {
			break
		}
		a, b := &memory.Answers[i], &store.Answers[i]
		ok = a.Rule.Name == b.Rule.Name && a.OK == b.OK && near(a.RetryAfter, b.RetryAfter)
		// Else memory tells the state with the tokens that it takes back.
		if memory.OK || a == memory.Denied() && req.Limit == 0 {
			ok = ok && a.Remaining == b.Remaining && near(a.ResetAfter, b.ResetAfter)
		}
	}
	if !ok {
		t.Fatalf("step %d: %+v:\nmemory %s\nstore  %s", step, *req, text(memory), text(store))
	}
}

func text(v *decider.Verdict) string {
	s := fmt.Sprintf("OK %v, %v, retry %v:", v.OK, v.Reason, v.RetryAfter)
	for _, a := range v.Answers {
		s += fmt.Sprintf(" %s %+v", a.Rule.Name, a.Decision)
	}
	return s
}

// An error of Explain comes without rules: half of an explanation has none of their names.
func TestSharedExplainAway(t *testing.T) {
	node := shared(t, "rules:\n  - {name: all, glob: '*', rate: 1/s}\n", "redis://127.0.0.1:1", patient())
	if x, err := node.Explain(t.Context(), "a"); err == nil || len(x.Rules) > 0 {
		t.Errorf("%+v, %v: want an error alone", x, err)
	}
}
