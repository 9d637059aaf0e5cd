package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/keyed"
)

// decides is a Decider of the user.
type decides func(ctx context.Context, key string, n int) (keyed.Verdict, error)

func (d decides) Decide(ctx context.Context, key string, n int) (keyed.Verdict, error) {
	return d(ctx, key, n)
}

func itself(s string) (string, bool) { return s, true }

func inflightRule(t *testing.T, name string, limit int) (Rule[string], *keyed.Inflight[string]) {
	t.Helper()
	lim, err := keyed.NewInflight[string](limit, keyed.Config{})
	testrig.Must(t, err)
	return PerKey(name, lim, itself), lim
}

// An error that is no rejection admits the request, and is counted. A rejection and the end
// of the context refuse it.
func TestErrorsOfADecider(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	for name, tt := range map[string]struct {
		err    error
		ctx    context.Context
		want   error
		failed uint64
	}{
		"failure":                  {errors.New("broken"), t.Context(), nil, 1},
		"deadline of its own":      {context.DeadlineExceeded, t.Context(), nil, 1},
		"rejection":                {weir.Reject(weir.Closed, time.Second), t.Context(), weir.Reject(weir.Closed, time.Second), 0},
		"caller that left":         {context.Canceled, left, context.Canceled, 0},
		"failure of a left caller": {errors.New("broken"), left, context.Canceled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			first, units := inflightRule(t, "units", 1)
			d := New(Config[string]{Rules: []Rule[string]{first, PerKey("own", decides(func(context.Context, string, int) (keyed.Verdict, error) {
				return keyed.Verdict{}, tt.err
			}), itself)}})
			var v Visit[string]
			if err := d.Enter(tt.ctx, "a", "", &v); err != tt.want {
				t.Errorf("%v: want %v", err, tt.want)
			}
			if own := &v.Answers()[1]; tt.want == nil && !own.OK || own.Policy != (keyed.Policy{}) {
				t.Errorf("%+v %+v: clients are told of no decision", own.Decision, own.Policy)
			}
			if s := d.Stats().Rules[1]; s.Failed != tt.failed || s.Denied != 1-tt.failed || s.Allowed != 0 {
				t.Errorf("%+v", s)
			}
			if tt.want == nil {
				v.Leave(weir.Success)
			}
			if s := units.Stats(); s.Units != 0 {
				t.Errorf("%d units are held", s.Units)
			}
		})
	}
}

// Units in flight are held until the request leaves, and come back if a later limit rejects it or
// a function panics.
func TestUnitsOfARule(t *testing.T) {
	first, units := inflightRule(t, "first", 2)
	second, _ := inflightRule(t, "second", 1)
	held := func(want int) {
		t.Helper()
		if n := units.Stats().Units; n != want {
			t.Errorf("%d units are held: want %d", n, want)
		}
	}
	d := New(Config[string]{Rules: []Rule[string]{first, second}})
	var v, w Visit[string]
	testrig.Must(t, d.Enter(t.Context(), "a", "", &v))
	held(1)
	v.Settle(7) // concerns rates
	held(1)
	refused(t, d.Enter(t.Context(), "a", "", &w), weir.OverLimit)
	held(1)
	if a := &w.Answers()[0]; a.Left() != 1 || w.Refuser() != 1 {
		t.Errorf("%d left, refused by %d: want what came back counted", a.Left(), w.Refuser())
	}
	v.Leave(weir.Dropped)
	held(0)

	for name, cfg := range map[string]Config[string]{
		"key":   {Rules: []Rule[string]{first, PerKey("panics", decides(nil), itself)}},
		"units": {Rules: []Rule[string]{first}, Limiter: weir.Chain(), Units: func(string) int { panic("units") }},
	} {
		d := New(cfg)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			_ = d.Enter(t.Context(), "a", "", &v)
		}()
		held(0)
	}
}

// A rule in shadow mode counts, and holds what it could get.
func TestShadowOfUnits(t *testing.T) {
	rule, units := inflightRule(t, "units", 1)
	rule.Shadow = true
	d := New(Config[string]{Rules: []Rule[string]{rule}})
	var v [3]Visit[string]
	for i := range v {
		testrig.Must(t, d.Enter(t.Context(), "a", "", &v[i]))
	}
	if s := d.Stats().Rules[0]; s.Allowed != 1 || s.Shadowed != 2 || s.Denied != 0 || units.Stats().Units != 1 {
		t.Errorf("%+v, %d units", s, units.Stats().Units)
	}
	for i := range v {
		v[i].Leave(weir.Success)
	}
	if n := units.Stats().Units; n != 0 {
		t.Errorf("%d units are held", n)
	}
}

// A wait needs a limiter of the key.
func TestWaitOfADecider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule, _ := inflightRule(t, "units", 1)
		rule.MaxWait = time.Second
		want := `Rules[0].MaxWait = 1s: must be 0, because the limiter of rule "units" has no method For`
		if err := (Config[string]{Rules: []Rule[string]{rule}}).Validate(); err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}

		released := false
		own := waiting{decides(func(_ context.Context, _ string, n int) (keyed.Verdict, error) {
			return keyed.Verdict{Decision: weir.Decision{OK: n == 0, RetryAfter: time.Second}}, nil
		}), func(weir.Outcome) { released = true }}
		d := New(Config[string]{Rules: []Rule[string]{{Name: "own", Limit: PerKey("own", own, itself).Limit, MaxWait: time.Minute}}})
		testrig.Must(t, d.cfg.Validate())
		began := time.Now()
		var v Visit[string]
		if err := d.Enter(t.Context(), "a", "", &v); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v: want a second", err, time.Since(began))
		}
		if v.Leave(weir.Success); !released {
			t.Error("what the limiter granted after a wait is not released")
		}
	})
}

// waiting is a Decider with a limiter of each key, which grants after a second.
type waiting struct {
	decides
	release func(weir.Outcome)
}

func (w waiting) For(string) weir.Limiter { return w }

func (w waiting) Acquire(context.Context, int) (weir.Permit, error) {
	time.Sleep(time.Second)
	return weir.NewPermit(w.release), nil
}
