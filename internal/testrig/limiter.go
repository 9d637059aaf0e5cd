package testrig

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/weir-go/weir"
)

// A Limiter is a weir.Limiter that records its requests. The zero Limiter admits all of them, until
// Reject is called.
type Limiter struct {
	mu       sync.Mutex // guards what follows
	err      error
	spared   int // requests that are admitted before err rejects the others
	asked    []weir.Class
	held     int
	outcomes []weir.Outcome
}

// Rejecting returns a Limiter that rejects requests with an error, after it has admitted a number of
// them.
func Rejecting(err error, after int) *Limiter { return &Limiter{err: err, spared: after} }

// Acquire implements weir.Limiter.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, weir.ClassOf(ctx))
	if l.err != nil && len(l.asked) > l.spared {
		return weir.Permit{}, l.err
	}
	l.held += n
	return weir.NewPermit(func(o weir.Outcome) { l.release(n, o) }), nil
}

func (l *Limiter) release(n int, o weir.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held -= n
	l.outcomes = append(l.outcomes, o)
}

// Reject rejects requests from now on. If err is nil, it admits them.
func (l *Limiter) Reject(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.spared = err, 0
}

// Asked returns the class of each request, in order.
func (l *Limiter) Asked() []weir.Class {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

// Held returns the number of units that requests hold.
func (l *Limiter) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Outcomes returns the outcomes of requests that have ended, in order.
func (l *Limiter) Outcomes() []weir.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.outcomes)
}

// WantHeld fails the test unless requests hold a number of units.
func (l *Limiter) WantHeld(t testing.TB, want int, when string) {
	t.Helper()
	if held := l.Held(); held != want {
		t.Errorf("%s: %d units are held, want %d", when, held, want)
	}
}

// WantEnded fails the test unless all requests have ended, with these outcomes.
func (l *Limiter) WantEnded(t testing.TB, want ...weir.Outcome) {
	t.Helper()
	if held, got := l.Held(), l.Outcomes(); fmt.Sprint(got) != fmt.Sprint(want) || held != 0 {
		t.Errorf("outcomes %v, %d units are held, want %v and none", got, held, want)
	}
}
