package inflight_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// A story is a load that the shell and the core both live through.
type story struct {
	requests []request
	limits   []int // the limit changes to limits[i] at (i+1) · limitEvery
}

type request struct {
	id       int
	at       time.Duration // arrives
	n        int           // units
	work     time.Duration // once admitted
	patience time.Duration // before it cancels
	succeeds bool
}

// A verdict is the result of a request, and its instant.
type verdict struct {
	what string
	at   time.Duration
}

const (
	limitEvery = 50*time.Millisecond + 7*time.Nanosecond
	maxWait    = 20*time.Millisecond + 11*time.Nanosecond
	queue      = 6
	depth      = 1.2
)

// tell makes up a story. Every duration is a whole number of microseconds plus
// some nanoseconds that belong to its kind or its request, so that no two events
// fall on the same instant, where their order would be open: inCore checks it.
func tell(seed uint64) story {
	rng := rand.New(rand.NewPCG(seed, 0))
	var s story
	at := time.Duration(0)
	for id := range 400 {
		at += time.Duration(rng.ExpFloat64()*1000) * time.Microsecond
		s.requests = append(s.requests, request{
			id: id, at: at + time.Duration(id), n: 1 + rng.IntN(3),
			work:     time.Duration(1+rng.IntN(10000))*time.Microsecond + 401*time.Nanosecond,
			patience: time.Duration(5+rng.IntN(40))*time.Millisecond + 503*time.Nanosecond,
			succeeds: rng.IntN(10) > 0,
		})
	}
	for range 10 {
		s.limits = append(s.limits, rng.IntN(8))
	}
	return s
}

// request describes c to the gate: its context ends with its patience.
func (r request) request() gate.Request {
	return gate.Request{N: r.n, Deadline: r.at + r.patience}
}

func (r request) outcome() weir.Outcome {
	if r.succeeds {
		return weir.Success
	}
	return weir.Dropped
}

// inShell lives through the story in a Limiter, in virtual time.
func inShell(t *testing.T, s story) (verdicts []verdict, limits []int) {
	verdicts = make([]verdict, len(s.requests))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		l, err := inflight.New(inflight.Config{Algorithm: newAIMD(t), Queue: queue, Depth: depth, MaxWait: maxWait,
			Trace: func(e inflight.Event) {
				mu.Lock()
				defer mu.Unlock()
				limits = append(limits, e.Limit)
			}})
		testrig.Must(t, err)
		var all sync.WaitGroup
		for _, r := range s.requests {
			all.Go(func() {
				time.Sleep(r.at)
				ctx, cancel := context.WithTimeout(context.Background(), r.patience)
				defer cancel()
				p, err := l.Acquire(ctx, r.n)
				verdicts[r.id] = verdict{what(err), time.Since(began)}
				if err == nil {
					time.Sleep(r.work)
					p.Release(r.outcome())
				}
			})
		}
		all.Go(func() {
			for _, n := range s.limits {
				time.Sleep(limitEvery)
				l.SetAlgorithm(limitOf(t, n))
			}
		})
		all.Wait()
	})
	return verdicts, limits
}

func newAIMD(t *testing.T) limit.Algorithm {
	a, err := limit.NewAIMD(limit.Config{Initial: 4, Max: 12}, 0)
	testrig.Must(t, err)
	return a
}

// limitOf is a fixed limit or, for 0, one that finds itself.
func limitOf(t *testing.T, n int) limit.Algorithm {
	if n == 0 {
		return newAIMD(t)
	}
	return limit.Fixed(n)
}

// An event of the story as the core lives it.
type event struct {
	at   time.Duration
	kind string // arrive, leave, cancel, limit
	id   int    // of the request, or of the limit
}

// core lives through the story in a Gate, by a list of events.
type core struct {
	story    story
	g        *gate.Gate[int]
	events   []event
	last     time.Duration // instant
	verdicts []verdict
	limits   []int
	tickets  map[int]gate.Ticket[int]
	samples  map[int]limit.Sample // begun
}

func inCore(t *testing.T, s story) ([]verdict, []int) {
	c := core{
		story: s, g: gate.New[int](newAIMD(t), gate.Config{Queue: queue, Depth: depth, MaxWait: maxWait}),
		last: -1, verdicts: make([]verdict, len(s.requests)),
		tickets: map[int]gate.Ticket[int]{}, samples: map[int]limit.Sample{},
	}
	for _, r := range s.requests {
		c.add(event{r.at, "arrive", r.id})
	}
	for i := range s.limits {
		c.add(event{time.Duration(i+1) * limitEvery, "limit", i})
	}
	for len(c.events) > 0 {
		i := 0
		for j := range c.events {
			if c.events[j].at < c.events[i].at {
				i = j
			}
		}
		e := c.events[i]
		if at, ok := c.g.Deadline(); ok && at <= e.at {
			c.alone(t, at)
			c.answers(at)
			continue
		}
		c.events = slices.Delete(c.events, i, i+1)
		c.alone(t, e.at)
		c.live(t, e)
		c.answers(e.at)
	}
	return c.verdicts, c.limits
}

func (c *core) add(e event) { c.events = append(c.events, e) }

// alone fails if something has happened at this instant before.
func (c *core) alone(t *testing.T, at time.Duration) {
	if at == c.last {
		t.Fatalf("two events at %v: their order is open, choose another seed", at)
	}
	c.last = at
}

func (c *core) live(t *testing.T, e event) {
	switch e.kind {
	case "arrive":
		r := c.story.requests[e.id]
		switch v, why := c.g.Enter(r.request()); v {
		case gate.Admit:
			c.admitted(e.at, r)
		case gate.Refuse:
			c.verdicts[r.id] = verdict{why.String(), e.at}
		case gate.Wait:
			ticket, why := c.g.Join(e.at, r.request(), r.id)
			if why != 0 {
				c.verdicts[r.id] = verdict{why.String(), e.at}
				break
			}
			c.tickets[r.id] = ticket
			c.add(event{e.at + r.patience, "cancel", r.id})
		}
	case "leave":
		s := c.samples[e.id]
		s.End = e.at
		if c.g.Leave(s, gate.Request{N: c.story.requests[e.id].n}) != limit.Kept {
			c.limits = append(c.limits, c.g.Limit())
		}
	case "cancel":
		if c.g.Cancel(e.at, c.tickets[e.id]) {
			c.verdicts[e.id] = verdict{"cancel", e.at}
		}
	case "limit":
		c.g.SetAlgorithm(limitOf(t, c.story.limits[e.id]))
		c.limits = append(c.limits, c.g.Limit())
	}
}

func (c *core) admitted(at time.Duration, r request) {
	c.verdicts[r.id] = verdict{"admit", at}
	c.samples[r.id] = limit.Sample{Start: at, Inflight: c.g.Inflight(), Outcome: r.outcome()}
	c.add(event{at + r.work, "leave", r.id})
}

func (c *core) answers(at time.Duration) {
	for {
		a, ok := c.g.Next(at)
		if !ok {
			return
		}
		if a.Reason != 0 {
			c.verdicts[a.Waiter] = verdict{a.Reason.String(), at}
		} else {
			c.admitted(at, c.story.requests[a.Waiter])
		}
	}
}

// The shell adds a lock and a clock to the core, and nothing else: the same
// arrivals meet the same verdicts at the same instants.
func TestShellIsCore(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := tell(seed)
			shell, shellLimits := inShell(t, s)
			core, coreLimits := inCore(t, s)
			for i := range shell {
				kinds[core[i].what]++
				if shell[i] != core[i] {
					t.Fatalf("request %+v: the shell says %v, the core %v", s.requests[i], shell[i], core[i])
				}
			}
			if !slices.Equal(shellLimits, coreLimits) {
				t.Errorf("limits: the shell has %v, the core %v", shellLimits, coreLimits)
			}
		})
	}
	for _, kind := range []string{"admit", "over_limit", "queue_full", "overdue", "cancel"} {
		if kinds[kind] < 10 {
			t.Errorf("%d × %s: the stories are too tame", kinds[kind], kind)
		}
	}
}
