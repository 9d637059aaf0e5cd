package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
)

// slots returns a limit of n units without a queue.
func slots(t *testing.T, n int) *inflight.Limiter {
	t.Helper()
	l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(n), Queue: -1})
	testrig.Must(t, err)
	return l
}

func whole(rate float64, burst int) Limit[string] {
	return Overall[string]("", newRate(gcra.PerSecond(rate, burst))).Limit
}

func newRate(q gcra.Quota) *rate.Limiter { return rate.New(q, rate.Config{}) }

func TestADoorIsAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newRate(gcra.PerSecond(0, 3)), newRate(gcra.PerSecond(0, 2))
		lim := slots(t, 1)
		d := New(Config[string]{
			Rules:   []Rule[string]{Overall[string]("a", first), Overall[string]("b", second)},
			Limiter: lim,
		})
		var in, out Visit[string]
		if err := d.Enter(t.Context(), "", "", &in); err != nil || in.Refuser() != -1 {
			t.Fatal(err)
		}
		refused(t, d.Enter(t.Context(), "", "", &out), weir.OverLimit)
		if first.Tokens() != 2 || second.Tokens() != 1 || out.Refuser() != -1 {
			t.Errorf("%v and %v tokens, refused by %d", first.Tokens(), second.Tokens(), out.Refuser())
		}
		for i := range out.Answers() {
			if a := &out.Answers()[i]; a.Left() != 2-i || !a.OK {
				t.Errorf("rule %d: %d left, of what came back: want %d", i, a.Left(), 2-i)
			}
		}
		in.Leave(weir.Success)
		testrig.Must(t, d.Enter(t.Context(), "", "", &in))
		refused(t, d.Enter(t.Context(), "", "", &out), weir.OverRate)
		if first.Tokens() != 1 || out.Refuser() != 1 || len(out.Answers()) != 2 || out.Answers()[1].OK {
			t.Errorf("%v tokens, refused by %d, %+v", first.Tokens(), out.Refuser(), out.Answers())
		}
		if out.Answers()[1].Left() != 0 {
			t.Errorf("%d left of what denied", out.Answers()[1].Left())
		}
		in.Leave(weir.Dropped)
		if g := lim.Stats(); g.Inflight != 0 {
			t.Errorf("%d units are held", g.Inflight)
		}
	})
}

func refused(t *testing.T, err error, want weir.Reason) {
	t.Helper()
	if r, ok := errors.AsType[*weir.Rejection](err); !ok || r.Reason != want {
		t.Errorf("%v: want %v", err, want)
	}
}

// A shadow asks without a wait, also a limiter that knows no TryAcquire.
func TestAShadowDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := New(Config[string]{
			Rules:   []Rule[string]{{Name: "a", Limit: whole(1, 1), MaxWait: time.Hour}},
			Limiter: full{},
			Shadow:  true,
		})
		for range 3 {
			var v Visit[string]
			if err := d.Enter(t.Context(), "", "", &v); err != nil {
				t.Error(err)
			}
			v.Leave(weir.Success)
		}
		if d := time.Since(began); d > 3*time.Millisecond {
			t.Errorf("it took %v", d)
		}
		s := d.Stats()
		if s.Rules[0].Shadowed != 2 || s.Classes[0].Admitted != 3 || s.Classes[0].Shadowed[0] != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// full is a limiter that never admits.
type full struct{}

func (full) Acquire(ctx context.Context, _ int) (weir.Permit, error) {
	<-ctx.Done()
	return weir.Permit{}, ctx.Err()
}

// A rule that may let wait tells what is left when the wait is over.
func TestAnAnswerAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Config[string]{Rules: []Rule[string]{{Name: "a", Limit: whole(1, 2), MaxWait: time.Second, Cost: func(string) int { return 2 }}}})
		var v Visit[string]
		for n, want := range []error{nil, weir.Reject(weir.OverRate, 2*time.Second)} {
			if err := d.Enter(t.Context(), "", "", &v); err != want {
				t.Errorf("%d: %v: want %v", n, err, want)
			}
		}
		time.Sleep(time.Second)
		began := time.Now()
		if err := d.Enter(t.Context(), "", "", &v); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if a := &v.Answers()[0]; !a.OK || a.Left() != 0 {
			t.Errorf("%v, %d left", a.Decision, a.Left())
		}
	})
}

// A wait ends after MaxWait even if the tokens are late.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Config[string]{Rules: []Rule[string]{{Name: "a", Limit: hopeful{}, MaxWait: 3 * time.Second}}})
		began := time.Now()
		var v Visit[string]
		refused(t, d.Enter(t.Context(), "", "", &v), weir.OverRate)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("it waited for %v: want 3s", d)
		}
	})
}

// hopeful promises a turn in a second that never comes.
type hopeful struct{ Limit[string] }

func (hopeful) Decide(context.Context, string, int) (keyed.Verdict, error) {
	return keyed.Verdict{Decision: weir.Decision{RetryAfter: time.Second}, Policy: keyed.PolicyOf(gcra.PerSecond(1, 1))}, nil
}

func (hopeful) Acquire(ctx context.Context, _ string, _ int) (weir.Permit, error) {
	<-ctx.Done()
	return weir.Permit{}, weir.Reject(weir.TooLate, 0)
}

func TestValidate(t *testing.T) {
	ok := Rule[string]{Name: "a", Limit: whole(1, 1)}
	if err := (Config[string]{Rules: []Rule[string]{ok}}).Validate(); err != nil {
		t.Error(err)
	}
	for want, c := range map[string]Config[string]{
		"Rules[0]: is empty: PerKey and Overall make rules": {Rules: []Rule[string]{{Name: "a"}}},
		`Rules[1].Name = "a": another rule has that name`:   {Rules: []Rule[string]{ok, ok}},
	} {
		if err := c.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
	}
}

// Every request is counted once, and tokens are neither lost nor made.
func TestAStormAtADoor(t *testing.T) {
	const clients, each, burst = 8, 2000, 500
	lim, err := keyed.New[string](gcra.Per(1, 1000*time.Hour, burst), keyed.Config{})
	testrig.Must(t, err)
	two := slots(t, 2)
	d := New(Config[string]{
		Rules:   []Rule[string]{PerKey("a", lim, func(s string) (string, bool) { return s, true })},
		Limiter: two,
	})
	var done sync.WaitGroup
	for n := range clients {
		done.Go(func() {
			var v Visit[string]
			name, in := fmt.Sprint(n), 0
			for i := range each {
				if d.Enter(t.Context(), name, fmt.Sprint(i%3), &v) != nil {
					continue
				}
				cost := i % 4
				v.Settle(cost)
				in += cost
				v.Leave(weir.Outcome(i % 2))
			}
			if dec := lim.Take(name, 0); dec.Remaining != max(burst-in, 0) {
				t.Errorf("%d tokens are left: want %d", dec.Remaining, burst-in)
			}
		})
	}
	done.Wait()
	var sum uint64
	for _, c := range d.Stats().Classes {
		sum += c.Admitted
		for _, n := range c.Refused {
			sum += n
		}
		if c.Outcomes[weir.Ignored]+c.Outcomes[weir.Success] != c.Admitted {
			t.Errorf("%+v", c)
		}
	}
	if sum != clients*each || two.Stats().Inflight != 0 {
		t.Errorf("%d were counted, %d units held: want %d, none", sum, two.Stats().Inflight, clients*each)
	}
}

func TestReasonsOfErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want weir.Reason
	}{
		{weir.Reject(weir.OverRate, 0), weir.OverRate},
		{fmt.Errorf("wrapped: %w", weir.Reject(weir.QueueFull, 0)), weir.QueueFull},
		{&weir.Rejection{Reason: weir.Throttled}, weir.Throttled},
		{&weir.Rejection{Reason: reasons}, 0},
		{&weir.Rejection{Reason: 255}, 0},
		{context.Canceled, 0},
		{errors.New("else"), 0},
	} {
		if got := reasonOf(tt.err); got != tt.want {
			t.Errorf("%v: %v: want %v", tt.err, got, tt.want)
		}
	}
}
