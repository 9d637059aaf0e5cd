// Package leafset makes a leaf (package leaf) safe for concurrent use. A decision takes the
// lock of one of many shards and reads the clock. One goroutine exchanges with the upstream;
// no decision waits for it.
package leafset

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafsession"
)

// An Upstream assigns a leaf rates.
type Upstream interface {
	// Exchange tells the upstream what the leaf reports, and returns the answer. An error
	// means that the upstream is away. It must not keep x.
	Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error)
}

// Config configures a Set. Upstream and Config.Name are required.
type Config struct {
	// Config has the bounds of the leaf. Its MaxKeys is divided among shards, so that fewer
	// keys may fit if many of them share a shard.
	leaf.Config
	Upstream Upstream
	// Timeout bounds an exchange. If zero, 1 second.
	Timeout time.Duration
	// Shards is the number of locks, rounded up to a power of two. If zero, 16 for each
	// processor.
	Shards int
}

// A Set is a leaf that is safe for concurrent use. It has one goroutine, which Close ends.
type Set struct {
	cfg    Config
	epoch  time.Time
	seed   maphash.Seed
	shards []shard

	wake     chan struct{} // of capacity 1; a key is urgent
	urgent   atomic.Bool
	waiting  atomic.Int64
	sent     atomic.Uint64
	failed   atomic.Uint64
	closing  context.Context
	close    context.CancelFunc
	finished chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards session; taken before a shard's lock
	session *leafsession.Session
	pass    leaf.Pass // only the goroutine uses it
}

// A shard has a part of the keys.
type shard struct {
	mu      sync.Mutex // guards what follows
	keys    *leaf.Keys
	told    bool // the goroutine knows that keys are urgent
	closed  bool
	allowed [leaf.ByRule + 1]uint64
	denied  [leaf.ByRule + 1]uint64
	_       [64]byte // so that no two shards share a cache line
}

// New returns a Set. Without Config.Idle, it does not contact the upstream until the first decision.
func New(cfg Config) (*Set, error) {
	switch {
	case cfg.Name == "":
		return nil, fmt.Errorf("leafset: Name is empty: it must identify the process")
	case cfg.Upstream == nil:
		return nil, fmt.Errorf("leafset: Upstream is nil")
	case cfg.MaxKeys < 0 || cfg.MaxWaiters < 0 || cfg.MaxReports < 0 || cfg.Shards < 0:
		return nil, fmt.Errorf("leafset: MaxKeys = %d, MaxWaiters = %d, MaxReports = %d, Shards = %d: must be >= 0",
			cfg.MaxKeys, cfg.MaxWaiters, cfg.MaxReports, cfg.Shards)
	case cfg.Timeout < 0 || cfg.Overdue < 0:
		return nil, fmt.Errorf("leafset: Timeout = %v, Overdue = %v: must be >= 0", cfg.Timeout, cfg.Overdue)
	}
	cfg.Config = cfg.WithDefaults()
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Second
	}
	if cfg.Shards == 0 {
		cfg.Shards = 16 * runtime.GOMAXPROCS(0)
	}
	s := &Set{
		cfg: cfg, epoch: time.Now(), seed: maphash.MakeSeed(), session: leafsession.NewSession(cfg.Config),
		shards: make([]shard, 1<<bits.Len(uint(cfg.Shards-1))),
		wake:   make(chan struct{}, 1), finished: make(chan struct{}),
	}
	part := cfg.Config
	part.MaxKeys = (cfg.MaxKeys + len(s.shards) - 1) / len(s.shards)
	for i := range s.shards {
		s.shards[i].keys = leaf.NewKeys(part)
	}
	s.closing, s.close = context.WithCancel(context.Background())
	go s.run()
	return s, nil
}

// now returns the instant on the clock of the Set.
func (s *Set) now() time.Duration { return time.Since(s.epoch) }

func (s *Set) shard(key string) *shard {
	return &s.shards[maphash.String(s.seed, key)&uint64(len(s.shards)-1)]
}

// Take decides about n tokens of a key at once: see leaf.Keys.Take. The Policy must not
// change. After Close it denies, by rule. It panics if n < 0.
func (s *Set) Take(key string, n int, p *leaf.Policy) (weir.Decision, leaf.Step) {
	sh := s.shard(key)
	sh.mu.Lock()
	if sh.closed {
		sh.mu.Unlock()
		return weir.Decision{}, leaf.ByRule
	}
	d, step := sh.keys.Take(s.now(), key, n, p)
	s.finish(sh, d.OK, step)
	return d, step
}

// TakeAway is Take for a caller that has found the upstream away: see leaf.Keys.TakeAway.
func (s *Set) TakeAway(key string, n int, p *leaf.Policy) (weir.Decision, leaf.Step) {
	sh := s.shard(key)
	sh.mu.Lock()
	if sh.closed {
		sh.mu.Unlock()
		return weir.Decision{}, leaf.ByRule
	}
	d, step := sh.keys.TakeAway(s.now(), key, n, p)
	s.finish(sh, d.OK, step)
	return d, step
}

// finish counts a decision and unlocks the shard. It wakes the goroutine if the decision has
// made a key urgent.
func (s *Set) finish(sh *shard, ok bool, step leaf.Step) {
	sh.count(ok, step)
	tell := sh.tellLocked()
	sh.mu.Unlock()
	if tell {
		s.tell()
	}
}

func (sh *shard) count(ok bool, step leaf.Step) {
	if ok {
		sh.allowed[step]++
	} else {
		sh.denied[step]++
	}
}

// tellLocked reports whether the caller must tell the goroutine of urgent keys.
func (sh *shard) tellLocked() bool {
	if sh.told || !sh.keys.Urgent() {
		return false
	}
	sh.told = true
	return true
}

// tell wakes the goroutine because of urgent keys.
func (s *Set) tell() {
	s.urgent.Store(true)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Now returns the instant on the clock of the Set.
func (s *Set) Now() time.Duration { return s.now() }

// Settle changes the cost of work from was to n tokens of a key, which were taken at the instant
// at, and returns the cost charged: see leaf.Keys.Settle. Neither must be negative.
func (s *Set) Settle(key string, at time.Duration, was, n int) (charged int) {
	s.change(key, func(k *leaf.Keys) { charged = k.Settle(s.now(), key, at, was, n) })
	return charged
}

// Charge takes n more tokens of a key, for work that cost more than its estimate: see
// leaf.Keys.Charge. n must not be negative.
func (s *Set) Charge(key string, n int) {
	s.change(key, func(k *leaf.Keys) { k.Charge(s.now(), key, n) })
}

// Stats are the state of a Set, and its counts since New.
type Stats struct {
	Away     bool // the upstream does not answer
	Keys     int
	Assigned int // keys with a live assignment
	Waiting  int // callers that wait

	// Allowed and Denied count decisions by leaf.Step. Denied[leaf.Ask] are requests that
	// the Set has left to its caller.
	Allowed, Denied [leaf.ByRule + 1]uint64
	Over            uint64 // decisions about keys for which there was no room
	Exchanges       uint64
	Failures        uint64 // exchanges without an answer
}

// Stats returns the state and the counts. They are read one after the other.
func (s *Set) Stats() Stats {
	now := s.now()
	n := Stats{Waiting: int(s.waiting.Load()), Exchanges: s.sent.Load(), Failures: s.failed.Load()}
	s.mu.Lock()
	n.Away = now >= s.session.Lease().Away
	s.mu.Unlock()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n.Keys += sh.keys.Len()
		n.Assigned += sh.keys.Held(now)
		n.Over += sh.keys.Over()
		for step := range sh.allowed {
			n.Allowed[step] += sh.allowed[step]
			n.Denied[step] += sh.denied[step]
		}
		sh.mu.Unlock()
	}
	return n
}
