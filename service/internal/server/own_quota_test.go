package server_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// own decides a request with a quota.
func (d desk) own(key string, n int, q decider.Quota) (v decider.Verdict) {
	d.t.Helper()
	d.Decide(&decider.Request{Key: key, N: n, Quota: &q}, &v)
	return v
}

var threeAMinute = decider.Quota{Count: 3, Period: time.Minute}

// A quota is valid, or the error says what it must be.
func TestOwnQuotaBounds(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		q    decider.Quota
		want error
	}{
		{decider.Quota{Count: 1, Period: 1}, nil},
		{decider.Quota{Count: 1, Period: 3650 * day}, nil},
		{decider.Quota{Count: 1, Period: time.Nanosecond, Burst: 3650 * int(day)}, nil},
		{decider.Quota{}, decider.ErrQuota},
		{decider.Quota{Count: 1}, decider.ErrQuota},
		{decider.Quota{Period: time.Second}, decider.ErrQuota},
		{decider.Quota{Count: -1, Period: time.Second}, decider.ErrQuota},
		{decider.Quota{Count: 1, Period: -time.Second}, decider.ErrQuota},
		{decider.Quota{Count: 1, Period: time.Second, Burst: -1}, decider.ErrQuota},
		{decider.Quota{Count: 1_000_000_001, Period: time.Second}, decider.ErrQuota},
		{decider.Quota{Count: 1, Period: 3651 * day}, decider.ErrQuota},
		{decider.Quota{Count: 1, Period: 3650 * day, Burst: 2}, decider.ErrQuota},
		{decider.Quota{Count: 1, Period: 1, Burst: math.MaxInt}, decider.ErrQuota},
		{decider.Quota{Count: math.MaxInt, Period: math.MaxInt64}, decider.ErrQuota},
	} {
		d := newDesk(t, server.Config{})
		for _, n := range []int{0, 1, math.MaxInt} {
			var v decider.Verdict
			if err := d.Server.Decide(t.Context(), &decider.Request{Key: "a", N: n, Quota: &tt.q}, &v); err != tt.want {
				t.Errorf("%+v: %v, want %v", tt.q, err, tt.want)
			} else if v.OK != (err == nil && n <= 1) {
				t.Errorf("%+v, n = %d: %+v", tt.q, n, v)
			}
		}
	}
}

// Rules count the requests that bring a quota, and a shadow rule that allows quotas of requests
// denies none of them. Another shadow rule changes nothing.
func TestRulesCountOwnQuotas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		open := config.Rule{Name: "open", Glob: "a*", Quota: quota(1, time.Hour, ""), OwnQuota: true}
		shadow := config.Rule{Name: "shadow", Glob: "s*", Quota: quota(1, time.Hour, ""), OwnQuota: true, Mode: config.Shadow}
		trial := config.Rule{Name: "trial", Glob: "t*", Quota: quota(1, time.Hour, ""), Mode: config.Shadow}
		d := newDesk(t, server.Config{}, open, shadow, trial)
		for i := range 5 {
			for key, want := range map[string]bool{"a": i < 3, "s": true, "t": i < 3, "other": i < 3} {
				if v := d.own(key, 1, threeAMinute); v.OK != want {
					t.Errorf("%s, %d: %+v", key, i, v)
				}
			}
		}
		d.allows("a", 1, 1) // the rule's own bucket is untouched
		st := d.Stats()
		if r := st.Rules[0]; r.Allowed != 4 || r.Denied[weir.OverRate] != 2 {
			t.Errorf("%+v", r)
		}
		if r := st.Rules[1]; r.Allowed != 5 || r.Shadowed != 2 {
			t.Errorf("%+v", r)
		}
		if st.UnmatchedAllowed != 3 || st.UnmatchedOverOwn != 2 || st.UnmatchedDenied != 0 {
			t.Errorf("%+v", st)
		}
		top := d.Top(10)
		if len(top) != 4 || top[0].Key != "a" || top[0].Allowed != 4 || top[0].Denied != 2 {
			t.Errorf("%+v", top)
		}
	})
}

// Counts outlive a restart.
func TestOwnQuotasAreRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{OwnQuotas: true})
		d.own("a", 3, threeAMinute)
		time.Sleep(time.Second)
		snapshot := d.snapshot()
		time.Sleep(10 * time.Second)
		again, done := d.next(server.Config{OwnQuotas: true}, snapshot)
		if len(done.Skipped) > 0 {
			t.Error(done.Skipped)
		}
		if v := again.own("a", 1, threeAMinute); v.OK || v.RetryAfter != 9*time.Second {
			t.Errorf("%+v", v)
		}
	})
}

// A flood of quotas that refill in years denies fresh keys neither for as long nor at all.
// A key that is known keeps its count while the flood has smaller quotas.
func TestFloodOfOwnQuotas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const flood = 20_000
		d := newDesk(t, server.Config{})
		years := decider.Quota{Count: 1, Period: 9 * 365 * 24 * time.Hour}
		d.own("known", 1, years)
		for i := range flood {
			d.own(fmt.Sprint("brief", i), 3, threeAMinute)
		}
		if v := d.own("known", 1, years); v.OK {
			t.Error("a flood of smaller quotas refilled a bucket")
		}
		time.Sleep(time.Minute)
		for i := range flood {
			d.own(fmt.Sprint("flood", i), 1, years)
		}
		for i := range 1000 {
			if v := d.own(fmt.Sprint("fresh", i), 1, threeAMinute); !v.OK {
				t.Fatalf("%d: %+v", i, v)
			}
		}
		if st := d.Stats(); st.OwnMemory > st.OwnMemoryMax || st.OwnMemoryMax > 64<<10 || st.OwnForgotten == 0 {
			t.Errorf("%d bytes of %d, %d forgotten", st.OwnMemory, st.OwnMemoryMax, st.OwnForgotten)
		}
	})
}

func TestOwnQuotasAllocateNothing(t *testing.T) {
	d := newDesk(t, server.Config{})
	var v decider.Verdict
	req := decider.Request{Key: "a", N: 1, Quota: &threeAMinute}
	d.Decide(&req, &v)
	if n := testing.AllocsPerRun(100, func() { d.Decide(&req, &v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOwnQuota(b *testing.B) {
	s, err := server.New(server.Config{OwnQuotas: true})
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("key:%012d", i)
	}
	q := decider.Quota{Count: 30, Period: time.Minute, Burst: 16}
	var v decider.Verdict
	req := decider.Request{N: 1, Quota: &q}
	for i := 0; b.Loop(); i++ {
		req.Key = keys[i*7919%len(keys)]
		if err := s.Decide(context.Background(), &req, &v); err != nil && !errors.Is(err, decider.ErrQuota) {
			b.Fatal(err)
		}
	}
}
