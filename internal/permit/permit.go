// Package permit defines the content of a weir.Permit for the limiters of this module.
package permit

import "time"

// A Grant is a limiter's note of what it granted.
type Grant struct {
	N    int           // units held
	At   time.Duration // when, on the limiter's own clock
	Note uint64        // for the limiter's own use
}

// An Owner is the limiter that a Permit goes back to; Outcome is weir.Outcome. A
// Permit calls Release exactly once, and Use only before that. Use returns the units
// that the Permit holds from then on: n, or fewer if it does not charge all of them.
//
// An Owner that can learn how work went before its release also has a method
// Report(Grant, Outcome) Grant, which returns the Permit's new Grant.
type Owner[Outcome any] interface {
	Use(g Grant, n int) (held int)
	Release(g Grant, o Outcome)
}
