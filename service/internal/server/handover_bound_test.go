package server_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/snapshot"
	"github.com/weir-go/weir/service/internal/server/snapshot/handover"
)

// FuzzMoveRefillsNothing moves a key while it is used, with and without requests before its
// state has come. No more tokens are ever used than the burst and the rate allow, and a burst
// more for each owner that began without the state.
func FuzzMoveRefillsNothing(f *testing.F) {
	f.Add(uint64(1), uint8(0), false)
	f.Add(uint64(2), uint8(1), true)
	f.Add(uint64(3), uint8(0), true)
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8, early bool) {
		bubble(t, func(t *testing.T) {
			const burst, period = 20, 10 * time.Second
			rule := one("r", quota(burst, period, config.GCRA))
			rule.MaxDebt = ptr(burst)
			if kind%2 == 1 {
				rule.Per = config.PerRule
			}
			fl := newFleet(t, 3, config.Rules{Rules: []config.Rule{rule}})
			random := rand.New(rand.NewPCG(seed, 0))
			slots, start, used, owners := fl.one("k"), time.Now(), 0, 1
			ask := func(d desk) {
				t.Helper()
				for range random.IntN(10) {
					time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
					n := 1 + random.IntN(5)
					if !d.ask("k", n).OK {
						continue
					}
					used += n
					if most := burst*owners + int(time.Since(start)*burst/period) + 1; used > most {
						t.Fatalf("%d tokens are used after %v, with %d bursts: at most %d", used, time.Since(start), owners, most)
					}
				}
			}
			for range 100 {
				from, to := fl.of("k"), random.IntN(3)
				ask(from)
				if fl.members[to] == from {
					continue
				}
				for i := range fl.owner {
					fl.owner[i] = to
				}
				from.Depart(slots)
				var chunks [][]byte
				must(t, from.Export(t.Context(), slots, func(chunk []byte) error {
					chunks = append(chunks, chunk)
					return nil
				}))
				fl.of("k").Expect(slots, 0)
				if early {
					owners++
					ask(fl.of("k"))
				}
				for range 1 + random.IntN(2) {
					for _, chunk := range chunks {
						must(t, fl.of("k").Import(chunk))
					}
				}
				fl.of("k").Received(slots)
				if x := fl.of("k").Explain("k").Rules[0]; x.Used > 2*burst {
					t.Fatalf("%d tokens are owed, beyond the debt", x.Used)
				}
			}
		})
	})
}

// Members hand slots over in both directions while all of them are asked. Every token that a
// request has used is counted at the end: in the bucket, or as its debt.
func TestStormOfMoves(t *testing.T) {
	const keys, burst, moves = 50, 200, 60
	f := newFleet(t, 2, config.Rules{Rules: []config.Rule{one("r", quota(burst, 1000*time.Hour, config.GCRA))}})
	var owner [slot.Count]int
	var mu sync.RWMutex // guards owner
	of := func(key string) desk {
		mu.RLock()
		defer mu.RUnlock()
		return f.members[owner[slot.Of(key)]]
	}
	var used [keys]int
	var all sync.WaitGroup
	done := make(chan struct{})
	for g := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				k := 4*(i%(keys/4)) + g // each key has one caller
				key, v := fmt.Sprint("k", k), decider.Verdict{}
				err := of(key).Server.Decide(t.Context(), &decider.Request{Key: key, N: 1}, &v)
				switch {
				case err == nil && v.OK:
					used[k]++
				case err != nil && err != decider.ErrMoved:
					t.Error(err)
				}
			}
		})
	}
	for i := range moves {
		slots, from, to := new(slot.Set), f.members[i%2], f.members[1-i%2]
		for s := range slot.Count {
			slots.Add(uint16(s))
		}
		to.Expect(slots, time.Second)
		from.Depart(slots)
		mu.Lock()
		for s := range owner {
			owner[s] = 1 - i%2
		}
		mu.Unlock()
		must(t, from.Export(t.Context(), slots, to.Import))
		to.Received(slots)
		must(t, from.Export(t.Context(), slots, to.Import))
	}
	close(done)
	all.Wait()
	for _, m := range f.members {
		must(t, m.Export(t.Context(), slot.All(), f.members[moves%2].Import))
	}
	for k := range 4 * (keys / 4) {
		key := fmt.Sprint("k", k)
		for of(key).ask(key, 1).OK {
			used[k]++
		}
		if owed := of(key).Explain(key).Rules[0].Used; used[k] != owed {
			t.Errorf("%s: %d tokens are used, %d are counted", key, used[k], owed)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	rules := []config.Rule{one("r", quota(5, time.Hour, config.GCRA))}
	f := newFleet(t, 2, config.Rules{Rules: rules})
	f.members[0].allows("k", 3, 3)
	var chunk []byte
	must(t, f.members[0].Export(t.Context(), slot.All(), func(b []byte) error {
		if chunk == nil {
			chunk = b
		}
		return nil
	}))
	other, err := server.New(server.Config{Fleet: "another secret", Rules: &config.Rules{Rules: rules}})
	must(t, err)
	windows, err := server.New(server.Config{Fleet: "secret", Rules: &config.Rules{Rules: []config.Rule{one("r", quota(5, time.Hour, config.Fixed))}}})
	must(t, err)
	alone, err := server.New(server.Config{})
	must(t, err)
	changed := append([]byte{}, chunk...)
	changed[40]++
	for what, err := range map[string]error{
		"of another fleet": other.Import(chunk), "changed": f.members[1].Import(changed),
		"cut off": f.members[1].Import(chunk[:len(chunk)-1]), "empty": f.members[1].Import(nil),
	} {
		if !errors.Is(err, handover.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := windows.Import(chunk); !errors.Is(err, snapshot.ErrNoRule) || !strings.Contains(err.Error(), `"r"`) {
		t.Errorf("another algorithm: %v", err)
	}
	if err := errors.Join(alone.Import(chunk), alone.Export(t.Context(), slot.All(), nil)); err == nil {
		t.Error("no fleet")
	}
	must(t, f.members[1].Import(chunk))
}

// All rules that count for a key have one owner.
func TestRoutes(t *testing.T) {
	each, all := one("each", quota(5, time.Hour, config.GCRA)), one("all", quota(5, time.Hour, config.GCRA))
	each.Glob, all.Per = "e*", config.PerRule
	list := []config.Rule{each, all}
	d := newDesk(t, server.Config{Fleet: "secret"}, list...)
	own := &decider.Quota{Count: 1, Period: time.Second}
	for what, pair := range map[string][2]uint16{
		"a key":            {d.RouteKey("e1"), slot.Of("e1")},
		"a rule":           {d.RouteKey("k1"), slot.Of("all")},
		"an own quota":     {d.Route(&decider.Request{Key: "k1", Quota: own}), slot.Of("k1")},
		"a request":        {d.Route(&decider.Request{Key: "k1"}), slot.Of("all")},
		"keys of one rule": {d.RouteKey("k1"), d.RouteKey("k2")},
	} {
		check(t, what, pair[0], pair[1])
	}
	_, err := server.New(server.Config{Fleet: "secret", Rules: &config.Rules{Apply: config.All, Rules: list}})
	if err == nil || !strings.Contains(err.Error(), `"each" (per: key) and "all" (per: rule)`) {
		t.Errorf("both: %v", err)
	}
	if _, err := server.New(server.Config{Rules: &config.Rules{Apply: config.All, Rules: list}}); err != nil {
		t.Errorf("without a fleet: %v", err)
	}
	both := []config.Rule{all, all}
	both[1].Name, both[1].Glob = "more", "k*"
	d = newDesk(t, server.Config{Fleet: "secret", Rules: &config.Rules{Apply: config.All, Rules: both}})
	check(t, "several rules with one bucket", d.RouteKey("k1"), d.RouteKey("e1"))
	if _, err := server.New(server.Config{Fleet: "secret", Instances: 2}); err == nil {
		t.Error("a fleet with a store")
	}
}

// BenchmarkExport hands a million buckets over.
func BenchmarkExport(b *testing.B) {
	const keys = 1_000_000
	var members [2]*server.Server
	for i := range members {
		rules := &config.Rules{Rules: []config.Rule{one("r", quota(5, time.Hour, config.GCRA))}}
		var err error
		if members[i], err = server.New(server.Config{Fleet: "secret", Rules: rules, Memory: 128 << 20}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range keys {
		var v decider.Verdict
		if err := members[0].Decide(b.Context(), &decider.Request{Key: fmt.Sprint("user:", i), N: 1}, &v); err != nil || !v.OK {
			b.Fatal(v, err)
		}
	}
	for from := 0; b.Loop(); from = 1 - from {
		bytes, spent := 0, time.Duration(0)
		err := members[from].Export(b.Context(), slot.All(), func(chunk []byte) error {
			bytes += len(chunk)
			start := time.Now()
			err := members[1-from].Import(chunk)
			spent += time.Since(start)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(bytes)/keys, "B/key")
		b.ReportMetric(float64(spent.Nanoseconds())/keys, "import-ns/key")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}
