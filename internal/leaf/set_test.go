package leaf_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafsession"
)

// A script drives a leaf in virtual time against answers that the test chooses.
type script struct {
	*testing.T
	set    *leafsession.Set
	now    time.Duration
	policy *leaf.Policy
}

func newScript(t *testing.T, cfg leaf.Config, p leaf.Policy) *script {
	cfg.Name = "a"
	return &script{T: t, set: leafsession.NewSet(cfg), policy: &p}
}

// takes takes one token at a time, and checks how many are allowed, and by which step.
func (s *script) takes(key string, tries, want int, step leaf.Step) {
	s.Helper()
	got := 0
	for range tries {
		d, by := s.set.Take(s.now, key, 1, s.policy)
		if by != step {
			s.Fatalf("at %v: %s is decided by %v, want %v", s.now, key, by, step)
		}
		if d.OK {
			got++
		}
	}
	if got != want {
		s.Fatalf("at %v: %d of %d are allowed, want %d", s.now, got, tries, want)
	}
}

// assigned is an answer with one assignment.
func assigned(a leaf.Assignment) *leaf.Answer {
	return &leaf.Answer{TTLMS: 10_000, NextMS: 1000, Assignments: []leaf.Assignment{a}}
}

// exchange exchanges at once, and returns the reports.
func (s *script) exchange(a *leaf.Answer) []leaf.Report {
	s.Helper()
	x := s.set.Exchange(s.now)
	reports := append([]leaf.Report(nil), x.Reports...)
	if a == nil {
		s.set.Failed(s.now)
	} else {
		s.set.Answered(s.now, a)
	}
	return reports
}

func (s *script) due(want time.Duration) {
	s.Helper()
	if got := s.set.Due(); got != want {
		s.Fatalf("at %v: the next exchange is due at %v, want %v", s.now, got, want)
	}
}

// The ladder, down and up again.
func TestLadder(t *testing.T) {
	s := newScript(t, leaf.Config{}, leaf.Policy{Away: leaf.ShareAway})
	s.due(weir.Never)
	s.takes("k", 3, 0, leaf.Ask)
	s.due(0)
	if got := s.exchange(assigned(leaf.Assignment{Key: "k", Rate: 80, Burst: 8, LimitRate: 100, LimitBurst: 10, Leaves: 4})); len(got) != 1 || got[0].Key != "k" || got[0].Has != 0 {
		t.Fatalf("the first reports are %+v", got)
	}
	s.due(time.Second)
	s.takes("k", 1, 0, leaf.Assigned) // it starts empty
	s.now = 50 * time.Millisecond
	s.takes("k", 9, 4, leaf.Assigned)
	s.now = time.Second
	s.takes("k", 9, 8, leaf.Assigned)
	s.exchange(nil) // the upstream is away
	s.now = 9 * time.Second
	s.takes("k", 9, 8, leaf.Last)
	s.now = 10 * time.Second // the time to live is over
	s.takes("k", 9, 2, leaf.Share)
	s.now = 12 * time.Second
	s.takes("k", 9, 2, leaf.Share)
	s.now += 40 * time.Millisecond
	s.takes("k", 9, 1, leaf.Share) // 25 a second
	s.now = 13 * time.Second
	s.takes("k", 1, 1, leaf.Share)
	if got := s.exchange(assigned(leaf.Assignment{Key: "k", Rate: 50, Burst: 5, LimitRate: 100, LimitBurst: 10, Leaves: 4})); len(got) != 1 || got[0].Has != 25 {
		t.Fatalf("the upstream is back: the reports are %+v, want one that has 25", got)
	}
	s.takes("k", 9, 1, leaf.Assigned) // what the share has left
	s.now += 20 * time.Millisecond
	s.takes("k", 9, 1, leaf.Assigned)
}
