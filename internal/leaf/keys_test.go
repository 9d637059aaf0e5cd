package leaf_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
)

// A bucket with a part of the burst smaller than a request fills up to its cost.
func TestCostAboveTheBurst(t *testing.T) {
	s := started(t, leaf.Config{}, leaf.Policy{})
	for s.now = time.Second; s.now < 3*time.Second; s.now += time.Second {
		d, _ := s.set.Take(s.now, "k", 8, s.policy)
		if want := s.now > time.Second; d.OK != want || !want && d.RetryAfter != 60*time.Millisecond {
			t.Errorf("at %v: 8 tokens with a burst of 5 of 10: %+v", s.now, d)
		}
	}
	if d, _ := s.set.Take(s.now, "k", 11, s.policy); d.RetryAfter != weir.Never {
		t.Errorf("more than the limit's burst: %+v", d)
	}
	s.use(35*time.Second, 1, half)
	s.now += 500 * time.Millisecond
	s.takes("k", 20, 5, leaf.Assigned)
}

// Charge leaves a debt, Settle gives back at most the burst, and a look takes nothing.
func TestChargeAndSettle(t *testing.T) {
	s := started(t, leaf.Config{}, leaf.Policy{})
	s.now = time.Second
	if d, _ := s.set.Take(s.now, "k", 0, s.policy); !d.OK || d.Remaining != 5 {
		t.Errorf("a look: %+v", d)
	}
	s.set.Charge(s.now, "k", 10)
	if d, _ := s.set.Take(s.now, "k", 1, s.policy); d.OK || d.RetryAfter != 120*time.Millisecond {
		t.Errorf("in debt: %+v", d)
	}
	s.set.Settle(s.now, "k", s.now, 99, 0)
	s.takes("k", 9, 5, leaf.Assigned)
	if d, _ := s.set.Take(s.now, "k", 0, s.policy); d.OK {
		t.Errorf("a look: %+v", d)
	}
	s.set.Charge(s.now, "k", 1_000_000)
	if d, _ := s.set.Take(s.now, "k", 1, s.policy); d.RetryAfter != 10020*time.Millisecond {
		t.Errorf("a debt of 10 seconds' tokens: %+v", d)
	}
	if charged := s.set.Settle(s.now, "unknown", s.now, 1, 0); charged != 1 {
		t.Errorf("%d charged of a key that is not known: want all", charged)
	}
}

// Beyond MaxKeys a key is decided as one without an assignment.
func TestMaxKeys(t *testing.T) {
	for _, c := range []struct {
		policy     leaf.Policy
		up, away   leaf.Step
		allowsAway bool
	}{
		{leaf.Policy{}, leaf.Ask, leaf.ByRule, false},
		{leaf.Policy{First: leaf.DenyFirst, Away: leaf.AllowAway}, leaf.ByRule, leaf.ByRule, true},
		{leaf.Policy{Away: leaf.ShareOrPass}, leaf.Ask, leaf.ByRule, true},
		{leaf.Policy{First: leaf.ShareFirst, Away: leaf.ShareAway, Limit: leaf.Limit{Rate: 1, Burst: 1}}, leaf.Ask, leaf.ByRule, false},
	} {
		s := started(t, leaf.Config{MaxKeys: 1}, c.policy)
		s.takes("other", 1, 0, c.up)
		s.exchange(nil)
		d, step := s.set.Take(s.now, "other", 1, s.policy)
		if d.OK != c.allowsAway || step != c.away || s.set.Over() != 2 || s.set.Len() != 1 {
			t.Errorf("%+v: %+v by %v; %d decisions without room, %d keys", c.policy, d, step, s.set.Over(), s.set.Len())
		}
	}
}

// The first share is there at once.
func TestFirstShare(t *testing.T) {
	s := newScript(t, leaf.Config{}, leaf.Policy{First: leaf.ShareFirst, Limit: leaf.Limit{Rate: 100, Burst: 20}, Leaves: 4})
	s.takes("k", 9, 5, leaf.Share)
	s.due(0)
	s.exchange(assigned(half))
	s.takes("k", 1, 0, leaf.Assigned)
}

// While the upstream is away for longer than the time to live: by rule.
func TestByRule(t *testing.T) {
	for _, away := range []leaf.Away{leaf.DenyAway, leaf.AllowAway, leaf.ShareAway} {
		s := newScript(t, leaf.Config{}, leaf.Policy{Away: away})
		s.takes("k", 1, 0, leaf.Ask)
		s.exchange(nil)
		want := 0
		if away == leaf.AllowAway {
			want = 9
		}
		s.takes("k", 9, want, leaf.ByRule)
		s.now = s.set.Due()
		s.exchange(assigned(half))
		s.takes("k", 9, 0, leaf.Assigned) // no burst
	}
}

// Waiters get their tokens in order, at the assigned rate.
func TestWaiters(t *testing.T) {
	s := started(t, leaf.Config{MaxWaiters: 3}, leaf.Policy{})
	s.now = time.Second
	s.takes("k", 9, 5, leaf.Assigned)
	until := s.now + 100*time.Millisecond
	woken := 0
	ws := make([]*leaf.Waiter, 4)
	for i := range ws {
		ws[i] = &leaf.Waiter{Wake: func() { woken++ }}
		d, step, why := s.set.Wait(s.now, "k", 1, until, s.policy, ws[i])
		switch {
		case i < 3 && (d.OK || step != leaf.Assigned || why != 0 || d.RetryAfter != time.Duration(i+1)*20*time.Millisecond):
			t.Fatalf("waiter %d: %+v by %v, %v", i, d, step, why)
		case i == 3 && why != weir.QueueFull:
			t.Fatalf("beyond MaxWaiters: %v", why)
		}
	}
	s.takes("k", 1, 0, leaf.Assigned) // waiters come first
	s.set.Cancel(s.now, ws[1])
	if woken != 2 {
		t.Errorf("%d waiters woken by a cancellation, want 2", woken)
	}
	if _, _, why := s.set.Wait(s.now, "k", 5, until, s.policy, ws[1]); why != weir.OverRate {
		t.Errorf("a wait that takes too long: %v", why)
	}
	if _, _, why := s.set.Wait(s.now, "k", 11, until, s.policy, ws[1]); why != weir.OverBurst {
		t.Errorf("a wait for more than the burst: %v", why)
	}
	s.now += 40 * time.Millisecond
	for _, i := range []int{2, 0} {
		if d, _, _ := s.set.Ready(s.now, ws[i]); !d.OK {
			t.Errorf("waiter %d: %+v", i, d)
		}
	}
	s.set.Cancel(s.now, ws[2]) // it has left with its token
	s.takes("k", 2, 1, leaf.Assigned)
	if n := s.set.Waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// A waiter of a key without a rate is woken by an assignment, and ends at its deadline.
func TestWaiterWithoutARate(t *testing.T) {
	s := started(t, leaf.Config{}, leaf.Policy{})
	none := half
	none.Rate, none.Burst = 0, 0
	s.exchange(assigned(none))
	woken := 0
	first, second := &leaf.Waiter{Wake: func() { woken++ }}, &leaf.Waiter{}
	for _, w := range []*leaf.Waiter{first, second} {
		if d, _, why := s.set.Wait(s.now, "k", 1, s.now+time.Second, s.policy, w); why != 0 || d.RetryAfter != time.Second {
			t.Fatalf("%+v, %v", d, why)
		}
	}
	s.now += 100 * time.Millisecond
	s.exchange(assigned(half))
	if woken != 1 {
		t.Error("not woken")
	}
	s.now += 20 * time.Millisecond
	if d, _, _ := s.set.Ready(s.now, first); !d.OK {
		t.Errorf("%+v", d)
	}
	s.exchange(assigned(none))
	s.now = 2 * time.Second
	if d, _, why := s.set.Ready(s.now, second); d.OK || why != weir.OverRate {
		t.Errorf("at the deadline: %+v, %v", d, why)
	}
}
