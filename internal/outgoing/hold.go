// Package outgoing keeps back what a client sends while the server wants that.
// It knows no protocol.
package outgoing

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
)

// The return after a wait. Each good answer halves the gap, and below the least
// there is none: ten answers are enough to go on as before.
const (
	firstGap = 100 * time.Millisecond
	leastGap = 200 * time.Microsecond
	maxDelay = time.Second // of the opening, beyond what was asked for

	forever = math.MaxInt64 / 4 * time.Nanosecond // added to an instant, it is one
)

// HoldConfig bounds a Hold.
type HoldConfig struct {
	MaxWait time.Duration // of a request; if negative, its context alone bounds it
	MaxHold time.Duration // for which a server is believed, > 0
	Queue   int           // requests that wait, >= 0
}

// A Hold keeps requests back until the instant that a server has named, in order
// of their arrival. Then it lets one go after the other, a gap apart, until good
// answers have shown that the server is well again. It is safe for concurrent
// use. NewHold makes one; it need not be closed.
type Hold struct {
	cfg   HoldConfig
	epoch time.Time
	shut  atomic.Bool   // false: all may go
	turn  chan struct{} // taken by the one that goes next; the others stand in line for it

	mu      sync.Mutex    // guards what follows
	spent   time.Duration // since the epoch: until when a quota is used up
	busy    time.Duration // until when the server is not available
	gap     time.Duration
	next    time.Duration // when the gap since the last request is over
	waiting int
	changed chan struct{} // closed when something comes earlier
}

// NewHold returns a Hold that keeps nobody.
func NewHold(cfg HoldConfig) *Hold {
	return &Hold{cfg: cfg, epoch: time.Now(), turn: make(chan struct{}, 1), changed: make(chan struct{})}
}

// A Pass says how a request was let out.
type Pass struct {
	Paced  bool // the server is not known to be well
	Waited bool
}

// Wait waits until a request may be sent. The error is a *weir.Rejection or
// ctx's own: the reason of Heed if the wait is or was too long, TooLate if ctx
// ends before it would be over, QueueFull if too many wait.
func (h *Hold) Wait(ctx context.Context) (Pass, error) {
	if !h.shut.Load() {
		return Pass{}, nil
	}
	went, err := h.join(ctx)
	if went || err != nil {
		return Pass{Paced: true}, err
	}
	defer h.part()
	if h.cfg.MaxWait >= 0 {
		bounded, cancel := context.WithTimeout(ctx, h.cfg.MaxWait)
		defer cancel()
		if err = h.stand(bounded); err != nil && ctx.Err() == nil {
			err = h.tooLong()
		}
	} else {
		err = h.stand(ctx)
	}
	return Pass{Paced: true, Waited: true}, err
}

// join lets a request out if nobody goes before it, or makes it wait if there is
// a point in that.
func (h *Hold) join(ctx context.Context) (went bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Since(h.epoch)
	if h.waiting == 0 && h.goLocked(now) {
		return true, nil
	}
	wait := h.waitLocked(now)
	end, ends := ctx.Deadline()
	switch {
	case h.cfg.MaxWait >= 0 && wait > h.cfg.MaxWait:
		return false, weir.Reject(h.whyLocked(), wait)
	case ends && time.Until(end) <= wait:
		return false, weir.Reject(weir.TooLate, wait)
	case h.waiting >= h.cfg.Queue:
		return false, weir.Reject(weir.QueueFull, wait)
	}
	h.waiting++
	return false, nil
}

func (h *Hold) part() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
}

// goLocked lets a request out if it may go.
func (h *Hold) goLocked(now time.Duration) bool {
	if h.waitLocked(now) > 0 {
		return false
	}
	h.next = now + h.gap
	return true
}

// waitLocked is how long it takes until the next request may go.
func (h *Hold) waitLocked(now time.Duration) time.Duration {
	return max(h.spent, h.busy, h.next) - now
}

func (h *Hold) whyLocked() weir.Reason {
	if h.busy > h.spent {
		return weir.Throttled
	}
	return weir.OverRate
}

// stand waits in line, and then for the time to go. Who has the turn hears of
// every change: he takes the channel under the lock under which he looked, and
// it is closed after the change.
func (h *Hold) stand(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		h.mu.Lock()
		now := time.Since(h.epoch)
		went, wait, changed := h.goLocked(now), h.waitLocked(now), h.changed
		h.mu.Unlock()
		if went {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (h *Hold) tooLong() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return weir.Reject(h.whyLocked(), max(h.waitLocked(time.Since(h.epoch)), 0))
}

// Holds reports whether nobody may go now because the server wants that.
func (h *Hold) Holds() bool {
	if !h.shut.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.spent, h.busy) > time.Since(h.epoch)
}

// Heed takes in that the server wants to be left alone for d. If why is
// Throttled, it has said so of itself, and a good answer ends it; OverRate is of
// what this client may ask for, and ends in time.
func (h *Hold) Heed(why weir.Reason, d time.Duration) {
	d = min(d, h.cfg.MaxHold, forever)
	h.mu.Lock()
	defer h.mu.Unlock()
	end := time.Since(h.epoch) + d + time.Duration(rand.Float64()*float64(min(d/10, maxDelay)))
	if why == weir.Throttled {
		h.busy = max(h.busy, end)
	} else {
		h.spent = max(h.spent, end)
	}
	h.gap = firstGap
	h.shut.Store(true)
}

// Good takes in an answer that is no sign of overload, to a request that was let
// out by p. It contradicts a server that is not available, and quickens the
// return.
func (h *Hold) Good(p Pass) {
	if !h.shut.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Since(h.epoch)
	switch {
	case now < h.busy:
		if h.busy = now; now >= h.spent {
			h.gap = 0
		}
	case now >= h.spent && p.Paced:
		if h.gap /= 2; h.gap < leastGap {
			h.gap = 0
		}
	default:
		return
	}
	h.next = min(h.next, now+h.gap)
	if h.gap == 0 {
		h.shut.Store(false)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// Waiting returns how many requests wait.
func (h *Hold) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}
