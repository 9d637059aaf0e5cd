package keyed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

func decide(t *testing.T, d keyed.Decider[string], n int) keyed.Verdict {
	t.Helper()
	v, err := d.Decide(t.Context(), "a", n)
	testrig.Must(t, err)
	return keyed.Verdict{Decision: v.Decision, Policy: v.Policy, Permit: v.Permit.Move()}
}

// The Permit of a decision settles its cost, in the bucket or the window of that decision.
func TestDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := keyed.New[string](gcra.Per(5, time.Minute, 5), keyed.Config{})
		testrig.Must(t, err)
		win, err := keyed.NewWindows[string](keyed.Window{Limit: 5, Period: time.Minute}, keyed.Config{})
		testrig.Must(t, err)
		for name, d := range map[string]keyed.Decider[string]{"bucket": lim, "window": win} {
			v := decide(t, d, 2)
			if !v.OK || v.Remaining != 3 {
				t.Errorf("%s: %+v: want 3 left", name, v.Decision)
			}
			v.Permit.Use(4)
			if now := decide(t, d, 0); now.Remaining != 1 {
				t.Errorf("%s: %+v: want 1 left of a cost of 4", name, now.Decision)
			}
			if over := decide(t, d, 2); over.OK || over.RetryAfter <= 0 {
				t.Errorf("%s: %+v: want a denial", name, over.Decision)
			} else {
				over.Permit.Use(0) // holds nothing
			}
			v.Permit.Use(0)
			v.Permit.Release(weir.Ignored)
			if now := decide(t, d, 0); now.Remaining != 5 {
				t.Errorf("%s: %+v: want 5 left after a refund", name, now.Decision)
			}
		}

		late := decide(t, win, 5)
		time.Sleep(time.Minute)
		decide(t, win, 1)
		late.Permit.Use(0) // of a window that has ended
		if now := decide(t, win, 0); now.Remaining != 4 {
			t.Errorf("%+v: want 4 left of the second window", now.Decision)
		}
	})
}

func TestPolicies(t *testing.T) {
	own := gcra.PerSecond(7, 9)
	lim, err := keyed.New[string](gcra.Per(100, 50*time.Second, 20), keyed.Config{})
	testrig.Must(t, err)
	check := func(name string, d keyed.Decider[string], want keyed.Policy) {
		t.Helper()
		if v := decide(t, d, 0); v.Policy != want {
			t.Errorf("%s: %+v: want %+v", name, v.Policy, want)
		}
	}
	check("bucket", lim, keyed.Policy{Limit: 20, Rate: 2})
	lim.SetQuotaFor("a", &own)
	check("own bucket", lim, keyed.Policy{Limit: 9, Rate: 7})
	lim.SetQuotaFor("a", nil)
	lim.SetQuota(gcra.Unlimited())
	check("no limit", lim, keyed.Policy{})

	win, err := keyed.NewWindows[string](keyed.Window{}, keyed.Config{})
	testrig.Must(t, err)
	for name, tt := range map[string]struct {
		window keyed.Window
		want   keyed.Policy
	}{
		"window":  {keyed.Window{Limit: 5, Period: time.Hour}, keyed.Policy{Limit: 5, Window: time.Hour}},
		"clock":   {keyed.Window{Limit: 5, Period: time.Hour, Calendar: keyed.Clock}, keyed.Policy{Limit: 5, Window: time.Hour}},
		"sliding": {keyed.Window{Limit: 5, Period: 10 * time.Second, Calendar: keyed.Sliding}, keyed.Policy{Limit: 5, Rate: 0.5, Window: 10 * time.Second}},
		"day":     {keyed.Window{Limit: 5, Calendar: keyed.Day}, keyed.Policy{Limit: 5, Window: 24 * time.Hour}},
		"endless": {keyed.Window{Limit: 5}, keyed.Policy{Limit: 5}},
		"none":    {keyed.Window{Limit: -5, Period: 1}, keyed.Policy{Window: keyed.MinPeriod}},
	} {
		win.SetWindow(tt.window)
		check(name, win, tt.want)
	}
}

// A decision allocates nothing, whatever quota the key has.
func TestDecideAllocatesNothing(t *testing.T) {
	lim, err := keyed.New[string](gcra.Per(1, time.Hour, 5), keyed.Config{})
	testrig.Must(t, err)
	own := gcra.Per(1, time.Hour, 7)
	lim.SetQuotaFor("own", &own)
	units := newInflight(t, 1)
	for _, d := range []keyed.Decider[string]{lim, units} {
		for _, key := range []string{"a", "own"} {
			if n := testing.AllocsPerRun(100, func() {
				v, _ := d.Decide(t.Context(), key, 1)
				v.Permit.Use(0)
				v.Permit.Release(weir.Ignored)
			}); n > 0 {
				t.Errorf("%T, key %s: %v allocations", d, key, n)
			}
		}
	}
}
