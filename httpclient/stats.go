package httpclient

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outgoing"
)

// Stats are the state of a Transport, and its counts since New.
type Stats struct {
	Hosts   int // hosts and keys in memory
	Waiting int // requests that wait because of pacing

	Requests  uint64 // calls of RoundTrip
	Sent      uint64 // attempts given to Base
	Retried   uint64 // attempts given to Base after the first
	Exhausted uint64 // retries that the budget refused

	// Refused counts attempts that were not sent: "paced" if the wait that the
	// server asked for, or its queue, was too long, "throttled" by the adaptive
	// throttle, "limited" by a limiter of PerHost. All three are present, and the
	// map belongs to the caller.
	Refused map[string]uint64

	Evicted uint64 // hosts forgotten to make room for others
	Shared  uint64 // requests to hosts beyond MaxHosts

	// Waits counts attempts that waited because of pacing, whatever the result,
	// by the length of the wait: Waits[i] are longer than WaitBounds[i-1] and at
	// most WaitBounds[i].
	Waits  [14]uint64
	Waited time.Duration // the sum of these waits
}

// WaitBounds are the upper bounds, inclusive, of the elements of Stats.Waits; the
// last element has none.
var WaitBounds = [13]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// counters are the counts of Stats that the lock of the Transport does not guard.
type counters struct {
	requests, sent, retried, exhausted atomic.Uint64
	refused                            [outgoing.Refusers]atomic.Uint64
	shared                             atomic.Uint64
	waits                              [len(WaitBounds) + 1]atomic.Uint64
	waited                             atomic.Int64
}

// addWait counts a wait.
func (c *counters) addWait(d time.Duration) {
	i, _ := slices.BinarySearch(WaitBounds[:], d)
	c.waits[i].Add(1)
	c.waited.Add(int64(d))
}

// Stats returns the state and the counts. They are read one after the other.
func (t *Transport) Stats() Stats {
	c := &t.counts
	s := Stats{
		Requests: c.requests.Load(), Sent: c.sent.Load(), Retried: c.retried.Load(), Exhausted: c.exhausted.Load(),
		Refused: map[string]uint64{
			"paced":     c.refused[outgoing.ByQueue].Load(),
			"throttled": c.refused[outgoing.ByThrottle].Load(),
			"limited":   c.refused[outgoing.ByLimiter].Load(),
		},
		Shared: c.shared.Load(), Waited: time.Duration(c.waited.Load()),
	}
	for i := range c.waits {
		s.Waits[i] = c.waits[i].Load()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Hosts, s.Evicted = t.hosts.order.Len(), t.hosts.evicted
	for e := t.hosts.order.Front(); e != nil; e = e.Next() {
		if q := e.Value.(*host).queue; q != nil {
			s.Waiting += q.Waiting()
		}
	}
	return s
}

// admitted counts the end of an admission: the wait in the queue, which is negative if
// there was none, and the refusal.
func (t *Transport) admitted(h *host, waited time.Duration, by outgoing.Refuser, err error) {
	refused := errors.Is(err, weir.ErrRejected)
	if waited >= 0 {
		t.counts.addWait(waited)
	}
	if refused {
		t.counts.refused[by].Add(1)
	}
	if t.cfg.Log == nil || waited < 0 && !refused {
		return
	}
	h.notes.mu.Lock()
	n := &h.notes.note
	if refused {
		n.refused[by]++
	} else {
		n.held++
	}
	n.longest = max(n.longest, waited)
	logged, now := *n, time.Now()
	due := now.Sub(h.notes.last) >= logEvery
	if due {
		*n, h.notes.last = note{}, now
	}
	h.notes.mu.Unlock()
	if due {
		t.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "requests held back", slog.String("host", h.name),
			slog.Int("held", logged.held), slog.Duration("longest", logged.longest),
			slog.Int("rejected", logged.refused[outgoing.ByQueue]),
			slog.Int("throttled", logged.refused[outgoing.ByThrottle]),
			slog.Int("limited", logged.refused[outgoing.ByLimiter]))
	}
}

// logEvery is the least time between lines about one host.
const logEvery = time.Minute

// notes are the events at a host that are not logged yet.
type notes struct {
	mu   sync.Mutex // guards what follows
	last time.Time  // when the last line was logged
	note note       // since then
}

// A note is the content of a log line: the number of attempts that waited and were
// not refused, and the number of refused attempts.
type note struct {
	held    int
	refused [outgoing.Refusers]int
	longest time.Duration
}
