package balance

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// A script runs requests against a Set, one at a time unless it says otherwise.
type script struct {
	*testing.T
	set *Set
	now time.Duration
	rng *rand.Rand
}

func newScript(t *testing.T, n int) *script {
	return &script{t, New(n), 0, rand.New(rand.NewPCG(1, 2))}
}

// request sends a request; its end is result, or Answered at an origin that is not among the bad ones.
func (c *script) request(result Result, after time.Duration, bad ...int) (origin int, ok bool) {
	t, ok := c.set.Pick(c.now, c.rng.Uint64(), -1, nil)
	if !ok {
		return -1, false
	}
	r, ra := Answered, time.Duration(0)
	for _, b := range bad {
		if t.Origin == b {
			r, ra = result, after
		}
	}
	c.set.Judge(c.now, t, r, ra)
	c.set.Leave(t)
	return t.Origin, true
}

// requests sends n requests, one each step, and returns how many each origin got, and how
// many had no origin.
func (c *script) requests(n int, step time.Duration, result Result, after time.Duration, bad ...int) (got []int, none int) {
	got = make([]int, len(c.set.origins))
	for range n {
		c.now += step
		if i, ok := c.request(result, after, bad...); ok {
			got[i]++
		} else {
			none++
		}
	}
	return got, none
}

func (c *script) state(i int, want State) {
	c.Helper()
	if got := c.set.Origin(c.now, i).State; got != want {
		c.Errorf("origin %d is %v at %v: want %v", i, got, c.now, want)
	}
}

// A request goes to the origin with fewer in flight of two.
func TestFewerInFlight(t *testing.T) {
	c := newScript(t, 2)
	for i := range 100 {
		if _, ok := c.set.Pick(0, c.rng.Uint64(), -1, nil); !ok {
			t.Fatal("no origin")
		}
		a, b := c.set.Origin(0, 0).Inflight, c.set.Origin(0, 1).Inflight
		if a-b > 1 || b-a > 1 || a+b != i+1 {
			t.Fatalf("%d and %d in flight after %d requests", a, b, i+1)
		}
	}
}

// Of many origins, the random pairs keep the most loaded one close to the mean.
func TestTwoChoices(t *testing.T) {
	c := newScript(t, 50)
	for range 5000 {
		c.set.Pick(0, c.rng.Uint64(), -1, nil)
	}
	for i := range 50 {
		if n := c.set.Origin(0, i).Inflight; n < 90 || n > 110 {
			t.Errorf("origin %d has %d in flight: want about 100", i, n)
		}
	}
}

// An origin that refuses connections is out after three requests, and is tried after 1, 2, 4, 8 and
// then each 10 seconds.
func TestUnreachable(t *testing.T) {
	c := newScript(t, 3)
	got, _ := c.requests(1000, ms, Unreachable, 0, 1)
	if got[1] != 3 {
		t.Errorf("%d requests went to the dead origin: want 3", got[1])
	}
	c.state(1, Ejected)
	got, _ = c.requests(3*60*100, 10*ms, Unreachable, 0, 1)
	if got[1] < 18 || got[1] > 21 { // after 1, 2, 4, 8, and each 10 seconds
		t.Errorf("%d tries in three minutes", got[1])
	}
	got, _ = c.requests(31*100, 10*ms, Unreachable, 0)
	if got[1] < 10 {
		t.Errorf("%d requests went to the origin after its return", got[1])
	}
	c.requests(1000, 10*ms, Unreachable, 0)
	c.state(1, In)
}

// An origin that returns gets its full share within ten seconds.
func TestSlowStart(t *testing.T) {
	c := newScript(t, 2)
	c.requests(20, ms, Unreachable, 0, 0)
	c.state(0, Ejected)
	c.now += 2 * s
	for c.set.Origin(c.now, 0).State == Ejected {
		c.request(Unreachable, 0)
	}
	c.state(0, Starting)
	share := func() float64 {
		var held []Ticket
		n := 0
		for range 110 {
			t, _ := c.set.Pick(c.now, c.rng.Uint64(), -1, nil)
			held = append(held, t)
			n += 1 - t.Origin
		}
		for _, t := range held {
			c.set.Leave(t)
		}
		return float64(n) / 110
	}
	if got := share(); got < 0.08 || got > 0.11 {
		t.Errorf("share %.2f at first: want a tenth of the other's", got)
	}
	c.now += 5 * s
	if got := share(); got < 0.33 || got > 0.38 {
		t.Errorf("share %.2f after 5 s: want 0.55 of the other's", got)
	}
	c.now += 5 * s
	if got := share(); got != 0.5 {
		t.Errorf("share %.2f after 10 s: want a half", got)
	}
	c.state(0, In)
}

// Failures with a connection eject only after a second of nothing else, and at most half of
// the origins.
func TestFailed(t *testing.T) {
	c := newScript(t, 4)
	c.requests(100, ms, Failed, 0, 0, 1, 2)
	for i := range 4 {
		c.state(i, In)
	}
	c.requests(1000, 2*ms, Failed, 0, 0, 1, 2)
	out := 0
	for i := range 4 {
		if c.set.Origin(c.now, i).State == Ejected {
			out++
		}
	}
	if out != 2 {
		t.Errorf("%d of 4 origins are ejected: want 2", out)
	}
}

// An origin that answers some requests is not ejected, however many it rejects.
func TestShedding(t *testing.T) {
	c := newScript(t, 2)
	for range 10_000 {
		c.now += ms
		tk, _ := c.set.Pick(c.now, c.rng.Uint64(), -1, nil)
		r, after := Failed, 5*s
		if c.rng.IntN(10) == 0 {
			r, after = Answered, 0
		}
		c.set.Judge(c.now, tk, r, after)
		c.set.Leave(tk)
		c.state(0, In)
		c.state(1, In)
	}
}

// If all origins are dead, each request still goes to one, and the first that works again
// gets the requests at once.
func TestAllDead(t *testing.T) {
	c := newScript(t, 3)
	if _, none := c.requests(6000, 10*ms, Unreachable, 0, 0, 1, 2); none > 0 {
		t.Errorf("%d requests had no origin", none)
	}
	for i := range 3 {
		c.state(i, Ejected)
	}
	got, _ := c.requests(1000, 10*ms, Unreachable, 0, 0, 1)
	if got[2] < 970 {
		t.Errorf("%v: want nearly all at the origin that works", got)
	}
}

// When the last dead origin returns, the others are tried at once.
func TestAllReturn(t *testing.T) {
	c := newScript(t, 3)
	c.requests(6000, 10*ms, Unreachable, 0, 0, 1, 2)
	c.requests(100, 10*ms, Unreachable, 0)
	for i := range 3 {
		c.state(i, Starting)
	}
}

// A single origin is never out: the proxy tells the truth about it.
func TestSingle(t *testing.T) {
	for _, r := range []Result{Failed, Unreachable} {
		c := newScript(t, 1)
		if _, none := c.requests(1000, 10*ms, r, 0, 0); none > 0 {
			t.Errorf("%d requests had no origin", none)
		}
		c.state(0, In)
	}
}

// An origin that says Retry-After to all is held; a request each second tries it.
func TestHold(t *testing.T) {
	c := newScript(t, 1)
	got, none := c.requests(20_00, 10*ms, Failed, 10*s, 0)
	if got[0] < 100+18 || got[0] > 100+20 || none != 2000-got[0] {
		t.Errorf("%d requests in 20 s: want those of the first second, and one each second", got[0])
	}
	c.state(0, Held)
	if w := c.set.Wait(c.now); w < 8*s || w > 10*s {
		t.Errorf("wait %v: want almost 10s", w)
	}
	got, none = c.requests(200, 10*ms, Answered, 0)
	if none > 101 || got[0] < 99 {
		t.Errorf("%d requests, %d without an origin: want the end of the hold within a second", got[0], none)
	}
}

// A hold ends in time without any request, at most 30 s after the last answer.
func TestHoldEnds(t *testing.T) {
	c := newScript(t, 2)
	c.requests(150, 20*ms, Failed, time.Hour, 0, 1)
	c.state(0, Held)
	c.state(1, Held)
	if _, ok := c.set.Pick(c.now, 0, -1, nil); ok {
		t.Error("there is an origin for a request")
	}
	c.now += c.set.Wait(c.now)
	if _, ok := c.request(Answered, 0); !ok {
		t.Error("there is no origin after Wait")
	}
	c.state(0, Starting)
	c.state(1, Starting)
	c.now += slowStart
	c.state(0, In)
	c.state(1, In)
}

// A 503 with Retry-After for one URL in ten holds nothing.
func TestOneURL(t *testing.T) {
	c := newScript(t, 1)
	for i := range 10_000 {
		c.now += ms
		r, after := Failed, 30*s
		if i%10 == 0 {
			r, after = Answered, 0
		}
		tk, ok := c.set.Pick(c.now, c.rng.Uint64(), -1, nil)
		if !ok {
			t.Fatal("held")
		}
		c.set.Judge(c.now, tk, r, after)
		c.set.Leave(tk)
	}
}

// A retry avoids the origin of the first attempt, and ejected ones.
func TestAvoid(t *testing.T) {
	c := newScript(t, 2)
	for range 100 {
		if tk, ok := c.set.Pick(0, c.rng.Uint64(), 1, nil); !ok || tk.Origin != 0 {
			t.Fatalf("%+v, %v", tk, ok)
		}
	}
	if _, ok := New(1).Pick(0, 0, 0, nil); ok {
		t.Error("a single origin has no other")
	}
	c = newScript(t, 2)
	c.requests(20, ms, Unreachable, 0, 0)
	if _, ok := c.set.Pick(c.now, 0, 1, nil); ok {
		t.Error("a retry goes to an ejected origin")
	}
}

// play sends a request each step. One at an origin that is not among the silent ones is answered after took.
func (c *script) play(d, step, took time.Duration, silent ...int) (got []int) {
	got = make([]int, len(c.set.origins))
	type sent struct {
		Ticket
		ends time.Duration
	}
	var flying []sent
	for end := c.now + d; c.now < end; c.now += step {
		for len(flying) > 0 && flying[0].ends <= c.now {
			c.set.Judge(flying[0].ends, flying[0].Ticket, Answered, 0)
			c.set.Leave(flying[0].Ticket)
			flying = flying[1:]
		}
		if t, ok := c.set.Pick(c.now, c.rng.Uint64(), -1, nil); ok {
			got[t.Origin]++
			if !slices.Contains(silent, t.Origin) {
				flying = append(flying, sent{t, c.now + took})
			}
		}
	}
	return got
}

// Origins that answer nothing while others answer are out after a second, however many they are.
func TestSilentOrigins(t *testing.T) {
	c := newScript(t, 3)
	c.play(5*s, 5*ms, 50*ms)
	got := c.play(1500*ms, 5*ms, 50*ms, 0, 1)
	c.state(0, Ejected)
	c.state(1, Ejected)
	c.state(2, In)
	if o := c.set.Origin(c.now, 0); o.Cause != NoAnswers {
		t.Errorf("%+v: want that it has no answers", o)
	}
	if got[2] < 200 {
		t.Errorf("%v of 300 requests: want most at the origin that answers", got)
	}
	got = c.play(60*s, 5*ms, 50*ms, 0, 1)
	if got[0]+got[1] > 20 {
		t.Errorf("%v: want few tries", got)
	}
	c.play(22*s, 5*ms, 50*ms)
	c.state(0, In)
	c.state(1, In)
}

// If no origin answers, none is out.
func TestAllSilent(t *testing.T) {
	c := newScript(t, 3)
	c.play(5*s, 5*ms, 50*ms)
	c.play(5*s, 50*ms, 50*ms, 0, 1, 2)
	for i := range 3 {
		c.state(i, In)
	}
}

// An origin that takes long to answer is not silent.
func TestSlowOrigin(t *testing.T) {
	c := newScript(t, 2)
	for range 100 {
		slow, _ := c.set.Pick(c.now, c.rng.Uint64(), 1, nil)
		c.set.Pick(c.now, c.rng.Uint64(), 1, nil)
		c.set.Pick(c.now, c.rng.Uint64(), 1, nil)
		for range 200 {
			c.now += 10 * ms
			quick, _ := c.set.Pick(c.now, c.rng.Uint64(), 0, nil)
			c.set.Judge(c.now, quick, Answered, 0)
			c.set.Leave(quick)
		}
		c.set.Judge(c.now, slow, Answered, 0)
		c.set.Leave(slow)
		c.now += 10 * ms
	}
	c.state(0, In)
	c.state(1, In)
}

// A request that is not answered in time ejects an origin that has answered nothing since it was sent, unless the others
// answer nothing either. Otherwise, it is one failure.
func TestOneTimeOut(t *testing.T) {
	c := newScript(t, 2)
	late, _ := c.set.Pick(c.now, 0, 1, nil)
	other, _ := c.set.Pick(c.now, 0, 0, nil)
	same, _ := c.set.Pick(c.now, 0, 1, nil)
	c.now += s / 2
	c.set.Judge(c.now, late, Silent, 0)
	c.state(0, In)
	c.set.Judge(c.now, other, Answered, 0)
	c.set.Judge(c.now, same, Answered, 0)
	c.set.Judge(c.now, late, Silent, 0)
	c.state(0, In)
	late, _ = c.set.Pick(c.now, 0, 1, nil)
	other, _ = c.set.Pick(c.now, 0, 0, nil)
	c.now += s / 2
	c.set.Judge(c.now, other, Answered, 0)
	c.set.Judge(c.now, late, Silent, 0)
	c.state(0, Ejected)
}

// Of the origins that can be reached, at most half are out by failures that can come from load.
func TestFailedOfTheReachable(t *testing.T) {
	c := newScript(t, 4)
	c.requests(100, 10*ms, Unreachable, 0, 0, 1)
	for range 3000 {
		c.now += 10 * ms
		tk, _ := c.set.Pick(c.now, c.rng.Uint64(), -1, nil)
		r := Failed
		if tk.Origin < 2 {
			r = Unreachable
		}
		c.set.Judge(c.now, tk, r, 0)
		c.set.Leave(tk)
		if a, b := c.set.Origin(c.now, 2).State, c.set.Origin(c.now, 3).State; a == Ejected && b == Ejected {
			t.Fatal("all are out")
		}
	}
}

type sizes []float64

func (z sizes) Size(i int) float64 { return z[i] }

// An origin of half the size has half of the requests in flight.
func TestSizes(t *testing.T) {
	c := newScript(t, 2)
	for range 300 {
		c.set.Pick(c.now, c.rng.Uint64(), -1, sizes{10, 20})
	}
	if a, b := c.set.Origin(0, 0).Inflight, c.set.Origin(0, 1).Inflight; a < 99 || a > 101 || a+b != 300 {
		t.Errorf("%d and %d in flight: want 100 and 200", a, b)
	}
}

// A request that has to wait does so where its answer is expected first.
func TestAwait(t *testing.T) {
	c := newScript(t, 2)
	for i, took := range []time.Duration{100 * ms, 10 * ms} {
		tk, _ := c.set.Pick(c.now, 0, 1-i, nil)
		c.now += took
		c.set.Judge(c.now, tk, Answered, 0)
		c.set.Leave(tk)
	}
	got := [2]int{}
	for range 55 {
		i, ok := c.set.Await(c.now, -1, nil)
		if !ok {
			t.Fatal("no origin")
		}
		got[i]++
	}
	if got != [2]int{5, 50} {
		t.Errorf("%v wait: want ten times as many at the faster one", got)
	}
	if tk := c.set.Enter(c.now, 1); tk.Origin != 1 || c.set.Origin(c.now, 1).Inflight != 1 {
		t.Errorf("%+v", tk)
	}
	c.set.GiveUp(0)
	if _, ok := New(1).Await(0, 0, nil); ok {
		t.Error("a single origin has no other")
	}
}

// Two failed health checks eject an origin, until one succeeds. Its answers meanwhile change nothing.
func TestChecks(t *testing.T) {
	c := newScript(t, 2)
	c.set.Checked(c.now, 0, false)
	c.set.Checked(c.now, 0, true)
	c.set.Checked(c.now, 0, false)
	c.state(0, In)
	c.set.Checked(c.now, 0, false)
	c.state(0, Ejected)
	if got := c.play(60*s, 10*ms, 50*ms); got[0] != 0 {
		t.Errorf("%v: want none at the origin whose check fails", got)
	}
	c.set.Checked(c.now, 1, false)
	c.set.Checked(c.now, 1, false)
	if got := c.play(s, 10*ms, 50*ms); got[0]+got[1] != 100 {
		t.Errorf("%v: want all, although all checks fail", got)
	}
	c.state(0, Ejected)
	c.set.Checked(c.now, 0, true)
	if o := c.set.Origin(c.now, 0); o.State != Ejected || o.Cause != Check || o.Until > c.now {
		t.Errorf("%+v: want one that the check has ejected, until the next request", o)
	}
	if got := c.play(s, 10*ms, 50*ms); got[0] < 90 {
		t.Errorf("%v: want nearly all at the origin whose check succeeds", got)
	}
	c.state(0, Starting)
	c.state(1, Ejected)
	single := New(1)
	for range 10 {
		single.Checked(0, 0, false)
	}
	if o := single.Origin(0, 0); o.State != In {
		t.Errorf("a single origin is %v", o.State)
	}
}
