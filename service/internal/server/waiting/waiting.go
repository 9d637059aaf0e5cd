// Package waiting holds what the queues for tokens and the queues for leases
// share: the bound on waiting requests, and counters.
package waiting

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
)

// ErrMoved ends a wait because the rules have changed. The request is decided
// again under the new rules.
var ErrMoved = errors.New("server: the rules have changed")

// DrainRetry is the RetryAfter of requests that are rejected because the node is
// closing: by then another instance can answer.
const DrainRetry = time.Second

// A Room bounds the number of requests that wait in a node.
type Room struct {
	max      int64
	n        atomic.Int64
	refused  atomic.Uint64
	arrivals atomic.Uint64
	closed   atomic.Bool
	owned    atomic.Pointer[func(slot uint16) error]
}

// NewRoom returns a Room for at most max requests; for none if max is negative.
func NewRoom(max int) *Room {
	r := new(Room)
	r.max = int64(max)
	return r
}

// Enter reports whether there is room for another request. If so, the caller must
// call Leave.
func (r *Room) Enter() bool {
	if r.n.Add(1) <= r.max {
		return true
	}
	r.n.Add(-1)
	r.refused.Add(1)
	return false
}

// Refused returns how often there was no room.
func (r *Room) Refused() uint64 { return r.refused.Load() }

// Max returns the bound; at most 0 if no request waits.
func (r *Room) Max() int { return int(r.max) }

// Leave ends an Enter that returned true.
func (r *Room) Leave() { r.n.Add(-1) }

// Len returns the number of requests that wait.
func (r *Room) Len() int { return int(r.n.Load()) }

// Arrival returns a number that increases with each call. Queues order requests
// by it.
func (r *Room) Arrival() uint64 { return r.arrivals.Add(1) }

// Close rejects requests that would have to wait from now on.
func (r *Room) Close() { r.closed.Store(true) }

// Closed reports whether Close was called.
func (r *Room) Closed() bool { return r.closed.Load() }

// SetOwned makes owned decide in which slots requests may wait, or get leases.
func (r *Room) SetOwned(owned func(slot uint16) error) { r.owned.Store(&owned) }

// Owned returns the error of a request in a slot that another node owns.
func (r *Room) Owned(slot uint16) error {
	if owned := r.owned.Load(); owned != nil {
		return (*owned)(slot)
	}
	return nil
}

// Bounds are the upper bounds of the buckets of Times.
var Bounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
	30 * time.Second, time.Minute,
}

// Times is a histogram of waiting times. Counts[i] is the number of waits longer
// than Bounds[i-1] and at most Bounds[i]; the last count has no upper bound.
type Times struct {
	Counts [len(Bounds) + 1]uint64
	Sum    time.Duration
}

// A Histogram collects Times. It is safe for concurrent use.
type Histogram struct {
	counts [len(Bounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

// Add counts one wait.
func (h *Histogram) Add(d time.Duration) {
	i, _ := slices.BinarySearch(Bounds[:], d)
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Load returns the current values.
func (h *Histogram) Load() (t Times) {
	for i := range h.counts {
		t.Counts[i] = h.counts[i].Load()
	}
	t.Sum = time.Duration(h.sum.Load())
	return t
}

// Stats are the counts of the requests that wait, or have waited, under one rule. They are safe for concurrent use.
type Stats struct {
	Waiting   atomic.Int64
	Cancelled atomic.Uint64 // the caller left, or its time ran out
	Times     Histogram
}

// Refusals counts refusals by reason. It is safe for concurrent use.
type Refusals [int(weir.Recovering) + 1]atomic.Uint64

// Add counts a refusal. Reasons of a newer server, which are unknown here, do not count.
func (r *Refusals) Add(why weir.Reason) {
	if int(why) < len(r) {
		r[why].Add(1)
	}
}

// Load returns the counts that are not zero.
func (r *Refusals) Load() map[weir.Reason]uint64 {
	counts := map[weir.Reason]uint64{}
	for why := range r {
		if n := r[why].Load(); n > 0 {
			counts[weir.Reason(why)] = n
		}
	}
	return counts
}
