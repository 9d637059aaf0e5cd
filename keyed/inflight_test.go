package keyed_test

import (
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/keyed"
)

func newInflight(t *testing.T, limit int) *keyed.Inflight[string] {
	t.Helper()
	l, err := keyed.NewInflight[string](limit, keyed.Config{})
	testrig.Must(t, err)
	return l
}

// A client at its limit gets no more until its work ends; other clients are not affected.
func TestInflight(t *testing.T) {
	l := newInflight(t, 2)
	one, ok := l.TryAcquire("a", 1)
	if !ok {
		t.Fatal("a key without work in flight is denied")
	}
	two, _ := l.TryAcquire("a", 1)
	defer two.Release(weir.Ignored)
	if _, ok := l.TryAcquire("a", 1); ok {
		t.Error("a third unit was granted")
	}
	if p, ok := l.TryAcquire("b", 2); !ok {
		t.Error("b is denied because of a")
	} else {
		p.Release(weir.Success)
	}
	one.Use(0) // a unit in flight is a unit
	if _, ok := l.TryAcquire("a", 1); ok {
		t.Error("a unit came back without a release")
	}
	one.Release(weir.Success)
	one.Release(weir.Success)
	if v, _ := l.Decide(t.Context(), "a", 0); !v.OK || v.Remaining != 1 || v.Policy != (keyed.Policy{Limit: 2, Concurrent: true}) {
		t.Errorf("%+v %+v: want one unit left of two", v.Decision, v.Policy)
	}
	if s := l.Stats(); s != (keyed.InflightStats{Keys: 1, Units: 1, Denied: 2}) {
		t.Errorf("%+v", s)
	}
}

func TestInflightOfManyUnits(t *testing.T) {
	l := newInflight(t, 5)
	p, _ := l.TryAcquire("a", 3)
	for n, want := range map[int]weir.Decision{
		0: {OK: true, Remaining: 2}, 3: {Remaining: 2}, 6: {Remaining: 2, RetryAfter: weir.Never},
		math.MaxInt: {Remaining: 2, RetryAfter: weir.Never},
	} {
		if v, err := l.Decide(t.Context(), "a", n); v.Decision != want || err != nil {
			t.Errorf("%d units: %+v, %v: want %+v", n, v.Decision, err, want)
		}
	}
	l.SetLimit(2) // below what is in flight
	if v, _ := l.Decide(t.Context(), "a", 1); v.OK || v.Remaining != 0 {
		t.Errorf("%+v: want a denial, and none left", v.Decision)
	}
	p.Release(weir.Dropped)
	if p, ok := l.TryAcquire("a", 2); !ok {
		t.Error("denied within the new limit")
	} else {
		p.Release(weir.Success)
	}
	l.SetLimit(-1)
	if _, ok := l.TryAcquire("a", 1); ok {
		t.Error("a limit of 0 has granted a unit")
	}
	if s := l.Stats(); s.Keys != 0 || s.Units != 0 {
		t.Errorf("%+v: want nothing in flight", s)
	}
}

// An IPv6 address is one client with the others of its network, as for a Limiter.
func TestInflightOfAddresses(t *testing.T) {
	l, err := keyed.NewInflight[netip.Addr](1, keyed.Config{})
	testrig.Must(t, err)
	p, _ := l.TryAcquire(netip.MustParseAddr("2001:db8::1"), 1)
	defer p.Release(weir.Success)
	if _, ok := l.TryAcquire(netip.MustParseAddr("2001:db8::2"), 1); ok {
		t.Error("another address of the network has a limit of its own")
	}
}

// While memory is full, new keys are denied; keys with work in flight go on.
func TestInflightWithoutMemory(t *testing.T) {
	l, err := keyed.NewInflight[int](2, keyed.Config{Memory: keyed.MinMemory})
	testrig.Must(t, err)
	const most = keyed.MinMemory / 64
	held := make([]weir.Permit, most)
	for i := range held {
		if p, ok := l.TryAcquire(i, 1); ok {
			held[i] = p.Move()
		} else {
			t.Fatalf("key %d is denied: there is room for %d", i, most)
		}
	}
	if _, ok := l.TryAcquire(most, 1); ok {
		t.Error("there was memory for one key more")
	}
	if p, ok := l.TryAcquire(0, 1); !ok {
		t.Error("a key with work in flight is denied")
	} else {
		p.Release(weir.Success)
	}
	if s := l.Stats(); s.Keys != most || s.Units != most || s.Full != 1 || s.Denied != 0 {
		t.Errorf("%+v", s)
	}
	for i := range held {
		held[i].Release(weir.Success)
	}
	if p, ok := l.TryAcquire(most, 1); !ok {
		t.Error("denied although memory is free again")
	} else {
		p.Release(weir.Success)
	}
}

func TestInflightConfig(t *testing.T) {
	if _, err := keyed.NewInflight[string](-1, keyed.Config{}); err == nil || err.Error() != "keyed: limit = -1: must be >= 0" {
		t.Error(err)
	}
	if _, err := keyed.NewInflight[string](1, keyed.Config{Memory: 1}); err == nil {
		t.Error("a memory of one byte is no error")
	}
	defer func() {
		if recover() == nil {
			t.Error("a negative cost does not panic")
		}
	}()
	newInflight(t, 1).TryAcquire("a", -1)
}

// Whatever many goroutines do, no key exceeds its limit, and all units come back.
func TestAStormInflight(t *testing.T) {
	l, err := keyed.NewInflight[int](3, keyed.Config{})
	testrig.Must(t, err)
	var inflight [5]atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 2000 {
				key, n := (g+i)%5, 1+i%2
				p, ok := l.TryAcquire(key, n)
				if !ok {
					continue
				}
				if now := inflight[key].Add(int64(n)); now > 3 {
					t.Errorf("%d units in flight: want 3 at most", now)
				}
				inflight[key].Add(int64(-n))
				p.Release(weir.Success)
			}
		})
	}
	all.Wait()
	if s := l.Stats(); s.Keys != 0 || s.Units != 0 {
		t.Errorf("%+v: want nothing in flight", s)
	}
}
