package sim

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

// A client is the state of a Client.
type client struct {
	cfg      *Client
	index    int32
	arrivals *pace.Arrivals     // of an open loop with a rate
	calls    uint64             // so far
	budget   *adaptive.Budget   // nil: none
	throttle *adaptive.Throttle // nil: none
	tenants  []uint64           // hashes
	shares   []float64
	classes  []int32
	sum      float64 // of shares
	line     queue[patience]
}

// patience is the time-out of the current attempt of a call. Time-outs that come in
// order, as constant ones do, wait in a queue of which only the head is on the agenda.
// Most are stale when their time comes.
type patience struct {
	at  time.Duration
	who int32
	gen uint32
}

// A call is a request of a user, with all its attempts.
type call struct {
	slot
	attempt
	intended time.Duration
	tried    time.Duration // when the attempt began
	timeout  time.Duration // of an attempt; 0: none
	job      *job          // of the attempt; nil between attempts
}

// An attempt holds the fields that a call and its jobs share.
type attempt struct {
	client, tenant, class int32
	try                   int32 // attempts before this one
	fails                 bool  // after its work at the first layer
	id                    uint64
	work                  time.Duration // at the first layer; 0: it is drawn
	deadline              time.Duration // when the caller leaves
}

// init makes the state of a client; Validate has found its configuration valid.
func (c *client) init(s *Sim, index int32) {
	c.cfg, c.index = &s.scenario.Clients[index], index
	if cfg := c.cfg.Retry.Budget; cfg != nil {
		c.budget, _ = adaptive.NewBudget(*cfg)
	}
	if cfg := c.cfg.Throttle; cfg != nil {
		c.throttle, _ = adaptive.New(*cfg)
	}
	for _, name := range c.cfg.tenants() {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		c.tenants = append(c.tenants, h.Sum64())
	}
	for _, share := range c.cfg.Mix {
		c.sum += share.Share
		c.shares = append(c.shares, c.sum)
		c.classes = append(c.classes, int32(slices.Index(s.classes, share.Class)))
	}
	if c.cfg.Users > 0 {
		for range c.cfg.Users {
			s.agenda.push(0, evUser, index, 0)
		}
		return
	}
	profile, _ := pace.Parse(c.cfg.Rate) // "" offers nothing
	if c.cfg.Arrivals == "even" {
		c.arrivals = pace.Even(profile)
	} else {
		c.arrivals = pace.Poisson(profile, rand.New(rand.NewPCG(s.seed, uint64(index)+1)))
	}
	c.schedule(s)
}

// tenants returns the names of the tenants.
func (c *Client) tenants() []string {
	if c.Tenants <= 1 {
		return []string{c.Name}
	}
	names := make([]string, c.Tenants)
	for i := range names {
		names[i] = c.Name + "-" + strconv.Itoa(i+1)
	}
	return names
}

// schedule puts the next arrival on the agenda.
func (c *client) schedule(s *Sim) {
	at, ok := c.next()
	if !ok || at >= s.scenario.Duration {
		return
	}
	if b := c.cfg.Burst; b.Every > 0 {
		within := at % b.Every
		at += time.Duration(float64(within)*float64(b.For)/float64(b.Every)) - within
	}
	s.agenda.push(at, evArrive, c.index, 0)
}

// next returns the instant of the next arrival of an open loop.
func (c *client) next() (at time.Duration, ok bool) {
	all := c.cfg.Recorded
	if len(all) == 0 {
		return c.arrivals.Next()
	}
	if c.calls >= uint64(len(all)) {
		return 0, false
	}
	return all[c.calls].At, true
}

// call begins a call.
func (s *Sim) call(who int32) {
	cl := &s.clients[who]
	c := s.calls.get()
	*c = call{slot: c.slot, attempt: attempt{client: who, id: uint64(who)<<48 | cl.calls}, intended: s.now}
	if all := cl.cfg.Recorded; len(all) > 0 {
		a := &all[cl.calls]
		c.class, c.work, c.fails, c.timeout = s.class[a.Class], a.Work, a.Fails, a.Patience
		c.intended -= a.Late
	}
	cl.calls++
	if len(cl.tenants) > 1 || len(cl.shares) > 0 {
		rng := s.chance(c.id, 0, forCall)
		if n := len(cl.tenants); n > 1 {
			c.tenant = int32(rng.IntN(n))
		}
		if len(cl.shares) > 0 {
			u := rng.Float64() * cl.sum
			i := 0
			for i < len(cl.shares)-1 && u >= cl.shares[i] {
				i++
			}
			c.class = cl.classes[i]
		}
	}
	if c.timeout = cmp.Or(c.timeout, cl.cfg.Timeout); cl.cfg.TimeoutCV > 0 {
		c.timeout = cl.cfg.timeouts().Draw(s.chance(c.id, 0, forPatience))
	}
	s.meter.began(c)
	if cl.budget != nil {
		cl.budget.Request(s.now)
	}
	s.try(c)
}

// try sends a request to the first layer.
func (s *Sim) try(c *call) {
	cl := &s.clients[c.client]
	c.tried, c.deadline = s.now, never
	if c.timeout > 0 {
		c.deadline = s.now + c.timeout
	}
	if d := cl.cfg.Deadline; d > 0 {
		c.deadline = min(c.deadline, c.intended+d)
	}
	if cl.throttle != nil && !cl.throttle.Request(s.now, s.chance(c.id, c.try, forThrottle).Float64()) {
		s.answered(c, result{rejected, weir.Throttled})
		return
	}
	if c.deadline < never {
		cl.watch(s, c)
	}
	s.meter.attempts++
	s.meter.step.Attempts++
	j := s.jobs.get()
	*j = job{slot: j.slot, layer: &s.layers[0], call: c, attempt: c.attempt}
	c.job = j
	s.arrive(j)
}

func (cl *client) watch(s *Sim, c *call) {
	p := patience{c.deadline, c.index, c.gen}
	waiting := cl.line.waiting()
	if n := len(waiting); n > 0 && p.at < waiting[n-1].at {
		s.agenda.push(p.at, evTimeout, p.who, p.gen)
		return
	}
	if len(waiting) == 0 {
		s.agenda.push(p.at, evPatient, cl.index, 0)
	}
	cl.line.push(p)
}

// expire ends the attempts that have timed out, and puts the next time-out of the
// queue on the agenda.
func (cl *client) expire(s *Sim) {
	for len(cl.line.waiting()) > 0 {
		p := cl.line.waiting()[0]
		c := s.calls.at(p.who, p.gen)
		if c != nil && p.at > s.now {
			s.agenda.push(p.at, evPatient, cl.index, 0)
			return
		}
		if c != nil {
			// This may add to the queue, but does not empty it.
			s.expire(c)
		}
		cl.line.pop()
	}
}

func (s *Sim) expire(c *call) {
	s.abandon(c.job)
	s.answered(c, result{kind: timedOut})
}

// answered ends an attempt.
func (s *Sim) answered(c *call, r result) {
	c.gen++
	sent := c.job != nil
	c.job = nil
	if r.kind == rejected || r.kind == overloaded {
		s.meter.refused(s.now-c.tried, s.now)
	}
	cl := &s.clients[c.client]
	if cl.throttle != nil && sent {
		if r.kind == ok || r.kind == failed {
			cl.throttle.Accept(s.now)
		} else {
			cl.throttle.Drop(s.now)
		}
	}
	if retry := cl.cfg.Retry; r.kind != ok && int(c.try)+1 < retry.Attempts {
		u := s.chance(c.id, c.try, forBackoff).Float64()
		wait := adaptive.Backoff(retry.Backoff, cmp.Or(retry.MaxBackoff, maxTime), int(c.try), u)
		d := cl.cfg.Deadline
		if (d == 0 || s.now+wait < c.intended+d) && (cl.budget == nil || cl.budget.Retry(s.now)) {
			c.try++
			s.agenda.push(s.now+wait, evRetry, c.index, c.gen)
			return
		}
	}
	s.conclude(c, r)
}

// conclude ends a call.
func (s *Sim) conclude(c *call, r result) {
	s.meter.ended(c, r, s.now)
	if s.record != nil {
		s.record(s.trace(c, r))
	}
	if cfg := s.clients[c.client].cfg; cfg.Users > 0 {
		think := cfg.Think.Draw(s.chance(c.id, c.try, forThought))
		if r.kind != ok {
			think = max(think, cmp.Or(cfg.Pause, time.Millisecond))
		}
		// A round takes time, so that the simulated time advances.
		s.agenda.push(max(s.now+think, c.intended+1), evUser, c.client, 0)
	}
	s.calls.put(c)
}

// request returns the part of a job that a guard sees.
func (s *Sim) request(j *job) gate.Request {
	cl := &s.clients[j.client]
	r := gate.Request{
		N: max(cl.cfg.Units, 1), Priority: weir.Priority(cl.cfg.Priority), Tenant: cl.tenants[j.tenant],
		Weight: cl.cfg.Weight, Partition: cl.cfg.Partition, Route: int(j.class),
	}
	if j.deadline < never && !j.layer.cfg.Guard.Blind {
		r.Deadline = j.deadline + j.guard.epoch
	}
	return r
}
