package balance

import (
	"testing"
	"time"
)

// An origin that is out is tried also if it has much in flight, such as requests without an answer and WebSockets, or a small size.
func TestTrialInSpiteOfLoad(t *testing.T) {
	for name, c := range map[string]struct {
		load  int
		sizes sizes
	}{"many in flight": {load: 1000}, "small": {sizes: sizes{1, 100, 100}}} {
		t.Run(name, func(t *testing.T) {
			n := 3
			s1 := newScript(t, n)
			var zs Sizes
			if c.sizes != nil {
				zs = c.sizes
			}
			for range c.load {
				s1.set.enter(0, 0)
			}
			for range 3 {
				s1.set.Judge(0, Ticket{Origin: 0}, Unreachable, 0)
			}
			s1.state(0, Ejected)
			s1.now += minEjection
			for range 100 {
				s1.now += 10 * ms
				tk, _ := s1.set.Pick(s1.now, s1.rng.Uint64(), -1, zs)
				if tk.Trial() {
					return
				}
				s1.set.Judge(s1.now, tk, Answered, 0)
				s1.set.Leave(tk)
			}
			t.Error("no trial")
		})
	}
}

// Each origin that becomes silent is told.
func TestChangedTellsAll(t *testing.T) {
	c := newScript(t, 3)
	c.now += s
	told := map[int]bool{}
	for range 3 {
		for i := range 2 {
			c.set.enter(c.now, i)
		}
	}
	c.now += s
	tk, _ := c.set.Take(c.now, 2)
	c.now += 10 * ms
	c.set.Judge(c.now, tk, Answered, 0)
	c.set.Leave(tk)
	if i, ok := c.set.Await(c.now, -1, nil); !ok || i != 2 {
		t.Errorf("waits at %d", i)
	}
	for _, i := range c.set.Changed() {
		told[i] = true
	}
	c.state(0, Ejected)
	c.state(1, Ejected)
	if !told[0] || !told[1] {
		t.Errorf("told %v", told)
	}
}

// An origin that ends while it works on a request is silent, though it has answered another one since that was sent. One that
// answers others later hangs for this request alone.
func TestEndsWhileItWorks(t *testing.T) {
	for _, tt := range []struct {
		last time.Duration // answer, after the request was sent
		want State
	}{{10 * ms, Ejected}, {500 * ms, In}} {
		c := newScript(t, 2)
		c.play(10*s, 10*ms, 20*ms)
		sent := c.set.enter(c.now, 0)
		answer := func(origin int) {
			tk := c.set.enter(c.now, origin)
			c.now += 5 * ms
			c.set.Judge(c.now, tk, Answered, 0)
			c.set.Leave(tk)
		}
		c.now += tt.last - 5*ms
		answer(0)
		for range 100 {
			c.now += 15 * ms
			answer(1)
		}
		c.set.Judge(c.now, sent, Silent, 0)
		c.state(0, tt.want)
	}
}

// An origin with one slow request that gets a few others is not silent: these have just been sent.
func TestABurstBesideASlowRequest(t *testing.T) {
	c := newScript(t, 2)
	c.set.enter(c.now, 0)
	c.now += 10 * s
	other := c.set.enter(c.now, 1)
	c.now += 10 * ms
	c.set.Judge(c.now, other, Answered, 0)
	c.set.Leave(other)
	c.set.enter(c.now, 0)
	c.set.enter(c.now, 0)
	c.now += 10 * ms
	if c.set.Out(c.now, 0) {
		t.Error("it is out")
	}
	c.now += s + ms
	if !c.set.Out(c.now, 0) {
		t.Error("it is not out after three requests without an answer for a second")
	}
}

// An origin without requests is no sign that others answer.
func TestIdleOthers(t *testing.T) {
	c := newScript(t, 3)
	c.requests(1000, 10*ms, Answered, 0)
	for range 5 {
		c.set.enter(c.now, 0)
		c.set.enter(c.now, 1)
	}
	c.now += 1100 * ms
	if c.set.Out(c.now, 0) || c.set.Out(c.now, 1) {
		t.Error("an origin is out")
	}
	late := Ticket{Origin: 0, at: c.now - time.Second}
	c.set.Judge(c.now, late, Silent, 0)
	c.state(0, In)
}

// An origin that hangs again soon after the first time is out after a second again.
func TestHangsTwice(t *testing.T) {
	c := newScript(t, 2)
	c.play(10*s, 10*ms, 20*ms)
	var pending []Ticket
	hang := func() {
		for range 5 {
			pending = append(pending, c.set.enter(c.now, 0))
		}
		for range 150 {
			c.now += 10 * ms
			tk, _ := c.set.Pick(c.now, c.rng.Uint64(), -1, nil)
			if tk.Origin == 0 {
				pending = append(pending, tk)
				continue
			}
			c.set.Judge(c.now, tk, Answered, 0)
			c.set.Leave(tk)
		}
	}
	hang()
	c.state(0, Ejected)
	c.now += 20 * s
	for _, tk := range pending {
		c.set.Judge(c.now, tk, Answered, 0)
		c.set.Leave(tk)
	}
	c.state(0, Starting)
	c.play(11*s, 10*ms, 20*ms)
	c.state(0, In)
	hang()
	c.state(0, Ejected)
}

// Requests that their clients still send are no sign of silence. From when the origin has them as a whole on, they are.
func TestSending(t *testing.T) {
	c := newScript(t, 2)
	for range 3 {
		c.set.enter(c.now, 0)
		c.set.Sending(0)
	}
	one := func() {
		c.now += 2 * s
		tk := c.set.enter(c.now, 1)
		c.set.Judge(c.now, tk, Answered, 0)
		c.set.Leave(tk)
	}
	one()
	if c.set.Out(c.now, 0) {
		t.Error("it is out")
	}
	for range 3 {
		c.set.Sent(c.now, 0)
	}
	if c.set.Out(c.now, 0) {
		t.Error("it is out at once")
	}
	one()
	if !c.set.Out(c.now, 0) {
		t.Error("it is not out")
	}
}

// An origin that asks for a pause again when a hold ends is held again at once.
func TestHoldAgain(t *testing.T) {
	c := newScript(t, 2)
	answer := func() {
		tk := c.set.enter(c.now, 0)
		c.set.Judge(c.now, tk, Failed, s)
		c.set.Leave(tk)
	}
	for range 6 {
		answer()
		c.now += s / 5
	}
	c.state(0, Held)
	for range 10 {
		c.now += 1100 * ms
		c.set.usable(c.now, 0, 0)
		c.state(0, Starting)
		answer()
		c.state(0, Held)
	}
}

// If all origins fail, none is out: the others would serve no more.
func TestAllFail(t *testing.T) {
	c := newScript(t, 4)
	c.requests(100, 10*ms, Answered, 0)
	c.requests(1000, 10*ms, Failed, 0, 0, 1, 2, 3)
	for i := range 4 {
		c.state(i, In)
	}
}
