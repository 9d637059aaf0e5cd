// Package wrapped treats a limiter that wraps another like that one.
package wrapped

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// A Wrapper is a Limiter in front of another one.
type Wrapper interface {
	weir.Limiter
	Unwrap() weir.Limiter
	// Try is Acquire without a wait, by a call of Try for the limiter that it wraps.
	Try(ctx context.Context, n int) (weir.Permit, error)
}

// Innermost returns the Limiter behind all Wrappers, or l.
func Innermost(l weir.Limiter) weir.Limiter {
	for {
		w, ok := l.(Wrapper)
		if !ok {
			return l
		}
		l = w.Unwrap()
	}
}

// patience is how long Try waits for a limiter that can only wait.
const patience = time.Millisecond

// Try asks a limiter without a wait.
func Try(ctx context.Context, l weir.Limiter, n int) (weir.Permit, error) {
	switch l := l.(type) {
	case Wrapper:
		return l.Try(ctx, n)
	case interface {
		TryAcquire(ctx context.Context, n int) (weir.Permit, bool)
	}:
		if p, ok := l.TryAcquire(ctx, n); ok {
			return p.Move(), nil
		}
		return weir.Permit{}, weir.Reject(weir.OverLimit, 0)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.Acquire(ctx, n)
}
