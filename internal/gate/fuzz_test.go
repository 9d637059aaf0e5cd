package gate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// oracle is a gate without cleverness: slices, and everything by search.
type oracle struct {
	limit, queue, wait int
	halves             int   // of a waiter for each unit of the limit; 0: no matter how many
	inflight           []int // units of each admitted request
	waiting            []request
	claim              bool // the first of waiting has the claim
	kept, freed, seen  int
}

type request struct{ id, n, since int }

func (o *oracle) units() (sum int) {
	for _, n := range o.inflight {
		sum += n
	}
	return sum
}

func (o *oracle) room() int {
	if o.halves == 0 {
		return o.queue
	}
	return min(max((o.halves*o.limit+1)/2, 1), o.queue)
}

func (o *oracle) enter(r request, mayWait bool) string {
	switch {
	case len(o.waiting) == 0 && o.units()+r.n <= o.limit:
		o.inflight = append(o.inflight, r.n)
		return "admit"
	case r.n > o.limit || o.queue == 0 || !mayWait:
		return "over_limit"
	case len(o.waiting) >= o.room():
		return "queue_full"
	}
	o.waiting = append(o.waiting, r)
	return "wait"
}

// next returns the request answered and how, or id -1.
func (o *oracle) next(now int) (id int, how string) {
	free := o.limit - o.units()
	o.freed += max(free-o.seen, 0)
	o.seen = free
	oldest := 0
	for i, r := range o.waiting {
		if r.id < o.waiting[oldest].id {
			oldest = i
		}
	}
	for i, r := range o.waiting {
		room := free
		if i > 0 { // behind the claim: of what was freed, half is for others
			room = free - min(o.waiting[0].n, o.kept+(o.freed+1)/2)
		}
		switch {
		case o.wait > 0 && now >= o.waiting[oldest].since+o.wait:
			return o.answer(oldest, "overdue")
		case i > 0 && room <= 0:
			return -1, ""
		case r.n > o.limit:
			return o.answer(i, "over_limit")
		case r.n <= room:
			o.inflight = append(o.inflight, r.n)
			o.seen -= r.n
			return o.answer(i, "admit")
		case i > 0 || free <= 0:
			return -1, ""
		case !o.claim:
			o.claim, o.kept, o.freed = true, free, 0
			return -1, ""
		}
	}
	return -1, ""
}

func (o *oracle) answer(i int, how string) (int, string) {
	id := o.waiting[i].id
	o.remove(i)
	return id, how
}

func (o *oracle) remove(i int) {
	o.waiting = append(o.waiting[:i:i], o.waiting[i+1:]...)
	if i == 0 {
		o.claim = false
	}
}

// Random events, and after each one the gate and the oracle agree.
func FuzzGate(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 5, 2, 3, 4, 0, 9, 17, 33}, uint8(2), uint8(3), uint8(4))
	f.Add([]byte("arrivals, departures, and what else there is"), uint8(3), uint8(2), uint8(0))
	f.Add([]byte("10, 20, 30: one comes, one goes, one never had the patience"), uint8(2), uint8(6), uint8(3))
	for seed := range uint64(300) { // so that each run of the tests is a little fuzzing
		rng := rand.New(rand.NewPCG(seed, 0))
		events := make([]byte, 200)
		for i := range events {
			events[i] = byte(rng.Uint32())
		}
		f.Add(events, uint8(rng.Uint32()), uint8(rng.Uint32()), uint8(rng.Uint32()))
	}
	f.Fuzz(func(t *testing.T, events []byte, most, queue, wait uint8) {
		d := duel{
			t: t, o: oracle{limit: int(most % 12), queue: int(queue % 8), wait: int(wait % 8), halves: int(wait / 64)},
			tickets: map[int]gate.Ticket[int]{},
		}
		d.g = gate.New[int](limit.Fixed(d.o.limit), d.config())
		d.settle() // so that it knows the time
		for _, e := range events {
			d.event(int(e%10), int(e/10))
			d.settle()
			d.check()
		}
	})
}

type duel struct {
	t       *testing.T
	g       *gate.Gate[int]
	o       oracle
	clock   int // which may go backwards
	now     int // the latest that it was
	arrived int
	tickets map[int]gate.Ticket[int] // by id
}

func (d *duel) config() gate.Config {
	return gate.Config{Queue: d.o.queue, Depth: float64(d.o.halves) / 2, MaxWait: time.Duration(d.o.wait) * time.Second}
}

func (d *duel) event(kind, x int) {
	switch kind {
	case 0, 1, 2:
		d.arrive(x%6, true)
	case 8:
		d.arrive(x%6, false)
	case 3:
		if len(d.o.inflight) > 0 {
			i := x % len(d.o.inflight)
			d.g.Leave(limit.Sample{Outcome: weir.Outcome(x % 6)}, gate.Request{N: d.o.inflight[i]})
			d.o.inflight = append(d.o.inflight[:i:i], d.o.inflight[i+1:]...)
		}
	case 4:
		if d.arrived > 0 {
			d.cancel(x % d.arrived)
		}
	case 5:
		d.clock = d.now + x%8 - 2
		d.now = max(d.now, d.clock)
	case 6:
		d.o.limit = x % 12
		d.g.SetAlgorithm(limit.Fixed(d.o.limit))
	case 7:
		d.o.queue, d.o.wait, d.o.halves = x%4, x/4, x%3
		d.g.Configure(d.config())
	case 9:
		if len(d.o.inflight) > 0 {
			held := &d.o.inflight[x%len(d.o.inflight)]
			d.g.Adjust(gate.Request{N: *held}, x/4)
			*held = x / 4
		}
	}
}

func (d *duel) told() time.Duration { return time.Duration(d.clock) * time.Second }

func (d *duel) arrive(n int, mayWait bool) {
	r := request{d.arrived, n, d.now}
	d.arrived++
	got := "admit"
	switch v, why := d.g.Enter(gate.Request{N: n, NoWait: !mayWait}); v {
	case gate.Wait:
		got = "wait"
		d.tickets[r.id], _ = d.g.Join(d.told(), gate.Request{N: n, Deadline: endless}, r.id)
	case gate.Refuse:
		got = why.String()
	}
	if want := d.o.enter(r, mayWait); got != want {
		d.t.Fatalf("%+v: %s: want %s", r, got, want)
	}
}

func (d *duel) cancel(id int) {
	want := false
	for i, r := range d.o.waiting {
		if r.id == id {
			d.o.remove(i)
			want = true
			break
		}
	}
	if got := d.g.Cancel(time.Duration(d.now)*time.Second, d.tickets[id]); got != want {
		d.t.Fatalf("cancel %d: %v: want %v", id, got, want)
	}
}

// settle takes all answers, and compares them in order: first in, first out.
func (d *duel) settle() {
	now := time.Duration(d.now) * time.Second
	for {
		deadline, timed := d.g.Deadline()
		a, ok := d.g.Next(d.told())
		id, how := d.o.next(d.now)
		if ok != (id >= 0) {
			d.t.Fatalf("next: %+v, %v: want %d, %s", a, ok, id, how)
		}
		if overdue := a.Reason == weir.Overdue; overdue != (timed && deadline <= now) {
			d.t.Fatalf("at %v: %+v, though the deadline was %v, %v", now, a, deadline, timed)
		}
		if !ok {
			return
		}
		got := a.Reason.String()
		if a.Reason == 0 {
			got = "admit"
			if d.g.Inflight() > d.g.Limit() {
				d.t.Fatalf("%d in flight at an admission: limit %d", d.g.Inflight(), d.g.Limit())
			}
		}
		if a.Waiter != id || got != how {
			d.t.Fatalf("answer %d %s: want %d %s", a.Waiter, got, id, how)
		}
	}
}

func (d *duel) check() {
	s := d.g.Stats()
	if s.Inflight != d.o.units() || s.Waiting != len(d.o.waiting) || s.Limit != d.o.limit {
		d.t.Fatalf("%+v: want %+v", s, d.o)
	}
	if left := s.Success + s.Dropped + s.Ignored; left+uint64(len(d.o.inflight)) != s.Admitted {
		d.t.Fatalf("%+v: %d have left and %d are in flight", s, left, len(d.o.inflight))
	}
	if sum := s.Admitted + s.OverLimit + s.QueueFull + s.Overdue + s.TooLate + s.Evicted + s.Cancelled + uint64(s.Waiting); sum != uint64(d.arrived) {
		d.t.Fatalf("%+v: %d requests: want %d", s, sum, d.arrived)
	}
}
