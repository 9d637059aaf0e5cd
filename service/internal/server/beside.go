package server

import (
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/server/memory"
)

// shareBuckets are the buckets of a rule that leaves share, by name.
type shareBuckets struct {
	mu sync.RWMutex // guards byName
	// byName changes only while leaves.mu is held.
	byName map[string]*shareBucket
}

func (s *shareBuckets) get(name string) *shareBucket {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[name]
}

// share has the node that decides charged for what leaves hold of a bucket.
func (ls *leaves) share(b *shareBucket) {
	s := ls.shared[b.in]
	if s == nil {
		s = &shareBuckets{byName: map[string]*shareBucket{}}
		due := s.due
		ls.shared[b.in] = s
		b.in.Due.Store(&due)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[b.name] = b
}

// unshare ends share.
func (ls *leaves) unshare(b *shareBucket) {
	s := ls.shared[b.in]
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.byName, b.name); len(s.byName) == 0 {
		b.in.Due.Store(nil)
		delete(ls.shared, b.in)
	}
}

// due returns what leaves have held of a bucket since the last call.
func (s *shareBuckets) due(name string, now time.Duration) int {
	if b := s.get(name); b != nil {
		return b.take(now)
	}
	return 0
}

// A beside charges what leaves hold of a limit to the bucket by which the node itself decides:
// that bucket has the rest. It is charged as time passes, when the node decides.
type beside struct {
	// Guarded by leaves.mu:
	credit float64 // tokens that leaves have held, and have not reported as used
	noted  time.Duration
	heldBy float64 // the rate that leaves hold since then

	mu    sync.Mutex // guards what follows
	since time.Duration
	due   float64 // tokens that leaves have held from since until at
	at    time.Duration
	held  float64 // the rate since at
	rate  float64 // of the limit
	burst float64
}

// creditFor bounds the credit: by the tokens of the limit in this time. A leaf can report that
// late what it has used.
const creditFor = silence // times to live

// note notes what leaves hold from now on.
func (b *shareBucket) note(now time.Duration) {
	limit, held := b.Limit(), b.Held()
	b.accrue(now, limit.Rate*(creditFor*b.TTL()).Seconds())
	b.heldBy = held
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass(now)
	b.held, b.rate, b.burst = held, limit.Rate, limit.Burst
}

// accrue adds to the credit what leaves have held until now.
func (b *beside) accrue(now time.Duration, most float64) {
	if now > b.noted {
		b.credit = min(b.credit+b.heldBy*(now-b.noted).Seconds(), most)
		b.noted = now
	}
}

// pass adds to due what leaves have held until now.
func (b *beside) pass(now time.Duration) {
	if now > b.at {
		b.due += b.held * (now - b.at).Seconds()
		b.at = now
	}
}

// take returns the tokens to charge at the instant now. A bucket that has been full since the last
// charge could not have kept the tokens that came in beyond what leaves hold.
func (b *beside) take(now time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass(now)
	came := b.rate * (b.at - b.since).Seconds()
	if most := max(b.burst-(came-b.due), 0); b.due > most {
		b.due = most
	}
	n := int(b.due)
	b.due, b.since = b.due-float64(n), b.at
	return n
}

// uncovered returns how many of the tokens that a leaf has used are not charged for what leaves
// hold of a rule; h may be nil.
func (h *holding) uncovered(of *memory.State, now time.Duration, used int) int {
	if h == nil {
		return used
	}
	for p := h.parts; p != nil; p = p.next {
		if b := p.bucket; b.in == of {
			b.accrue(now, b.Limit().Rate*(creditFor*b.TTL()).Seconds())
			covered := int(min(b.credit, float64(used)))
			b.credit -= float64(covered)
			return used - covered
		}
	}
	return used
}
