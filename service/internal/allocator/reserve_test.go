package allocator_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/allocator"
)

// lostFleet has leaves a, b, c and d that share 100 tokens a second, all of which want much. The
// session of a has ended at the instant ttl.
func lostFleet(t *testing.T, cfg allocator.Config) (*share, *allocator.Session) {
	cfg.Limit, cfg.TTL = allocator.Limit{Rate: 100, Burst: 40}, ttl
	s := newShare(t, cfg)
	lost := &allocator.Session{}
	lost.Renew(ttl)
	s.member("a").Session = lost
	for range 4 {
		for _, name := range []string{"a", "b", "c", "d"} {
			s.report(0, name, 1000, s.member(name).Rate())
		}
	}
	return s, lost
}

// others lets all leaves but a report, and returns the sum of what they have.
func (s *share) others(now time.Duration) (sum float64) {
	for range 3 {
		sum = 0
		for _, name := range []string{"b", "c", "d"} {
			sum += s.report(now, name, 1000, s.member(name).Rate()).Rate
		}
	}
	return sum
}

func TestSafeShareOfALostLeafIsKept(t *testing.T) {
	ended := 0
	s, _ := lostFleet(t, allocator.Config{Reserve: 10 * ttl, Ended: func(*allocator.Member) { ended++ }})
	for now := ttl / 2; now < 11*ttl; now += ttl / 2 {
		if got := s.others(now); got > 75.001 || got < 74.9 || s.Members() != 4 {
			t.Fatalf("at %v the others have %v, and there are %d members; want 75 and 4", now, got, s.Members())
		}
	}
	if got := s.others(11 * ttl); got < 99.9 || s.Members() != 3 || ended != 1 {
		t.Errorf("after 10 times to live the others have %v of 100, there are %d members, and %d have ended", got, s.Members(), ended)
	}
}

func TestLostLeafThatIsBack(t *testing.T) {
	s, lost := lostFleet(t, allocator.Config{Reserve: 10 * ttl})
	s.others(3 * ttl / 2)
	lost.Renew(4 * ttl)
	if got := s.report(3*ttl, "a", 1000, 25).Rate; got < 24.9 {
		t.Errorf("it is back with 25, and has %v", got)
	}
	if got := s.others(3 * ttl); got > 75.001 || s.Members() != 4 {
		t.Errorf("the others have %v, of %d members", got, s.Members())
	}
	// It is back, but does not need this key any more.
	s, lost = lostFleet(t, allocator.Config{Reserve: 10 * ttl})
	s.others(3 * ttl / 2)
	lost.Renew(100 * ttl)
	s.others(3 * ttl)
	if got := s.others(4 * ttl); got < 99.9 {
		t.Errorf("the leaf is back, and does not report the key: the others have %v of 100", got)
	}
}

func TestNothingIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		reserve time.Duration
		change  func(*share, *allocator.Session)
	}{
		"none":      {0, func(*share, *allocator.Session) {}},
		"off":       {ttl, func(s *share, _ *allocator.Session) { s.SetReserves(allocator.ReserveNone) }},
		"denies":    {10 * ttl, func(s *share, _ *allocator.Session) { s.SetReserves(allocator.ReserveSharing) }},
		"left":      {10 * ttl, func(_ *share, lost *allocator.Session) { lost.End() }},
		"left late": {10 * ttl, func(s *share, _ *allocator.Session) { s.others(ttl); s.member("a").Leave(ttl) }},
		"silent":    {10 * ttl, func(_ *share, lost *allocator.Session) { lost.Renew(100 * ttl) }},
	} {
		s, lost := lostFleet(t, allocator.Config{Reserve: c.reserve, Silence: ttl})
		c.change(s, lost)
		if got := s.others(ttl + 1); got < 99.9 {
			t.Errorf("%s: the others have %v of 100", name, got)
		}
	}
}

// Something is kept for a leaf that says that it goes on with its share.
func TestLostLeafThatShares(t *testing.T) {
	s, lost := lostFleet(t, allocator.Config{Reserve: 10 * ttl})
	s.SetReserves(allocator.ReserveSharing)
	lost.Share = true
	if got := s.others(2 * ttl); got > 75.001 || got < 74.9 {
		t.Errorf("the others have %v, want 75", got)
	}
}

// A leaf keeps no more than it had.
func TestLostLeafKeepsWhatItHad(t *testing.T) {
	s := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl, Reserve: 10 * ttl})
	lost := &allocator.Session{}
	lost.Renew(ttl)
	s.member("a").Session = lost
	for range 3 {
		s.report(0, "a", 4, s.member("a").Rate())
		s.report(0, "b", 1000, s.member("b").Rate())
	}
	for now := ttl / 2; now < 2*ttl; now += ttl / 2 {
		if got := s.report(now, "b", 1000, s.member("b").Rate()).Rate; got < 95 || got > 96.001 {
			t.Errorf("at %v the other leaf has %v, want 95 to 96", now, got)
		}
	}
}
