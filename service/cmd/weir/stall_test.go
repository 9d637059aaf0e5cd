//go:build system

package main

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// stallTime is the time without progress of a load from which on it is a stall: the machine is busy.
const stallTime = 50 * time.Millisecond

// stalls are the times in which the machine let a load do nothing. They are safe for concurrent use.
type stalls struct {
	mu  sync.Mutex // guards all
	all []stall
}

type stall struct{ begin, end time.Time }

// note notes that there was no progress for some time, until now.
func (s *stalls) note(took time.Duration) {
	if took <= stallTime {
		return
	}
	end := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, stall{end.Add(-took), end})
}

// since returns the longest stall that has ended since an instant, and the time since then in which there
// was a stall.
func (s *stalls) since(from time.Time) (longest, sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.all, func(a, b stall) int { return a.begin.Compare(b.begin) })
	covered := from
	for _, one := range s.all {
		if one.end.Before(from) {
			continue
		}
		longest = max(longest, one.end.Sub(one.begin))
		if one.begin.After(covered) {
			covered = one.begin
		}
		if one.end.After(covered) {
			sum += one.end.Sub(covered)
			covered = one.end
		}
	}
	return longest, sum
}

// Stalls that overlap count once, and only from the instant on.
func TestStalls(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	s := &stalls{all: []stall{{at(500), at(600)}, {at(550), at(700)}, {at(560), at(570)}, {at(0), at(90)}, {at(0), at(120)}, {at(900), at(1000)}}}
	for ms, want := range map[int][2]time.Duration{-10: {150, 420}, 100: {150, 320}, 650: {150, 150}, 1001: {0, 0}} {
		longest, sum := s.since(at(ms))
		if got := [2]time.Duration{longest / time.Millisecond, sum / time.Millisecond}; got != want {
			t.Errorf("since %d ms: %v, want %v", ms, got, want)
		}
	}
	s = &stalls{}
	s.note(stallTime)
	s.note(time.Hour)
	if longest, sum := s.since(start); longest != time.Hour || sum <= 0 || sum > time.Since(start) {
		t.Errorf("%v, %v: want an hour, and no more than there was", longest, sum)
	}
}
