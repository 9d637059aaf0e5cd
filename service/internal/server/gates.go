package server

import (
	"cmp"
	"container/list"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/config"
)

// gates are the limits of one rule's keys, while they are in use.
type gates struct {
	server *Server
	per    config.Per
	order  uint64 // of asking: a request holds only units of lower ones while it waits

	held     atomic.Int64 // units
	waiting  atomic.Int64 // requests
	limit    atomic.Int64 // units of all doors together
	granted  atomic.Uint64
	returned atomic.Uint64
	expired  atomic.Uint64
	renewed  atomic.Uint64
	left     atomic.Uint64 // while they waited, or their time ran out
	shadowed atomic.Uint64
	refused  [reasons]atomic.Uint64
	waits    waits

	mu      sync.Mutex // guards what follows
	terms   *config.Concurrency
	over    bool // nobody leases under this rule any more
	doors   map[string]*door
	idle    list.List // of doors that nobody uses, the last used first
	waiters map[*lessee]struct{}
}

// maxIdle bounds, for each rule, the limits that are kept when nobody uses them:
// for what they have learnt, or because work that was abandoned may be going on.
const maxIdle = 1024

// A door is the limit of one bucket.
type door struct {
	gates   *gates
	bucket  string
	limiter *inflight.Limiter

	// Guarded by gates.mu.
	users  int           // who holds a lease, or asks for one
	queued int           // units that are waited for
	lasts  time.Duration // how long leases are held, smoothed; 0 = not known
	idle   *list.Element // nil if it is in use
}

func newGates(s *Server, r *config.Rule) *gates {
	return &gates{server: s, per: r.Per, order: s.leases.gates.Add(1), terms: r.Concurrency, doors: map[string]*door{}, waiters: map[*lessee]struct{}{}}
}

// enter returns the door of a bucket, for somebody who has to leave it; nil if the
// rules have changed so that there is none.
func (g *gates) enter(bucket string) *door {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || g.terms == nil {
		return nil
	}
	d := g.doors[bucket]
	if d == nil {
		d = g.openLocked(bucket, 0)
	}
	if d.idle != nil {
		g.idle.Remove(d.idle)
		d.idle = nil
	}
	d.users++
	return d
}

// openLocked makes a door. If it is to find its limit, it begins with first.
func (g *gates) openLocked(bucket string, first int) *door {
	queue, maxWait := queueOf(g.terms)
	limiter, err := inflight.New(inflight.Config{
		Algorithm: algorithm(g.terms, first), Queue: queue, MaxWait: maxWait, Discipline: inflight.FIFO,
		Trace: func(e inflight.Event) { g.limit.Add(int64(e.Limit - e.Was)) },
	})
	if err != nil {
		panic("server: " + err.Error()) // there is nothing in it that could be wrong
	}
	d := &door{gates: g, bucket: strings.Clone(bucket), limiter: limiter}
	g.limit.Add(int64(limiter.Stats().Limit))
	g.doors[d.bucket] = d
	return d
}

// leave is the end of an enter; took is how long a lease was held, 0 if it was
// not.
func (g *gates) leave(d *door, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case took <= 0:
	case d.lasts == 0:
		d.lasts = took
	default: // of a single slow one, twice what is known counts at most
		d.lasts += (min(took, 2*d.lasts) - d.lasts) / 8
	}
	if d.users--; d.users > 0 {
		return
	}
	if g.terms.Limit != config.Auto && d.limiter.Stats().Inflight == 0 {
		g.closeLocked(d)
		return
	}
	g.restLocked(d)
}

// restLocked keeps a door that nobody uses, instead of that which was used least
// recently.
func (g *gates) restLocked(d *door) {
	d.idle = g.idle.PushFront(d)
	if g.idle.Len() > maxIdle {
		g.closeLocked(g.idle.Remove(g.idle.Back()).(*door))
	}
}

func (g *gates) closeLocked(d *door) {
	delete(g.doors, d.bucket)
	g.limit.Add(-int64(d.limiter.Stats().Limit))
}

// algorithm is what sets the limit. If it finds it, it begins with first, or with
// its own choice if that is 0.
func algorithm(c *config.Concurrency, first int) limit.Algorithm {
	if c.Limit != config.Auto {
		return limit.Fixed(c.Limit)
	}
	if first > 0 {
		first = min(max(first, c.Min), most(c))
	}
	auto, err := limit.NewAuto(limit.Config{Initial: first, Min: c.Min, Max: most(c)})
	if err != nil {
		panic("server: " + err.Error()) // its bounds are in order
	}
	return auto
}

// most returns the highest limit there can be.
func most(c *config.Concurrency) int {
	if c.Limit != config.Auto {
		return int(c.Limit)
	}
	return cmp.Or(c.Max, 1000)
}

// queueOf returns the bounds of the queue, as package inflight says them.
func queueOf(c *config.Concurrency) (queue int, maxWait time.Duration) {
	queue = config.DefaultQueue
	if c.Queue != nil {
		queue = *c.Queue
	}
	return cmp.Or(queue, -1), cmp.Or(c.MaxWait, -1)
}

// update puts the doors under other terms; nil if the rule does not lease any
// more. Holders keep what they have. Who holds units of other rules while it waits
// is asked again: those may not count for it any more.
func (g *gates) update(c *config.Concurrency) {
	if c == nil {
		g.dismiss(errMoved)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.terms
	g.terms, g.over = c, false
	for w := range g.waiters {
		if w.holds {
			w.end(errMoved)
		}
	}
	if reflect.DeepEqual(was, c) {
		return
	}
	for _, d := range g.doors { // there are none without a was
		if was.Limit != c.Limit || was.Min != c.Min || was.Max != c.Max {
			d.limiter.SetAlgorithm(algorithm(c, d.limiter.Stats().Limit))
		}
		d.limiter.SetQueue(queueOf(c))
	}
}

// dismiss ends all waits. If the rules have moved, it ends the leasing.
func (g *gates) dismiss(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = g.over || why == errMoved
	for w := range g.waiters {
		w.end(why)
	}
}

// refuse counts a refusal.
func (g *gates) refuse(why weir.Reason, retryAfter time.Duration) error {
	g.refused[why].Add(1)
	return weir.Reject(why, retryAfter)
}
