package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

const ms = time.Millisecond

func newLimiter[K comparable](t testing.TB, q gcra.Quota, cfg keyed.Config) *keyed.Limiter[K] {
	t.Helper()
	l, err := keyed.New[K](q, cfg)
	testrig.Must(t, err)
	return l
}

func perSecond(count, burst int) gcra.Quota { return gcra.Per(count, time.Second, burst) }

func TestEveryKeyHasItsOwnBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(10, 2), keyed.Config{})
		for _, key := range []string{"a", "b", "", strings.Repeat("long", 1000)} {
			var got [3]bool
			for i := range got {
				got[i] = l.Allow(key)
			}
			if got != [3]bool{true, true, false} {
				t.Errorf("%.10q: %v: want two of three", key, got)
			}
		}
		time.Sleep(100*ms - 1)
		if l.Allow("a") {
			t.Error("a token a nanosecond too early")
		}
		time.Sleep(1 * time.Nanosecond)
		if !l.Allow("a") || l.Allow("a") {
			t.Error("want one token after its time")
		}
		if d := l.Take("b", 0); d.Remaining != 1 || d.ResetAfter != 100*ms {
			t.Errorf("%+v: want one left", d)
		}
		if d := l.Take("b", 2); d.OK || d.Remaining != 1 || d.RetryAfter != 100*ms {
			t.Errorf("%+v: want it denied for 100ms", d)
		}
		if d := l.Take("b", 3); d.OK || d.RetryAfter != weir.Never {
			t.Errorf("%+v: want it denied for ever", d)
		}
		if !l.Take("b", 1).OK || l.Take("new", 3).OK {
			t.Error("Take: want 1 and not 3")
		}
	})
}

// Keys of all kinds, named types among them, are told apart.
func TestKinds(t *testing.T) {
	type (
		name   string
		number int32
		pair   struct {
			a string
			b int
		}
	)
	x, y := new(int), new(int)
	check(t, "a", "b")
	check(t, name("a"), name("b"))
	check(t, number(-1), number(1))
	check(t, int8(1), int8(2))
	check(t, uint16(1), uint16(257))
	check(t, int64(1), int64(1)<<40)
	check(t, uint(1), uint(1)<<40)
	check(t, true, false)
	check(t, [16]byte{1}, [16]byte{15: 1})
	check(t, [3]byte{1}, [3]byte{2})
	check(t, [2]string{"a", "b"}, [2]string{"b", "a"})
	check(t, 1.5, 2.5)
	check(t, pair{"a", 1}, pair{"a", 2})
	check(t, any("a"), any(1))
	check(t, x, y)
	check(t, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"))
	check(t, netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/9"))
	check(t, netip.MustParsePrefix("::/104"), netip.MustParsePrefix("::ffff:10.0.0.0/104"))
	check(t, netip.MustParseAddrPort("192.0.2.1:80"), netip.MustParseAddrPort("192.0.2.1:81"))
}

func check[K comparable](t *testing.T, a, b K) {
	t.Helper()
	l := newLimiter[K](t, gcra.Per(1, time.Hour, 1), keyed.Config{})
	if !l.Allow(a) || !l.Allow(b) || l.Allow(a) || l.Allow(b) {
		t.Errorf("%T: %v and %v: want one of each", a, a, b)
	}
	top := topOf(l, 10)
	if len(top) != 2 || !slices.ContainsFunc(top, func(d denied[K]) bool { return d.key == a }) {
		t.Errorf("%T: denied: %v: want %v", a, top, a)
	}
}

// An IPv6 site has one bucket, an IPv4 address its own, however it is written.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		a, b  string
		same  bool
		shown string
	}{
		{"2001:db8::1", "2001:db8::2", true, "2001:db8::"},
		{"2001:db8::1", "2001:db8:0:1::1", false, "2001:db8::"},
		{"2001:db8::1", "2001:db8::1%eth0", true, "2001:db8::"},
		{"192.0.2.1", "192.0.2.2", false, "192.0.2.1"},
		{"192.0.2.1", "::ffff:192.0.2.1", true, "192.0.2.1"},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.2", false, "192.0.2.1"},
		{"0.0.0.0", "::", false, "0.0.0.0"},
	} {
		alike(t, netip.MustParseAddr(tt.a), netip.MustParseAddr(tt.b), tt.same, netip.MustParseAddr(tt.shown))
	}
	for _, tt := range []struct {
		a, b  string
		bits  int
		same  bool
		shown string
	}{
		{"192.0.2.1", "192.0.2.255", 24, true, "192.0.2.0/24"},
		{"192.0.2.1", "192.0.3.1", 24, false, "192.0.2.0/24"},
		{"1.0.0.0", "127.255.255.255", 1, true, "0.0.0.0/1"},
		{"127.0.0.0", "128.0.0.0", 1, false, "0.0.0.0/1"},
		{"2001:db8::1", "2001:db8:0:ff::", 56, true, "2001:db8::/56"},
		{"2001:db8::1", "2001:db8:0:100::", 56, false, "2001:db8::/56"},
		{"2001:db8::1", "2001:db8::2", 128, false, "2001:db8::1/128"},
		{"2001:db8::1", "2001:db8::ffff:ffff", 96, true, "2001:db8::/96"},
		{"2001:db8::1", "2001:db8::1:0:0", 96, false, "2001:db8::/96"},
		{"::", "7fff::", 1, true, "::/1"},
		{"::", "8000::", 1, false, "::/1"},
	} {
		a, b := netip.PrefixFrom(netip.MustParseAddr(tt.a), tt.bits), netip.PrefixFrom(netip.MustParseAddr(tt.b), tt.bits)
		alike(t, a, b, tt.same, netip.MustParsePrefix(tt.shown))
	}
	l := newLimiter[netip.Addr](t, gcra.Per(1, time.Hour, 1), keyed.Config{})
	if !l.Allow(netip.Addr{}) || l.Allow(netip.Addr{}) {
		t.Error("the zero address has no bucket")
	}
}

// alike checks whether a and b are the same key, which Top shows as shown.
func alike[K comparable](t *testing.T, a, b K, same bool, shown K) {
	t.Helper()
	l := newLimiter[K](t, gcra.Per(1, time.Hour, 1), keyed.Config{})
	if !l.Allow(a) || l.Allow(b) == same {
		t.Errorf("%v and %v: want the same: %v", a, b, same)
	}
	l.Allow(a)
	if top := topOf(l, 10); !slices.ContainsFunc(top, func(d denied[K]) bool { return d.key == shown }) {
		t.Errorf("%v is shown as %v: want %v", a, top, shown)
	}
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]keyed.Config{
		"keyed: Memory = 100: must be 0, or from 65536 to 1099511627776": {Memory: 100},
		"keyed: Memory = -1: must be 0, or from 65536 to 1099511627776":  {Memory: -1},
	} {
		if _, err := keyed.New[string](perSecond(1, 1), cfg); err == nil || err.Error() != want {
			t.Errorf("%+v: %v: want %s", cfg, err, want)
		}
	}
	for _, memory := range []int{keyed.MinMemory, 100_000, 1 << 20, 1 << 30} {
		l := newLimiter[int](t, gcra.Per(1, time.Hour, 1), keyed.Config{Memory: memory})
		for i := range 10_000 {
			l.Allow(i)
		}
		if s := l.Stats(); s.Memory > memory {
			t.Errorf("%d bytes in use of %d", s.Memory, memory)
		}
	}
}

func TestUnlimited(t *testing.T) {
	l := newLimiter[int](t, gcra.Unlimited(), keyed.Config{})
	for i := range 100_000 {
		if !l.Take(i, math.MaxInt).OK {
			t.Fatal("denied")
		}
	}
	if err := l.For(1).WaitN(t.Context(), math.MaxInt); err != nil {
		t.Error(err)
	}
	if s := l.Stats(); s.Memory > 1<<20 {
		t.Errorf("%+v: want no memory taken", s)
	}
}

func TestNegativeCostPanics(t *testing.T) {
	l := newLimiter[int](t, perSecond(1, 1), keyed.Config{})
	for name, f := range map[string]func(){
		"Take":   func() { l.Take(1, -1) },
		"Wait":   func() { l.For(1).WaitN(context.Background(), -1) },
		"Settle": func() { l.Settle(1, 1, -1) },
		"was":    func() { l.Settle(1, -1, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			f()
		}()
		if !l.Allow(2) {
			t.Fatal("denied")
		}
		l.Settle(2, 1, 0)
	}
}

func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			rule    string
			maxDebt int
			was, n  int
			want    int           // left of 10, after 4 were taken
			clear   time.Duration // until it is out of debt
		}{
			{"less comes back", 0, 4, 1, 9, 0},
			{"nothing at all", 0, 4, 0, 10, 0},
			{"more is taken", 0, 4, 9, 1, 0},
			{"into debt of a burst", 0, 4, 4 + 60, 0, time.Second},
			{"of as much as allowed", 3, 4, 4 + 60, 0, 300 * ms},
			{"or none", -1, 4, 4 + 60, 0, 0},
		} {
			l := newLimiter[string](t, perSecond(10, 10), keyed.Config{MaxDebt: tt.maxDebt})
			l.Take("a", 4)
			l.Settle("a", tt.was, tt.n)
			if d := l.Take("a", 0); d.Remaining != tt.want || d.RetryAfter != tt.clear {
				t.Errorf("%s: %+v", tt.rule, d)
			}
			if d := l.Take("b", 0); d.Remaining != 10 {
				t.Errorf("%s: another key: %+v", tt.rule, d)
			}
		}
		l := newLimiter[string](t, perSecond(10, 10), keyed.Config{})
		l.Settle("fresh", 0, 15)
		if d := l.Take("fresh", 0); d.OK || d.RetryAfter != 500*ms {
			t.Errorf("a fresh key is charged: %+v", d)
		}
		l.Settle("other", 5, 0)
		if d := l.Take("other", 0); d.Remaining != 10 {
			t.Errorf("a full bucket gets more: %+v", d)
		}
	})
}

// A story notes how the calls that wait end, and when.
type story struct {
	t     *testing.T
	l     *keyed.Limiter[string]
	began time.Time
	mu    sync.Mutex
	said  []string
}

func tell(t *testing.T, l *keyed.Limiter[string]) *story {
	return &story{t: t, l: l, began: time.Now()}
}

func (s *story) join(ctx context.Context, who, key string, n int) {
	go func() {
		err := s.l.For(key).WaitN(ctx, n)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = append(s.said, fmt.Sprintf("%s %v %v", who, err, time.Since(s.began)))
	}()
	synctest.Wait()
}

func (s *story) expect(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.said)
	slices.Sort(want)
	if !slices.Equal(s.said, want) {
		s.t.Errorf("%q:\nwant %q", s.said, want)
	}
}

// A turn at the very deadline is in time, whichever of the two timers is heard
// first.
func TestTurnAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(10, 1), keyed.Config{})
		l.Allow("a")
		for range 200 {
			soon, cancel := context.WithTimeout(t.Context(), 100*ms)
			if err := l.For("a").WaitN(soon, 1); err != nil {
				t.Fatalf("%v: want its turn", err)
			}
			cancel()
		}
		if st := l.Stats(); st.Own != 0 || st.Waiting != 0 {
			t.Errorf("%+v: want nothing left behind", st)
		}
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(10, 2), keyed.Config{})
		s := tell(t, l)
		ctx := t.Context()
		soon, cancel := context.WithTimeout(ctx, 300*ms)
		defer cancel()
		leaves, leave := context.WithCancel(ctx)
		over, end := context.WithCancel(ctx)
		end()
		s.join(ctx, "a1", "a", 2)
		s.join(ctx, "a2", "a", 1)
		s.join(leaves, "a3", "a", 2)
		s.join(ctx, "a4", "a", 1)
		s.join(soon, "a5", "a", 1)
		s.join(ctx, "b1", "b", 1)
		s.join(ctx, "large", "b", 3)
		s.join(over, "over", "b", 1)
		if n := l.Stats().Waiting; n != 3 {
			t.Errorf("%d wait: want a2, a3, a4", n)
		}
		if l.Allow("a") {
			t.Error("somebody overtakes")
		}
		time.Sleep(150 * ms)
		leave()
		time.Sleep(time.Hour)
		s.expect("a1 <nil> 0s", "a2 <nil> 100ms", "a3 context canceled 150ms", "a4 <nil> 200ms",
			"a5 rejected: too_late 0s", "b1 <nil> 0s", "large rejected: over_burst 0s", "over context canceled 0s")
		if st := l.Stats(); st.Own != 0 || st.Waiting != 0 {
			t.Errorf("%+v: want nothing left behind", st)
		}
		if d := l.Take("a", 0); d.Remaining != 2 {
			t.Errorf("%+v: want it full", d)
		}
	})
}

func TestBoundsOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			cfg  keyed.Config
			want []string
		}{
			{keyed.Config{Queue: 4}, []string{"1 <nil> 100ms", "2 <nil> 200ms", "3 rejected: queue_full 0s", "other <nil> 0s"}},
			{keyed.Config{Queue: -1}, []string{"1 rejected: over_rate 0s", "2 rejected: over_rate 0s", "3 rejected: over_rate 0s", "other <nil> 0s"}},
			{keyed.Config{MaxWait: -1}, []string{"1 rejected: over_rate 0s", "2 rejected: over_rate 0s", "3 rejected: over_rate 0s", "other <nil> 0s"}},
			{keyed.Config{MaxWait: 200 * ms}, []string{"1 <nil> 100ms", "2 <nil> 200ms", "3 rejected: over_rate 0s", "other <nil> 0s"}},
		} {
			s := tell(t, newLimiter[string](t, perSecond(10, 1), tt.cfg))
			s.l.Allow("a")
			for _, who := range []string{"1", "2", "3"} {
				s.join(t.Context(), who, "a", 1)
			}
			s.join(t.Context(), "other", "b", 1)
			time.Sleep(time.Hour)
			s.expect(tt.want...)
		}
		l := newLimiter[string](t, perSecond(10, 1), keyed.Config{MaxWait: ms})
		l.Allow("a")
		err := l.For("a").WaitN(t.Context(), 1)
		if r, ok := errors.AsType[*weir.Rejection](err); !ok || r.RetryAfter < 100*ms || r.RetryAfter > 125*ms {
			t.Errorf("%v: want it to say when to come back", err)
		}
	})
}

// A key may take as many places as stay free, so that no key takes all of them.
func TestAKeyLeavesPlacesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, gcra.Per(1, time.Hour, 1), keyed.Config{Queue: 8})
		ctx, leave := context.WithCancel(t.Context())
		waits := func(key string, callers int) (waiting int) {
			l.Allow(key)
			was := l.Stats().Waiting
			for range callers {
				go func() { _ = l.For(key).WaitN(ctx, 1) }()
			}
			synctest.Wait()
			return l.Stats().Waiting - was
		}
		for i, want := range []int{4, 2, 1, 1, 0} {
			if n := waits(fmt.Sprint(i), 100); n != want {
				t.Errorf("key %d: %d calls wait: want %d", i, n, want)
			}
		}
		leave()
		synctest.Wait()
		if n := l.Stats().Waiting; n != 0 {
			t.Errorf("%d calls wait in the end", n)
		}
	})
}

// Tokens that one key's work gives back serve the calls that wait for the key.
func TestPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(1, 10), keyed.Config{})
		p, err := l.For("a").Acquire(t.Context(), 10)
		testrig.Must(t, err)
		s := tell(t, l)
		s.join(t.Context(), "first", "a", 2)
		s.join(t.Context(), "second", "a", 3)
		p.Use(7)
		s.expect("first <nil> 0s")
		p.Use(12) // the second is five tokens farther away
		p.Release(weir.Success)
		time.Sleep(time.Hour)
		s.expect("first <nil> 0s", "second <nil> 7s")

		chain := weir.Chain(l.For("c"), refuser{})
		if _, err := chain.Acquire(t.Context(), 4); err == nil {
			t.Fatal("not refused")
		}
		if d := l.Take("c", 0); d.Remaining != 10 {
			t.Errorf("%+v: want all given back", d)
		}
	})
}

type refuser struct{}

func (refuser) Acquire(context.Context, int) (weir.Permit, error) {
	return weir.Permit{}, weir.Reject(weir.OverLimit, 0)
}

func TestQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(10, 4), keyed.Config{})
		left := func(key string, want int) {
			t.Helper()
			if d := l.Take(key, 0); d.Remaining != want {
				t.Errorf("%s: %+v: want %d", key, d, want)
			}
		}
		l.Take("a", 3)
		l.Take("b", 1)
		l.SetQuotaFor("a", new(perSecond(100, 50)))
		left("a", 1) // no gift
		left("b", 3)
		left("c", 4)
		time.Sleep(time.Second)
		left("a", 50)
		l.Take("a", 48)
		l.SetQuota(perSecond(1, 3))
		left("a", 2)
		left("b", 3)
		left("c", 3)
		if l.Take("b", 4).OK || !l.Take("b", 3).OK || !l.Take("d", 2).OK {
			t.Error("the new burst does not count")
		}
		l.SetQuotaFor("a", nil)
		l.SetQuotaFor("a", nil)
		l.SetQuotaFor("nobody", nil)
		left("a", 2)
		time.Sleep(time.Second)
		left("a", 3)
		left("b", 1)
		left("d", 2)
		l.SetQuota(perSecond(1, 5)) // a larger burst gives no tokens to a key that has a bucket
		left("b", 1)
		left("d", 2)
		if n := l.For("a").Burst(); n != 5 {
			t.Errorf("a has a burst of %d", n)
		}
		l.SetQuotaFor("a", new(gcra.Quota{}))
		if l.Allow("a") || l.For("a").Burst() != 0 {
			t.Error("a is blocked, and allowed")
		}
		if s := l.Stats(); s.Own != 1 {
			t.Errorf("%+v: want one key of its own", s)
		}
	})
}

// Calls that wait get another turn when their quota changes.
func TestQuotaChangesWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(1, 1), keyed.Config{})
		s := tell(t, l)
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for _, key := range []string{"a", "b", "c"} {
			l.Allow(key)
			s.join(t.Context(), key+"1", key, 1)
			s.join(soon, key+"2", key, 1)
		}
		time.Sleep(500 * ms)
		l.SetQuotaFor("a", new(perSecond(10, 1)))            // half a token is left to wait for
		l.SetQuotaFor("b", new(gcra.Per(1, time.Minute, 1))) // too late for the second
		time.Sleep(10 * ms)
		l.SetQuota(gcra.Unlimited())
		time.Sleep(time.Hour)
		s.expect("a1 <nil> 550ms", "a2 <nil> 650ms", "b1 <nil> 30.5s", "b2 rejected: too_late 500ms", "c1 <nil> 510ms", "c2 <nil> 510ms")
	})
}

// A denied is a key, and how often it was denied.
type denied[K comparable] struct {
	key   K
	count uint64
}

func topOf[K comparable](l interface {
	Top(int) iter.Seq2[K, uint64]
}, n int) (top []denied[K]) {
	for key, count := range l.Top(n) {
		top = append(top, denied[K]{key, count})
	}
	return top
}

func TestTop(t *testing.T) {
	l := newLimiter[string](t, gcra.Per(1, time.Hour, 1), keyed.Config{})
	for key, n := range map[string]int{"worst": 4, "bad": 3, "good": 1} {
		for range n {
			l.Allow(key)
		}
	}
	top := l.Top(9)
	l.Allow("bad")
	for range 2 { // what it was at the call, however often it is read
		var got []denied[string]
		for key, count := range top {
			got = append(got, denied[string]{key, count})
		}
		if !slices.Equal(got, []denied[string]{{"worst", 3}, {"bad", 2}}) {
			t.Errorf("%v", got)
		}
	}
	for key := range l.Top(2) {
		if key != "worst" && key != "bad" {
			t.Errorf("first comes %q", key)
		}
		break
	}
	if most := topOf(l, 1); len(most) != 1 {
		t.Errorf("%v: want one", most)
	}
	if none := topOf(l, -1); len(none) != 0 {
		t.Errorf("%v: want none", none)
	}
}

func TestNothingAllocates(t *testing.T) {
	l := newLimiter[string](t, gcra.Per(1, time.Hour, 1<<40), keyed.Config{})
	a := newLimiter[netip.Addr](t, gcra.Per(1, time.Hour, 1<<40), keyed.Config{})
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1%eth0")
	ctx := t.Context()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	late, cancel := context.WithDeadline(ctx, time.Now().Add(time.Hour))
	defer cancel()
	full := newLimiter[int](t, gcra.Per(1, 24*time.Hour, 1), keyed.Config{})
	full.Allow(1)
	aKey, fullKey := l.For("a"), full.For(1)
	i := 0
	for name, f := range map[string]func(){
		"Allow":                 func() { l.Allow("a") },
		"Take":                  func() { l.Take("a", 1) },
		"IPv4":                  func() { a.Allow(v4) },
		"IPv6":                  func() { a.Allow(v6) },
		"Wait that need not":    func() { aKey.WaitN(ctx, 1) },
		"Settle":                func() { l.Settle("a", 1, 2) },
		"denied":                func() { full.Allow(1) },
		"denied, with a reason": func() { full.Take(1, 1) },
		"too late":              func() { fullKey.WaitN(late, 1) },
		"over burst":            func() { fullKey.WaitN(ctx, 2) },
		"ended":                 func() { fullKey.WaitN(ended, 1) },
		"a flood of denials":    func() { i++; full.Allow(i); full.Allow(i) },
	} {
		if name == "a flood of denials" {
			for range 200_000 { // until the pages are there
				f()
			}
			i = 0
		}
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The zero Quota lets no call in, not even the calls that wait.
func TestBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, gcra.Per(1, time.Hour, 2), keyed.Config{})
		s := tell(t, l)
		for _, key := range []string{"a", "b"} {
			l.Take(key, 2)
			s.join(t.Context(), key, key, 1)
		}
		l.SetQuotaFor("a", new(gcra.Quota{}))
		l.SetQuota(gcra.Quota{})
		s.expect("a rejected: over_burst 0s", "b rejected: over_burst 0s")
		if l.Allow("a") || l.Allow("b") {
			t.Error("somebody gets in")
		}
	})
}

// A key that is blocked while a call waits for a token that has half come in
// is as good as new once it is not blocked any more.
func TestUnblocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(1, 2), keyed.Config{})
		s := tell(t, l)
		l.Take("a", 2)
		s.join(t.Context(), "a", "a", 2)
		time.Sleep(1500 * ms)
		l.SetQuotaFor("a", new(gcra.Per(0, 0, 0)))
		s.expect("a rejected: over_burst 1.5s")
		l.SetQuotaFor("a", nil)
		time.Sleep(2 * time.Second)
		if d := l.Take("a", 0); d.Remaining != 2 {
			t.Errorf("%+v: want it full", d)
		}
	})
}

// A flood that is long past leaves no trace in what a larger burst gives.
func TestLargerBurstAfterAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[int](t, perSecond(1, 2), keyed.Config{Memory: keyed.MinMemory})
		f := flood{l: l}
		f.come(20_000)
		time.Sleep(time.Minute)
		l.SetQuota(perSecond(1, 1000))
		for key := range 10_000 {
			if d := l.Take(key, 0); d.Remaining != 1000 {
				t.Fatalf("key %d: %+v: want 1000", key, d)
			}
		}
	})
}

// A call that leaves the queue leaves nothing behind, however far away its turn was.
func TestLeaversLeaveNothing(t *testing.T) {
	l := newLimiter[string](t, gcra.Per(1, time.Hour, 1), keyed.Config{})
	l.Allow("a")
	leave := func(n int) {
		for range n {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(0, cancel)
			if err := l.For("a").WaitN(ctx, 1); err != context.Canceled {
				t.Fatal(err)
			}
		}
	}
	leave(1000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	leave(20_000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes are left behind", grown)
	}
}

// Only calls that wait take a place in the queue.
func TestPlacesAreForThoseWhoWait(t *testing.T) {
	l := newLimiter[string](t, gcra.Per(1, time.Hour, 1000), keyed.Config{Queue: 1})
	l.Take("full", 1000)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				if err := l.For("free").WaitN(t.Context(), 1); err != nil {
					t.Error(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour/2)
				l.For("full").WaitN(ctx, 1) // refused, as too late
				cancel()
			}
		})
	}
	all.Wait()
	if n := l.Stats().Waiting; n != 0 {
		t.Errorf("%d wait", n)
	}
}

// However it is written, a key has one quota, which its bucket is under.
func TestQuotaOfAPrefix(t *testing.T) {
	l := newLimiter[netip.Prefix](t, perSecond(1, 1), keyed.Config{})
	l.SetQuotaFor(netip.MustParsePrefix("10.1.2.3/8"), new(gcra.Quota{}))
	for _, same := range []string{"10.0.0.0/8", "10.255.0.0/8", "::ffff:10.1.1.1/104"} {
		p := netip.MustParsePrefix(same)
		if l.Allow(p) || l.For(p).Burst() != 0 {
			t.Errorf("%v has a burst of %d", p, l.For(p).Burst())
		}
	}
	l.SetQuotaFor(netip.MustParsePrefix("::ffff:10.9.9.9/104"), nil)
	if !l.Allow(netip.MustParsePrefix("10.0.0.0/8")) {
		t.Error("it is still blocked")
	}
	a := newLimiter[any](t, perSecond(1, 1), keyed.Config{})
	a.SetQuotaFor(netip.MustParseAddr("2001:db8::1"), new(gcra.Quota{}))
	if a.Allow(netip.MustParseAddr("2001:db8::1")) || !a.Allow(netip.MustParseAddr("2001:db8::2")) {
		t.Error("an address in an interface is taken as it is")
	}
}

// However many calls come at once, each key gets its burst and no more; no call that
// waits is forgotten.
func TestStorm(t *testing.T) {
	l := newLimiter[int](t, gcra.Per(0, 0, 10), keyed.Config{Memory: keyed.MinMemory})
	var allowed [50]atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 5000 {
				key := (i*7 + g) % len(allowed)
				switch i % 5 {
				case 0:
					ctx, cancel := context.WithCancel(t.Context())
					go cancel()
					if l.For(key).WaitN(ctx, 1) == nil {
						allowed[key].Add(1)
					}
					cancel()
				case 1:
					if l.Take(key, 2).OK {
						allowed[key].Add(1)
						l.Settle(key, 2, 1)
					}
				case 2:
					l.SetQuotaFor(key, new(gcra.Per(0, 0, 10)))
					l.SetQuotaFor(key, nil)
				case 3:
					if i%100 == 3 {
						l.SetQuota(gcra.Per(0, 0, 10))
						l.Stats()
						l.Top(3)
					}
				default:
					if l.Allow(key) {
						allowed[key].Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	for key := range allowed {
		for l.Allow(key) {
			allowed[key].Add(1)
		}
		if n := allowed[key].Load(); n != 10 {
			t.Errorf("key %d: %d allowed: want 10", key, n)
		}
	}
	if s := l.Stats(); s.Waiting != 0 || s.Own != 0 || s.Forgotten != 0 {
		t.Errorf("%+v: something is left", s)
	}
}

// A flood is many keys that come once each.
type flood struct {
	l    *keyed.Limiter[int]
	next int
}

func (f *flood) come(n int) {
	for range n {
		f.next++
		f.l.Allow(-f.next)
	}
}
