package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a caller waits to be admitted, and the bound of a good
// answer: the source's "deadline".
const patience = time.Second

// A script holds the random times of a row, the same for all contenders.
type script struct {
	length   time.Duration
	arrivals []time.Duration // before length, in order
	services []time.Duration // of the server's first, second, ... job; as many
}

func newScript(p pair, length time.Duration, rng *rand.Rand) script {
	s := script{length: length}
	for at := exponential(p.in, rng); at < length; at += exponential(p.in, rng) {
		s.arrivals = append(s.arrivals, at)
		s.services = append(s.services, exponential(p.out, rng))
	}
	return s
}

// exponential draws the time from one event to the next, at a mean rate.
func exponential(perSecond int, rng *rand.Rand) time.Duration {
	return time.Duration(rng.ExpFloat64() / float64(perSecond) * float64(time.Second))
}

// best returns the number of jobs that a server has done at the end if it does all
// that arrive, and is never idle while one waits: an upper bound.
func (s script) best() (done int) {
	free := time.Duration(0)
	for i, at := range s.arrivals {
		if free = max(free, at) + s.services[i]; free > s.length {
			break
		}
		done++
	}
	return done
}

// A server does one job at a time, first come, first served. A job that waits begins
// when the one before should have ended, however late tick is called.
type server struct {
	mu       sync.Mutex // guards what follows
	services []time.Duration
	queue    []job // the first one is being served
	free     time.Duration
}

type job struct {
	done chan struct{}
	ends time.Duration
}

// join brings a job to the server; the channel is closed when it is done.
func (s *server) join(now time.Duration) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = max(s.free, now) + s.services[0]
	s.services = s.services[1:]
	s.queue = append(s.queue, job{make(chan struct{}), s.free})
	return s.queue[len(s.queue)-1].done
}

// tick lets go the jobs that should have ended.
func (s *server) tick(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; len(s.queue) > 0 && s.queue[0].ends <= now; s.queue = s.queue[1:] {
		close(s.queue[0].done)
	}
}

// A lane is a contender with its own server.
type lane struct {
	admit  admit
	server server
	tally  tally
}

// play runs a script against all contenders at once, and returns a tally for
// each, and, sorted, how much later than they should the requests came. Rest
// is called between two looks at the clock.
func play(s script, rest func()) (_ []*tally, lag []time.Duration, err error) {
	lanes := make([]*lane, len(contenders))
	tallies := make([]*tally, len(contenders))
	for i, c := range contenders {
		l := &lane{server: server{services: s.services}}
		if l.admit, err = c.build(); err != nil {
			return nil, nil, err
		}
		lanes[i], tallies[i] = l, &l.tally
	}
	epoch := time.Now()
	var callers atomic.Int64
	for next := 0; next < len(s.arrivals) || callers.Load() > 0; rest() {
		now := time.Since(epoch)
		for ; next < len(s.arrivals) && s.arrivals[next] <= now; next++ {
			at := s.arrivals[next]
			lag = append(lag, now-at)
			for _, l := range lanes {
				callers.Add(1)
				go func() {
					defer callers.Add(-1)
					l.call(epoch, at, s.length)
				}()
			}
		}
		for _, l := range lanes {
			l.server.tick(now)
		}
	}
	slices.Sort(lag)
	return tallies, lag, nil
}

// call is a request that should begin at an instant after epoch.
func (l *lane) call(epoch time.Time, at, length time.Duration) {
	ctx, cancel := context.WithDeadline(context.Background(), epoch.Add(at+patience))
	leave, err := l.admit(ctx)
	cancel()
	if err != nil {
		l.tally.end(at, time.Since(epoch), length, false)
		return
	}
	<-l.server.join(time.Since(epoch))
	l.tally.end(at, time.Since(epoch), length, true)
	leave()
}
