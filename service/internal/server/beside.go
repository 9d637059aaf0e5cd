package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// shareBuckets are the buckets of a rule that leaves share, by name.
type shareBuckets struct {
	n  atomic.Int64 // of byName
	mu sync.RWMutex // guards byName
	// byName changes only while leaves.mu is held.
	byName map[string]*shareBucket
}

func (s *shareBuckets) get(name string) *shareBucket {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[name]
}

// put keeps a bucket.
func (s *shareBuckets) put(b *shareBucket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*shareBucket{}
	}
	s.byName[b.name] = b
	s.n.Store(int64(len(s.byName)))
}

func (s *shareBuckets) remove(b *shareBucket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, b.name)
	s.n.Store(int64(len(s.byName)))
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
func (h *holding) uncovered(of *state, now time.Duration, used int) int {
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

// chargeHeld charges what leaves hold of a bucket since the last charge.
func (r *rule) chargeHeld(key, bucket string, at time.Duration) {
	b := r.assigned.get(bucket)
	if b == nil {
		return
	}
	if n := b.take(at); n > 0 {
		r.chargeLeaves(key, at, n)
	}
}

// chargeLeaves charges tokens of leaves, within the debt that the rule allows.
func (r *rule) chargeLeaves(key string, at time.Duration, n int) {
	r.charging.Lock()
	defer r.charging.Unlock()
	bucket := r.Bucket(key)
	room := r.maxDebt() + r.Limit() - r.buckets.Used(bucket)
	if n = min(n, max(room, 0)); n > 0 {
		r.buckets.Settle(bucket, at, 0, n)
	}
}
