package rate

import (
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// A refusal is the Rejection of a call of Wait, with a text that has the figures.
type refusal struct {
	rejection weir.Rejection
	n, burst  int
}

func (r *refusal) Unwrap() error { return &r.rejection }

func (r *refusal) Error() string {
	call := fmt.Sprintf("rate: Wait(n=%d)", r.n)
	turn := "its turn never comes"
	if after := r.rejection.RetryAfter; after != weir.Never {
		unit := time.Microsecond
		if after > time.Second {
			unit = time.Millisecond
		}
		turn = fmt.Sprintf("its turn comes in %v", after.Round(unit))
	}
	switch r.rejection.Reason {
	case weir.OverBurst:
		return fmt.Sprintf("%s exceeds limiter's burst %d", call, r.burst)
	case weir.TooLate:
		return call + " would exceed context deadline: " + turn
	case weir.QueueFull:
		return call + " finds the queue full: " + turn
	default:
		return call + " would have to wait for too long: " + turn
	}
}
