package leaf_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
)

var half = leaf.Assignment{Key: "k", Rate: 50, Burst: 5, LimitRate: 100, LimitBurst: 10, Leaves: 2}

// started returns a leaf that has an assignment of k.
func started(t *testing.T, cfg leaf.Config, p leaf.Policy) *script {
	t.Helper()
	s := newScript(t, cfg, p)
	s.set.Take(s.now, "k", 1, s.policy)
	s.exchange(assigned(half))
	return s
}

// use takes tokens every 10 ms for a time, and exchanges when that is due. It returns the reports.
func (s *script) use(d time.Duration, each int, a leaf.Assignment) (reports []leaf.Report) {
	s.Helper()
	for end := s.now + d; s.now < end; s.now += 10 * time.Millisecond {
		for range each {
			s.set.Take(s.now, "k", 1, s.policy)
		}
		if s.now >= s.set.Due() {
			x := s.set.Exchange(s.now)
			reports = append(reports, x.Reports...)
			answer := &leaf.Answer{TTLMS: 10_000, NextMS: 1000}
			for _, r := range x.Reports {
				a.Key = r.Key
				answer.Assignments = append(answer.Assignments, a)
			}
			s.set.Answered(s.now, answer)
		}
	}
	return reports
}

// A key with a steady demand that is not contended is reported once in twelve times to live, with all
// tokens used.
func TestSteadyKeysAreQuiet(t *testing.T) {
	s := started(t, leaf.Config{}, leaf.Policy{})
	s.use(20*time.Second, 0, half)
	s.set.Take(s.now, "k", 1, s.policy)
	all := half
	all.Rate, all.Burst = 1000, 100
	s.use(10*time.Second, 1, all)
	reports := s.use(360*time.Second, 1, all)
	used := 0
	for _, r := range reports {
		used += r.Used
		if math.Abs(r.Wants-100) > 1 {
			t.Errorf("wants %v, want 100", r.Wants)
		}
	}
	if len(reports) < 3 || len(reports) > 5 || used < 24_000 || used > 43_200 {
		t.Errorf("%d reports in 36 times to live, %d tokens used: want 3 to 5, and about 36,000", len(reports), used)
	}
}

// A jump of demand is reported after 100 ms.
func TestJumpIsReportedSoon(t *testing.T) {
	s := started(t, leaf.Config{}, leaf.Policy{})
	s.now = time.Second
	s.use(time.Second, 0, half)
	for range 100 {
		s.set.Take(s.now, "k", 1, s.policy)
	}
	if due := s.set.Due(); due > s.now {
		t.Errorf("the exchange is due in %v", due-s.now)
	}
	reports := s.exchange(assigned(half))
	if len(reports) != 1 || reports[0].Wants < 80 || reports[0].Used != 5 {
		t.Errorf("reports %+v", reports)
	}
}

// A smaller assignment is acknowledged after 100 ms.
func TestSmallerRateIsAcknowledged(t *testing.T) {
	s := started(t, leaf.Config{}, leaf.Policy{})
	s.now = time.Second
	less := half
	less.Rate, less.Burst, less.Contended = 20, 2, true
	s.set.Take(s.now, "k", 1, s.policy)
	s.set.Watch("k")
	s.exchange(assigned(less))
	s.due(s.now + 100*time.Millisecond)
	s.now += 100 * time.Millisecond
	if got := s.exchange(assigned(less)); len(got) != 1 || got[0].Has != 20 {
		t.Errorf("reports %+v, want one that has 20", got)
	}
	s.due(2 * time.Second)
}

// An idle key is given back, and forgotten with the answer. One that is used meanwhile is
// reported again.
func TestIdleKeysAreDone(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := started(t, leaf.Config{}, leaf.Policy{})
		for s.now = time.Second; s.now < 10*time.Second; s.now += time.Second {
			s.exchange(assigned(half))
		}
		x := s.set.Exchange(s.now)
		if len(x.Reports) != 1 || !x.Reports[0].Done || x.Held != 0 {
			t.Fatalf("an idle key: %+v", x)
		}
		s.set.Failed(s.now)
		s.now += time.Second
		x = s.set.Exchange(s.now)
		if len(x.Reports) != 1 || !x.Reports[0].Done {
			t.Fatalf("after a lost exchange: %+v", x)
		}
		if again {
			s.takes("k", 1, 0, leaf.ByRule) // the upstream is away
		}
		s.set.Answered(s.now, &leaf.Answer{TTLMS: 10_000, NextMS: 1000, Assignments: []leaf.Assignment{{Key: "k"}}})
		if got := s.set.Len(); got != map[bool]int{true: 1}[again] {
			t.Errorf("%d keys", got)
		}
		if again {
			s.due(s.now + 100*time.Millisecond)
		} else {
			s.due(weir.Never)
		}
	}
}

// Reports of a failed exchange are sent again, with their tokens.
func TestUnsentReports(t *testing.T) {
	s := started(t, leaf.Config{}, leaf.Policy{})
	s.now = time.Second
	s.takes("k", 5, 5, leaf.Assigned)
	s.set.Watch("k")
	if got := s.exchange(nil); len(got) != 1 || got[0].Used != 5 {
		t.Fatalf("%+v", got)
	}
	if due := s.set.Due(); due < s.now+50*time.Millisecond || due > s.now+300*time.Millisecond {
		t.Errorf("the next attempt is due after %v", due-s.now)
	}
	s.now = s.set.Due()
	s.takes("k", 1, 1, leaf.Last)
	if got := s.exchange(assigned(half)); len(got) != 1 || got[0].Used != 6 {
		t.Errorf("%+v, want the 6 tokens", got)
	}
	for range 10 {
		s.now = s.set.Due()
		s.exchange(nil)
	}
	if due := s.set.Due(); due < s.now+2500*time.Millisecond || due > s.now+5*time.Second {
		t.Errorf("after ten failures the next attempt is due after %v", due-s.now)
	}
}

// Resync has all keys reported, MaxReports in each exchange.
func TestResync(t *testing.T) {
	s := newScript(t, leaf.Config{MaxReports: 7}, leaf.Policy{})
	answer := func(x *leaf.Exchange, resync bool) {
		a := &leaf.Answer{TTLMS: 10_000, NextMS: 1000, Resync: resync}
		for _, r := range x.Reports {
			own := half
			own.Key = r.Key
			a.Assignments = append(a.Assignments, own)
		}
		s.set.Answered(s.now, a)
	}
	for i := range 20 {
		s.set.Take(s.now, fmt.Sprint(i), 1, s.policy)
	}
	for _, want := range []int{7, 7, 6} {
		if x := s.set.Exchange(s.now); len(x.Reports) != want {
			t.Fatalf("%d reports, want %d", len(x.Reports), want)
		} else {
			answer(x, false)
		}
	}
	if n := s.set.Held(s.now); n != 20 {
		t.Fatalf("holds %d", n)
	}
	s.now = s.set.Due()
	x := s.set.Exchange(s.now)
	answer(x, true)
	all := map[string]bool{}
	for range 3 {
		s.due(s.now)
		x := s.set.Exchange(s.now)
		for _, r := range x.Reports {
			all[r.Key] = true
		}
		answer(x, false)
	}
	if len(all) != 20 {
		t.Errorf("%d keys reported after a resync", len(all))
	}
	s.due(s.now + time.Second)
}

// An upstream that learns, refuses or answers nonsense.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		a    leaf.Assignment
		step leaf.Step
		held int
	}{
		"it learns":        {leaf.Assignment{Key: "k", Learning: true}, leaf.Ask, 0},
		"it refuses":       {leaf.Assignment{Key: "k", Error: "no"}, leaf.Ask, 0},
		"not a number":     {leaf.Assignment{Key: "k", Rate: math.NaN(), Burst: math.Inf(1)}, leaf.Assigned, 1},
		"another key":      {leaf.Assignment{Key: "other", Rate: 1}, leaf.Ask, 0},
		"no rule limits k": {leaf.Assignment{Key: "k", Unlimited: true}, leaf.Assigned, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, leaf.Config{}, leaf.Policy{})
			s.takes("k", 1, 0, leaf.Ask)
			s.exchange(assigned(c.a))
			s.now += time.Second
			want := 0
			if c.a.Unlimited {
				want = 100
			}
			s.takes("k", 100, want, c.step)
			if got := s.set.Held(s.now); got != c.held {
				t.Errorf("holds %d", got)
			}
		})
	}
}
