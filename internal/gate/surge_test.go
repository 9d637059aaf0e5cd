package gate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// asByDefault are inflight's rules.
var asByDefault = gate.Config{
	Queue: 1000, MaxWait: 500 * time.Millisecond, Discipline: gate.AdaptiveLIFO,
	Target: 50 * time.Millisecond, Interval: time.Second,
}

// A service works on up to its limit at once, and takes 50 ms for each.
type service struct {
	g       *gate.Gate[int]
	now     time.Duration
	working []time.Duration // when each began, in order
	takes   time.Duration

	patience time.Duration // of the clients in the queue; 0: endless
	waiters  []struct {
		at     time.Duration
		ticket gate.Ticket[int]
	}
	arrived, served, refused int
	prompt                   int           // served after less than 60 ms in the queue
	slowest                  time.Duration // wait of a request that was served
}

func newService(units int) *service {
	return &service{g: gate.New[int](limit.Fixed(units), asByDefault), takes: 50 * time.Millisecond}
}

// tick moves on by a millisecond. It returns how many requests ended, served or
// refused.
func (s *service) tick() (ended int) {
	was := s.served + s.refused
	s.now += time.Millisecond
	for len(s.working) > 0 && s.now >= s.working[0]+s.takes {
		s.g.Leave(limit.Sample{Start: s.working[0], End: s.now}, gate.Request{N: 1})
		s.working = s.working[1:]
		s.served++
		s.answer()
	}
	for len(s.waiters) > 0 && s.patience > 0 && s.now-s.waiters[0].at >= s.patience {
		if s.g.Cancel(s.now, s.waiters[0].ticket) {
			s.refused++
		}
		s.waiters = s.waiters[1:]
	}
	s.answer()
	return s.served + s.refused - was
}

func (s *service) answer() {
	for a, ok := s.g.Next(s.now); ok; a, ok = s.g.Next(s.now) {
		if a.Reason != 0 {
			s.refused++
			continue
		}
		s.slowest = max(s.slowest, a.Waited)
		if a.Waited < 60*time.Millisecond {
			s.prompt++
		}
		s.working = append(s.working, s.now)
	}
}

func (s *service) arrive(n int) {
	for range n {
		s.arrived++
		switch v, _ := s.g.Enter(gate.Request{N: 1}); v {
		case gate.Admit:
			s.working = append(s.working, s.now)
		case gate.Refuse:
			s.refused++
		case gate.Wait:
			t, why := s.g.Join(s.now, gate.Request{N: 1}, 0)
			if why != 0 {
				s.refused++
			}
			s.waiters = append(s.waiters, struct {
				at     time.Duration
				ticket gate.Ticket[int]
			}{s.now, t})
			s.answer()
		}
	}
}

// run runs for so long. Clients call again as soon as they have an answer, or are
// refused.
func (s *service) run(d time.Duration) {
	s.served, s.refused, s.slowest = 0, 0, 0
	for end := s.now + d; s.now < end; {
		s.arrive(s.tick())
	}
}

// A hundred clients that wait for their answers are all served, in order, though
// the queue never gets empty: it keeps up.
func TestAQueueThatKeepsUpIsNoOverload(t *testing.T) {
	s := newService(20)
	s.arrive(100)
	s.run(time.Minute)
	if s.refused > 0 || s.served < 60*390 || s.slowest > 250*time.Millisecond {
		t.Errorf("%d served, %d refused, the slowest after %v: want all of 400/s served", s.served, s.refused, s.slowest)
	}
}

// Such clients are served again soon after a slow-down that made their waits too
// long, although refused clients call again at once.
func TestASurgeOfClientsThatComeBackEnds(t *testing.T) {
	s := newService(20)
	s.arrive(100)
	s.run(5 * time.Second)
	s.takes *= 10
	s.run(10 * time.Second)
	if s.refused == 0 {
		t.Fatal("none is refused, although the wait would be 2 s")
	}
	s.takes /= 10
	s.run(20 * time.Second) // the longest time to the next trial
	s.run(time.Minute)
	if s.refused > 0 || s.served < 60*390 {
		t.Errorf("%d served, %d refused: want all of 400/s served", s.served, s.refused)
	}
}

// A load that is too high is a surge: the newest are served soon, and trials to
// serve all in order are short and rare.
func TestTrialsOfASurgeAreCheap(t *testing.T) {
	s := newService(20)
	slow := 0
	for i := range 120_000 { // two minutes at 600/s of 400/s
		if i == 10_000 {
			s.served, s.refused = 0, 0
		}
		s.slowest = 0
		s.tick()
		if i%5 < 3 {
			s.arrive(1)
		}
		if i >= 10_000 && s.slowest > 150*time.Millisecond {
			slow++
		}
	}
	if s.served < 110*395 || slow*100 > s.served {
		t.Errorf("%d served, %d of them after more than 150 ms: want 400/s, and at most 1%%", s.served, slow)
	}
}

// Clients that leave the queue before it counts as slow show that it does not keep
// up: the newest are served soon, rather than all of them when they are about to
// leave. So does a queue that is full.
func TestAQueueThatClientsLeaveDoesNotKeepUp(t *testing.T) {
	for _, tt := range []struct {
		rule     string
		patience time.Duration
		queue    int
	}{
		{"clients leave", 120 * time.Millisecond, 1000},
		{"the queue is full", 0, 60}, // which takes 150 ms
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s := newService(20)
			s.patience = tt.patience
			cfg := asByDefault
			cfg.Queue = tt.queue
			s.g.Configure(cfg)
			for i := range 60_000 { // a minute at 600/s of 400/s
				if i == 5_000 {
					s.served, s.prompt = 0, 0
				}
				s.tick()
				if i%5 < 3 {
					s.arrive(1)
				}
			}
			if s.served < 55*395 || s.prompt*100 < s.served*95 {
				t.Errorf("%d served, %d of them soon: want 400/s, and 95 %%", s.served, s.prompt)
			}
		})
	}
}

// In a surge no more wait than keep the limit used: six, if it is sixteen. Those are the newest. Where
// tenants wait, each keeps its queue.
func TestASurgeKeepsAShortQueue(t *testing.T) {
	cfg := gate.Config{Queue: 99, Discipline: gate.AdaptiveLIFO, Target: 9 * time.Second, Interval: 10 * time.Second}
	surge := func(t *testing.T) *script {
		s := play(t, 16, cfg)
		for range 16 {
			s.arrive("first", 1, "admit")
		}
		s.arrive("old", 1, "wait").at(9)
		for range 10 {
			s.ask("b", gate.Request{N: 1, Tenant: 1}, "wait")
		}
		for range 10 {
			s.ask("c", gate.Request{N: 1, Tenant: 2}, "wait")
		}
		return s.at(10)
	}
	want := append([]string{"old overdue"}, slices.Repeat([]string{"b overdue"}, 10)...)
	surge(t).answers(append(want, slices.Repeat([]string{"c overdue"}, 4)...)...).leave(1, "c")
	cfg.FairQueues = 64
	surge(t).answers()
}
