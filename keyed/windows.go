package keyed

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/keyedtable"
)

// A larger Window.Limit counts as MaxLimit, and a shorter Period as MinPeriod.
const (
	MaxLimit  = keyedtable.MaxLimit
	MinPeriod = keyedtable.MinPeriod
)

// A Window allows a number of events in a window of time.
type Window struct {
	Limit  int           // events in a window. Zero or less: none
	Period time.Duration // of a window. Zero or less: the window never ends
	// Sliding lets the last window fade out over the next (window.Sliding), with
	// windows that begin with the clock's: those of an hour with the hours of UTC.
	// Otherwise windows are fixed (window.Fixed), and a key's begin with its first
	// event.
	Sliding bool
}

// Windows counts the events of every key in windows of time: package window for
// many keys, as a Limiter is package gcra for many. Where the promise to a client
// is not about windows, prefer a Limiter. It is safe for concurrent use, and
// starts no goroutine.
//
//	lim, err := keyed.NewWindows[string](keyed.Window{Limit: 1000, Period: time.Hour}, keyed.Config{})
//	...
//	if d := lim.Take(user, 1); !d.OK { ... }
type Windows[K comparable] struct {
	windows *keyedtable.Windows[K]
	state[K]
}

// NewWindows returns Windows that give every key the Window w. The error is
// Config.Validate's.
func NewWindows[K comparable](w Window, cfg Config) (*Windows[K], error) {
	t, err := keyedtable.NewWindows[K](keyedtable.Window(w), keyedtable.Config(cfg))
	if err != nil {
		return nil, err
	}
	return &Windows[K]{t, state[K]{t}}, nil
}

// Take counts n events of a key if they are within the limit, and says what is
// left and when to come back. If n exceeds the limit, RetryAfter is weir.Never.
// With n = 0 it counts nothing, and is allowed. It panics if n < 0.
func (l *Windows[K]) Take(key K, n int) weir.Decision { return l.windows.Take(key, n, 0) }

// Settle changes the cost of work of the key from the was events that were counted
// for it, soon before the time at, to n; a time before Take returned may be before
// the window that Take began, and one in the future is now. If n is less, the rest
// comes back if that window is still the present one. If n is more, the rest is
// counted in the present window without asking: beyond the limit by up to
// Config.MaxDebt, and what is beyond that is forgiven. Settle returns what is
// charged: n, less if some is forgiven, more if not all came back. It panics if
// was or n is negative.
func (l *Windows[K]) Settle(key K, at time.Time, was, n int) int {
	return l.windows.SettleAt(key, at, was, n)
}

// Used returns how many events of the key count at present, and how long it
// takes until none does if no more come. If windows slide it is the estimate,
// rounded up.
func (l *Windows[K]) Used(key K) (used int, resetIn time.Duration) { return l.windows.Used(key) }

// SetWindow changes the Window. What a key has used stays used. If Period or
// Sliding changes, the events that count at that instant count under the new
// Window as if all had come at that instant. So a change gives no key more: from
// then on, the new Window's promise holds, with what had been used before as a
// beginning. Each shard is locked for as long as it takes to go through it: well
// under a millisecond. SetWindow waits for a Snapshot under way.
func (l *Windows[K]) SetWindow(w Window) { l.windows.SetWindow(keyedtable.Window(w)) }
