package httpclient

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
)

// Stats are the state and the counts of a Transport.
type Stats struct {
	Hosts   int // now: of which something is remembered
	Waiting int // now: requests that wait for their turn

	Requests  uint64 // of callers
	Sent      uint64 // attempts, given to Base
	Retried   uint64 // of these, the second or later of a request
	Exhausted uint64 // retries that there was no budget for

	Paced     uint64 // attempts that waited in line for what a server has asked for, whatever came of it
	Rejected  uint64 // attempts refused since that wait would have been, or was, too long, or the line was full
	Throttled uint64 // attempts refused by the adaptive throttle
	Limited   uint64 // attempts refused by a limiter of PerHost

	Evicted uint64 // hosts forgotten for others
	Shared  uint64 // requests to hosts for which there was no place

	Waits WaitHistogram // of those Paced: how long they waited
}

// WaitBounds are the upper bounds, inclusive, of the buckets of a WaitHistogram
// but the last, which has none.
var WaitBounds = [waitBuckets - 1]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

const waitBuckets = 14

// A WaitHistogram counts waits by their length.
type WaitHistogram struct {
	Counts [waitBuckets]uint64 // in each bucket alone
	Sum    time.Duration
	Max    time.Duration
}

func (h *WaitHistogram) add(d time.Duration) {
	i := 0
	for i < len(WaitBounds) && d > WaitBounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += d
	h.Max = max(h.Max, d)
}

// counters are those of Stats that no lock guards, and its histogram.
type counters struct {
	requests, sent, retried, exhausted atomic.Uint64
	paced, rejected, throttled, unlet  atomic.Uint64
	shared                             atomic.Uint64

	mu    sync.Mutex // guards waits
	waits WaitHistogram
}

// Stats returns the state, and the counts since New.
func (t *Transport) Stats() Stats {
	c := &t.counts
	s := Stats{
		Requests: c.requests.Load(), Sent: c.sent.Load(), Retried: c.retried.Load(), Exhausted: c.exhausted.Load(),
		Paced: c.paced.Load(), Rejected: c.rejected.Load(), Throttled: c.throttled.Load(), Limited: c.unlet.Load(),
		Shared: c.shared.Load(),
	}
	c.mu.Lock()
	s.Waits = c.waits
	c.mu.Unlock()

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

// paced counts what came of a wait for a turn; negative if there was none.
func (t *Transport) paced(h *host, waited time.Duration, err error) {
	c := &t.counts
	refused := errors.Is(err, weir.ErrRejected)
	if refused {
		c.rejected.Add(1)
	}
	if waited >= 0 {
		c.paced.Add(1)
		c.mu.Lock()
		c.waits.add(waited)
		c.mu.Unlock()
	}
	switch {
	case refused:
		t.note(h, note{rejected: 1, longest: waited})
	case waited >= 0:
		t.note(h, note{held: 1, longest: waited})
	}
}

// throttled counts a refusal of the throttle, unless the context has ended.
func (t *Transport) throttled(h *host, err error) {
	if errors.Is(err, weir.ErrRejected) {
		t.counts.throttled.Add(1)
		t.note(h, note{throttled: 1})
	}
}

// limited counts a refusal of a limiter of PerHost.
func (t *Transport) limited(h *host, err error) {
	if errors.Is(err, weir.ErrRejected) {
		t.counts.unlet.Add(1)
		t.note(h, note{limited: 1})
	}
}

// A note is what a line of the log says: how many attempts were held back and
// then sent, or given up by their callers; and how many were refused, and why.
type note struct {
	held, rejected, throttled, limited int
	longest                            time.Duration
}

func (n *note) add(m note) {
	n.held += m.held
	n.rejected += m.rejected
	n.throttled += m.throttled
	n.limited += m.limited
	n.longest = max(n.longest, m.longest)
}

// logEvery is the least time between lines about one host.
const logEvery = time.Minute

// notes are what is to be logged about a host.
type notes struct {
	mu   sync.Mutex // guards what follows
	last time.Time  // of a line
	note note       // since then
}

// note logs what has come to pass at a host, if it is time to.
func (t *Transport) note(h *host, n note) {
	if t.cfg.Log == nil {
		return
	}
	if n, due := h.notes.take(n, logEvery); due {
		t.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "requests held back", slog.String("host", h.name),
			slog.Int("held", n.held), slog.Duration("longest", n.longest), slog.Int("rejected", n.rejected),
			slog.Int("throttled", n.throttled), slog.Int("limited", n.limited))
	}
}

// take adds a note to the others, and takes all if it is time for a line.
func (ns *notes) take(n note, every time.Duration) (note, bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.note.add(n)
	now := time.Now()
	if now.Sub(ns.last) < every {
		return note{}, false
	}
	n, ns.note, ns.last = ns.note, note{}, now
	return n, true
}
