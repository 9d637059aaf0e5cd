package gate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// Whatever the rules and the events are, the invariants hold.
func FuzzRules(f *testing.F) {
	f.Add([]byte("who comes first, who goes first, and who is told"), uint64(1))
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		events := make([]byte, 300)
		for i := range events {
			events[i] = byte(rng.Uint32())
		}
		f.Add(events, rng.Uint64())
	}
	f.Fuzz(func(t *testing.T, events []byte, rules uint64) {
		c := crowd{t: t, waiting: map[int]guest{}, tickets: map[int]gate.Ticket[int]{}}
		c.configure(rules)
		c.g = gate.New[int](limit.Fixed(c.limit), c.cfg)
		for i := 0; i+1 < len(events); i += 2 {
			c.event(int(events[i]%16), int(events[i]/16)+16*int(events[i+1]))
			c.settle()
		}
		c.end()
	})
}

type guest struct {
	id    int
	r     gate.Request
	since time.Duration
}

// A crowd lives with a gate and knows what must be true of it.
type crowd struct {
	t       *testing.T
	g       *gate.Gate[int]
	cfg     gate.Config
	limit   int
	units   int // the largest request
	now     time.Duration
	arrived int
	waiting map[int]guest
	tickets map[int]gate.Ticket[int]
	inside  []guest // since is when it was let in
	left    int     // callers
}

func (c *crowd) configure(rules uint64) {
	pick := func(n uint64) int { x := rules % n; rules /= n; return int(x) }
	c.limit = 1 + pick(12)
	c.units = []int{1, 1, 3, 12}[pick(4)]
	c.cfg = gate.Config{
		Queue: pick(20), MaxWait: seconds(pick(3) * 15), Discipline: []gate.Discipline{"", gate.FIFO, gate.CoDel}[pick(3)],
		Target: seconds(1), Interval: seconds(1 + pick(10)),
		Aging:      seconds(pick(2) * 7),
		FairQueues: []int{0, 3, 16}[pick(3)],
	}
	c.cfg.Depth, c.cfg.MinWait = float64(pick(3))/2, seconds(pick(2)*5)
	if pick(2) == 0 {
		c.cfg.Partitions = []float64{0.5, 0.25}
	}
}

func (c *crowd) event(kind, x int) {
	switch kind {
	case 0, 1, 2, 3, 4, 5:
		r := gate.Request{N: 1 + x%c.units, Tenant: uint64(x/3) % 4, Priority: weir.Priority(x/7%3 - 1),
			Partition: x / 11 % 3, Weight: x / 13 % 3}
		if kind == 5 {
			r.Deadline = c.now + seconds(1+x%15)
		}
		c.arrive(r)
	case 6, 7, 8, 9:
		if len(c.inside) > 0 {
			i := x % len(c.inside)
			in := c.inside[i]
			c.inside = append(c.inside[:i], c.inside[i+1:]...)
			o := weir.Outcome(x / 8 % int(outcome.Count))
			if o != weir.Success {
				c.left++ // at most
			}
			c.g.Leave(limit.Sample{Start: in.since, End: c.now, Outcome: o}, in.r)
		}
	case 10:
		for id := range c.waiting {
			if !c.g.Cancel(c.now, c.tickets[id]) {
				c.t.Fatalf("%d waits, but cannot cancel", id)
			}
			delete(c.waiting, id)
			c.left++
			break
		}
	case 11, 12:
		c.now += seconds(x % 6)
	case 13:
		if at, ok := c.g.Deadline(); ok {
			c.now = at
		}
	case 14:
		c.limit = x % 13
		c.g.SetAlgorithm(limit.Fixed(c.limit))
	case 15:
		if x%16 == 0 { // now and then
			units := c.units
			c.configure(uint64(x) * 0x9e3779b97f4a7c15)
			c.units = max(units, c.units)
			c.g.SetAlgorithm(limit.Fixed(c.limit))
			c.g.Configure(c.cfg)
		}
	}
}

func (c *crowd) arrive(r gate.Request) {
	in := guest{c.arrived, r, c.now}
	c.arrived++
	switch v, _ := c.g.Enter(r); v {
	case gate.Admit:
		c.admitted(in)
	case gate.Wait:
		ticket, why := c.g.Join(c.now, r, in.id)
		if why == 0 {
			c.waiting[in.id], c.tickets[in.id] = in, ticket
		}
	}
}

func (c *crowd) admitted(in guest) {
	if c.g.Inflight() > c.g.Limit() {
		c.t.Fatalf("%d in flight at an admission: limit %d", c.g.Inflight(), c.g.Limit())
	}
	in.since = c.now
	c.inside = append(c.inside, in)
}

func (c *crowd) settle() {
	c.t.Helper()
	for {
		if len(c.waiting) != c.g.Waiting() {
			c.t.Fatalf("%d wait: want %d", c.g.Waiting(), len(c.waiting))
		}
		a, ok := c.g.Next(c.now)
		if !ok {
			break
		}
		in, waits := c.waiting[a.Waiter]
		if !waits {
			c.t.Fatalf("%+v: nobody", a)
		}
		delete(c.waiting, a.Waiter)
		c.judge(in, a.Reason)
	}
	c.check()
}

func (c *crowd) judge(in guest, why weir.Reason) {
	patient := c.cfg.MaxWait == 0 || c.now-in.since < c.cfg.MaxWait
	switch why {
	case 0:
		c.admitted(in)
		if !patient {
			c.t.Fatalf("%+v is let in at %v: want it overdue", in, c.now)
		}
		for _, other := range c.waiting {
			if c.ordered() && other.id < in.id && other.r == in.r && other.r.Deadline == 0 {
				c.t.Fatalf("%+v overtakes its equal %+v", in, other)
			}
		}
	case weir.Overdue:
		if patient && (c.cfg.Discipline == gate.FIFO || c.cfg.Discipline == gate.CoDel && len(c.waiting) == 0) {
			c.t.Fatalf("%+v is overdue at %v, with %d behind it", in, c.now, len(c.waiting))
		}
	case weir.TooLate:
		if in.r.Deadline == 0 && c.left < 3 {
			c.t.Fatalf("%+v is too late, and %d callers have left", in, c.left)
		}
	}
}

// ordered reports whether equals go in order: newest first is not, nor are
// tenants that have to share queues.
func (c *crowd) ordered() bool {
	return c.cfg.Discipline != gate.AdaptiveLIFO && c.cfg.FairQueues != 3
}

func (c *crowd) check() {
	c.t.Helper()
	s := c.g.Stats()
	units := s.Held
	for _, in := range c.inside {
		units += in.r.N
	}
	sum := s.Admitted + s.OverLimit + s.QueueFull + s.Overdue + s.TooLate + s.Evicted + s.Cancelled + uint64(s.Waiting)
	left := s.Success + s.Dropped + s.Ignored
	if s.Inflight != units || sum != uint64(c.arrived) || left+uint64(len(c.inside)) != s.Admitted {
		c.t.Fatalf("%+v: want %d units of %d requests in flight, %d in all", s, units, len(c.inside), c.arrived)
	}
	if at, ok := c.g.Deadline(); ok && at <= c.now {
		c.t.Fatalf("deadline %v, and it is %v: Next has been asked", at, c.now)
	}
	if c.units == 1 && s.Waiting > 0 && s.Inflight < s.Limit {
		c.t.Fatalf("%+v: units are free, and requests for one wait", s)
	}
	for _, in := range c.waiting {
		if c.cfg.MaxWait > 0 && c.now-in.since >= c.cfg.MaxWait {
			c.t.Fatalf("%+v waits at %v: want it overdue", in, c.now)
		}
	}
}

// end lets all work finish: then no waiter may be left.
func (c *crowd) end() {
	c.t.Helper()
	for len(c.inside) > 0 || len(c.waiting) > 0 {
		if len(c.inside) == 0 {
			at, ok := c.g.Deadline() // abandoned work is held yet
			if !ok {
				c.t.Fatalf("%+v wait for nothing: %+v", c.waiting, c.g.Stats())
			}
			c.now = at
		} else {
			c.now += seconds(1)
			c.event(6, 0)
		}
		c.settle()
	}
}
