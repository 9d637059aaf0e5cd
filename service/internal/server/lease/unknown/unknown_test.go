package unknown

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/slot"
)

// A crash during a recovery adds the leases of the process that crashed last.
func TestCrash(t *testing.T) {
	c := NewCrash(time.Minute, map[string]time.Duration{"a": 10 * time.Second})
	if got := c.Until(); got != 70*time.Second {
		t.Errorf("Until() = %v, want the longest time to live after the start", got)
	}
	if got := c.Reopens("a", time.Second); got != 70*time.Second {
		t.Errorf("Reopens(a) = %v, want the time to live that was saved", got)
	}
	if got := c.Reopens("b", 20*time.Second); got != 80*time.Second || c.Until() != got {
		t.Errorf("Reopens(b) = %v, Until() = %v, want both 80s", got, c.Until())
	}
	c.Resume(100, 200, []Span{{10, 20}})
	for token, want := range map[uint64]bool{10: false, 11: true, 19: true, 20: false, 100: false, 101: true, 200: true, 201: false} {
		if c.Has(token) != want {
			t.Errorf("Has(%d) = %v, want %v", token, !want, want)
		}
	}
}

// Beyond the bound of crashes, the spans are no longer told apart: more leases are unknown, and none is forgotten.
func TestManyCrashes(t *testing.T) {
	var c Crash
	for i := range uint64(2 * maxSpans) {
		c.Resume(100*i, 100*i+10, c.Spans())
	}
	if n := len(c.Spans()); n > maxSpans {
		t.Errorf("%d spans, want at most %d", n, maxSpans)
	}
	for i := range uint64(2 * maxSpans) {
		if !c.Has(100*i + 5) {
			t.Errorf("the leases of crash %d are forgotten", i)
		}
	}
}

func TestSlots(t *testing.T) {
	var s Slots
	var one, both slot.Set
	one.Add(1)
	both.Add(1)
	both.Add(2)
	s.Expect(&both, time.Second, time.Minute)
	s.Expect(&one, 2*time.Second, time.Minute)
	for at, want := range map[uint16]time.Duration{1: 2 * time.Second, 2: time.Second} {
		if got, ok := s.Started(at); !ok || got != want {
			t.Errorf("Started(%d) = %v, %v, want %v", at, got, ok, want)
		}
	}
	s.Received(&one)
	if _, ok := s.Started(1); ok {
		t.Error("a slot is expected whose leases have come")
	}
	if !s.Any(60*time.Second) || s.Any(61*time.Second) {
		t.Error("Any is not true until the leases of the other slot must have expired")
	}
	for i := range 2 * maxExpectations {
		s.Expect(&one, 70*time.Second+time.Duration(i), time.Minute)
	}
	if n := len(*s.expected.Load()); n > maxExpectations {
		t.Errorf("%d expectations, want at most %d", n, maxExpectations)
	}
}
