package keyedtable_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/keyedtable"
)

const ms = time.Millisecond

func newLimiter(t testing.TB, q keyedtable.Window, cfg keyedtable.Config) *keyedtable.Windows[string] {
	t.Helper()
	l, err := keyedtable.NewWindows[string](q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func perSecond(limit int) keyedtable.Window {
	return keyedtable.Window{Limit: limit, Period: time.Second}
}

func sliding(q keyedtable.Window) keyedtable.Window {
	q.Sliding = true
	return q
}

// A step is a take of a key, so long after the test began.
type step struct {
	at       time.Duration
	key      string
	n, limit int
	want     weir.Decision
}

func yes(at time.Duration, key string, n, remaining int, reset time.Duration) step {
	return step{at, key, n, 0, weir.Decision{OK: true, Remaining: remaining, ResetAfter: reset}}
}

func no(at time.Duration, key string, n, remaining int, retry, reset time.Duration) step {
	return step{at, key, n, 0, weir.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset}}
}

// under is a step with another limit.
func under(limit int, s step) step {
	s.limit = limit
	return s
}

func TestTake(t *testing.T) {
	const s = time.Second
	long := strings.Repeat("long", 1000)
	for _, tt := range []struct {
		rule  string
		q     keyedtable.Window
		steps []step
	}{
		{"each key has its own count", perSecond(2), []step{
			yes(0, "a", 1, 1, s), yes(0, "a", 1, 0, s), no(0, "a", 1, 0, s, s), yes(0, "", 2, 0, s), yes(0, long, 2, 0, s), no(0, long, 1, 0, s, s),
		}},
		{"a fixed window begins with a key's first event", perSecond(2), []step{
			yes(300*ms, "a", 1, 1, s), yes(700*ms, "b", 2, 0, s), yes(1299*ms, "a", 1, 0, 1*ms), no(1299*ms, "a", 1, 0, 1*ms, 1*ms),
			yes(1300*ms, "a", 2, 0, s), no(1699*ms, "b", 1, 0, 1*ms, 1*ms), yes(1900*ms, "b", 1, 1, s),
		}},
		{"not with a look, nor with a denial", perSecond(2), []step{
			yes(0, "a", 0, 2, 0), no(100*ms, "a", 3, 2, weir.Never, 0), yes(200*ms, "a", 1, 1, s),
		}},
		{"sliding windows begin with the clock's, and fade", sliding(perSecond(4)), []step{
			yes(300*ms, "a", 4, 0, 1700*ms), no(900*ms, "a", 1, 0, 350*ms, 1100*ms), yes(1250*ms, "a", 1, 0, 1750*ms), yes(3*s, "a", 4, 0, 2*s),
		}},
		{"more than the limit never fit", perSecond(2), []step{no(0, "a", 3, 2, weir.Never, 0), no(0, "a", math.MaxInt, 2, weir.Never, 0)}},
		{"a limit of the call's own counts for it alone", perSecond(3), []step{
			yes(0, "a", 2, 1, s), under(2, no(0, "a", 1, 0, s, s)), under(1, yes(0, "a", 0, 0, s)), under(-1, yes(0, "a", 1, 0, s)),
			under(5, yes(0, "a", 2, 0, s)), no(0, "a", 1, 0, s, s), under(5, no(0, "a", 1, 0, s, s)),
		}},
		{"sliding ones too", sliding(perSecond(3)), []step{
			yes(0, "a", 2, 1, 2*s), under(2, no(0, "a", 1, 0, 1500*ms, 2*s)), under(5, yes(0, "a", 3, 0, 2*s)),
		}},
		{"no limit lets nobody in", perSecond(0), []step{no(0, "a", 1, 0, weir.Never, 0), under(1, yes(0, "a", 1, 0, s)), yes(0, "a", 0, 0, s)}},
		{"without a period the window never ends", keyedtable.Window{Limit: 2}, []step{
			yes(0, "a", 1, 1, weir.Never), yes(1000*time.Hour, "a", 1, 0, weir.Never), no(9000*time.Hour, "a", 1, 0, weir.Never, weir.Never),
		}},
		{"nor if it slides", keyedtable.Window{Limit: 2, Sliding: true}, []step{
			yes(0, "a", 2, 0, weir.Never), no(9000*time.Hour, "a", 1, 0, weir.Never, weir.Never),
		}},
		{"a period is a millisecond at least", keyedtable.Window{Limit: 1, Period: 1}, []step{yes(0, "a", 1, 0, ms), no(999999, "a", 1, 0, 1, 1)}},
		{"limits are large", perSecond(math.MaxInt), []step{
			yes(0, "a", 1<<40, keyedtable.MaxLimit-1<<40, s), under(math.MaxInt, yes(0, "a", 1, keyedtable.MaxLimit-1<<40-1, s)),
		}},
		{"and sliding ones as large", sliding(perSecond(math.MaxInt)), []step{
			under(math.MaxInt, no(0, "b", keyedtable.MaxLimit+1, keyedtable.MaxLimit, weir.Never, 0)),
			yes(0, "a", keyedtable.MaxLimit, 0, 2*s), yes(1500*ms, "a", keyedtable.MaxLimit/2, 0, 1500*ms), no(2*s, "a", keyedtable.MaxLimit, keyedtable.MaxLimit/2+1, s, s),
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				l := newLimiter(t, tt.q, keyedtable.Config{})
				for i, step := range tt.steps {
					time.Sleep(step.at - time.Since(began))
					if d := l.Take(step.key, step.n, step.limit); d != step.want {
						t.Errorf("step %d, %.9q takes %d at %v: %+v: want %+v", i, step.key, step.n, step.at, d, step.want)
					}
				}
			})
		})
	}
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]keyedtable.Config{
		"keyed: Memory = 100: must be 0, or from 65536 to 1099511627776":           {Memory: 100},
		"keyed: Memory = -1: must be 0, or from 65536 to 1099511627776":            {Memory: -1},
		"keyed: Memory = 1099511627777: must be 0, or from 65536 to 1099511627776": {Memory: keyedtable.MaxMemory + 1},
	} {
		if _, err := keyedtable.NewWindows[string](perSecond(1), cfg); err == nil || err.Error() != want {
			t.Errorf("%+v: %v: want %s", cfg, err, want)
		}
	}
	for _, memory := range []int{keyedtable.MinMemory, 100_000, 1 << 20, 1 << 30} {
		l := newLimiter(t, keyedtable.Window{Limit: 1}, keyedtable.Config{Memory: memory})
		for i := range 10_000 {
			l.Take(fmt.Sprint(i), 1, 0)
		}
		if s := l.Stats(); s.Memory > memory {
			t.Errorf("%d bytes in use of %d", s.Memory, memory)
		}
	}
}

func TestNegativeCostPanics(t *testing.T) {
	l := newLimiter(t, perSecond(1), keyedtable.Config{})
	for name, f := range map[string]func(){
		"Take":     func() { l.Take("a", -1, 0) },
		"SettleAt": func() { l.SettleAt("a", time.Now(), 1, -1) },
		"was":      func() { l.SettleAt("a", time.Now(), math.MinInt, 1) },
		"Ahead":    func() { l.Ahead("a", -1, 0) },
	} {
		func() {
			defer func() {
				if p := recover(); p != "keyed: negative cost" {
					t.Errorf("%s: panic %v", name, p)
				}
			}()
			f()
		}()
	}
	if !l.Take("a", 1, 0).OK {
		t.Error("denied")
	}
}

func TestTop(t *testing.T) {
	l := newLimiter(t, keyedtable.Window{Limit: 1, Period: time.Hour}, keyedtable.Config{Memory: 1 << 20})
	for i := range 1000 {
		l.Take("worst", 1, 0)
		if i%2 == 0 {
			l.Take("bad", 1, 0)
		}
		for j := range 5 { // many keys that are denied once
			key := fmt.Sprint(i, j)
			l.Take(key, 1, 0)
			l.Take(key, 1, 0)
			l.Take(key, 0, 0)
		}
	}
	top := l.Top(2)
	if len(top) != 2 || top[0].Key != "worst" || top[1].Key != "bad" {
		t.Fatalf("%+v: want worst and bad", top)
	}
	for i, want := range []uint64{999, 499} {
		if d := top[i]; d.Count < want || d.Count-d.Over > want {
			t.Errorf("%+v: want %d in between", d, want)
		}
	}
	if s := l.Stats(); s.Denied != 999+499+5000 {
		t.Errorf("%+v", s)
	}
	if n := len(l.Top(1 << 30)); n > 256*8 {
		t.Errorf("%d keys", n)
	}
	if n := len(l.Top(-1)); n != 0 {
		t.Errorf("%d keys: want none", n)
	}
}

// However many ask at once, each key gets its limit and no more.
func TestStorm(t *testing.T) {
	l := newLimiter(t, keyedtable.Window{Limit: 10}, keyedtable.Config{Memory: keyedtable.MinMemory, MaxDebt: -1})
	var allowed [50]atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 3000 {
				k := (i*7 + g) % len(allowed)
				key := fmt.Sprint(k)
				switch i % 5 {
				case 0:
					if l.Take(key, 2, 0).OK {
						allowed[k].Add(1)
						l.SettleAt(key, time.Now(), 2, 1)
					}
				case 1:
					l.Used(key)
					l.Ahead(key, 3, 0)
				case 2:
					if i%100 == 2 {
						l.SetWindow(keyedtable.Window{Limit: 10})
						l.Stats()
						l.Top(3)
					}
				default:
					if l.Take(key, 1, 0).OK {
						allowed[k].Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	for k := range allowed {
		for l.Take(fmt.Sprint(k), 1, 0).OK {
			allowed[k].Add(1)
		}
		if n := allowed[k].Load(); n != 10 {
			t.Errorf("key %d: %d allowed: want 10", k, n)
		}
	}
	if s := l.Stats(); s.Forgotten != 0 {
		t.Errorf("%+v: something is forgotten", s)
	}
}

// heap returns the bytes in use, without garbage.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
