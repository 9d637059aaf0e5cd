package decisionlog

import (
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/stripe"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
)

const (
	blockEntries = 64
	keyBytes     = 64 * blockEntries // room for keys in a block; longer ones allocate

	// maxBlocks bounds the blocks that wait to be written: 65,536 decisions, in about 10 MiB.
	maxBlocks = 1024
)

// An entry is a decision in memory.
type entry struct {
	at, maxWait time.Duration
	rule        string
	n           int
	group       uint32
	keyEnd      int32 // in the keys of the block; it begins at the end of the entry before
	terms       int16 // 1 + the place in the terms of the block; 0 for none
	outcome     uint8
	flags       Flags
}

// terms are Terms in memory.
type terms struct {
	quota    decider.Quota
	limit    int
	queue    int
	ownQueue bool
}

// entries belong to one stripe. Goroutines take the mutex of the Recorder once for each 64 of them.
type entries struct {
	n     int
	all   [blockEntries]entry
	keys  []byte
	terms []terms
}

// A stripeEntries has the entries that some of the goroutines add to.
type stripeEntries struct {
	mu  sync.Mutex
	now *entries
	_   [48]byte // so that no two stripes share a cache line
}

// A Recorder collects decisions in bounded memory until Drain. It is safe for concurrent use. It starts no goroutine.
type Recorder struct {
	epoch     time.Time
	offset    atomic.Int64 // of the epoch of verdicts, if readClock is not set
	readClock bool         // for each decision
	stripes   []stripeEntries
	group     atomic.Uint32

	failed, leases, leafUsed atomic.Uint64

	mu    sync.Mutex // guards what follows; taken with that of a stripe held
	full  []*entries // the oldest first
	free  []*entries
	lost  uint64
	count uint64
}

// New returns a Recorder. Unless Follow is called, it reads the clock for each decision.
func New() *Recorder {
	r := &Recorder{epoch: time.Now(), readClock: true, stripes: make([]stripeEntries, 1<<bits.Len(uint(4*runtime.GOMAXPROCS(0)-1)))}
	for i := range r.stripes {
		r.stripes[i].now = new(entries)
	}
	return r
}

// Follow takes the instants of verdicts, which now returns, for those of decisions. Call it before any decision.
func (r *Recorder) Follow(now func() time.Duration) {
	r.offset.Store(int64(time.Since(r.epoch) - now()))
	r.readClock = false
}

// Epoch returns the instant at which New was called.
func (r *Recorder) Epoch() time.Time { return r.epoch }

// Recorded returns how many decisions were added.
func (r *Recorder) Recorded() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Counters returns what is not recorded.
func (r *Recorder) Counters() Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Counters{Lost: r.lost, Failed: r.failed.Load(), Leases: r.leases.Load(), LeafUsed: r.leafUsed.Load()}
}

// at returns the instant of a verdict.
func (r *Recorder) at(v *decider.Verdict) time.Duration {
	if r.readClock {
		return time.Since(r.epoch)
	}
	return v.At + time.Duration(r.offset.Load())
}

// stripe returns the stripe of the goroutine, locked.
func (r *Recorder) stripe() *stripeEntries {
	s := &r.stripes[stripe.Pick(len(r.stripes))]
	s.mu.Lock()
	return s
}

// add adds the decision about a request to a stripe, which is locked.
func (r *Recorder) add(s *stripeEntries, at time.Duration, req *decider.Request, v *decider.Verdict, group uint32, maxWait time.Duration, flags Flags) {
	e := r.room(s, req.Key)
	e.at, e.maxWait, e.n, e.group, e.flags = at, maxWait, req.N, group, flags
	if req.WantID {
		e.flags |= WantID
	}
	if e.rule = ""; v.Rule != nil {
		e.rule = v.Rule.Name
	}
	if e.outcome = 0; !v.OK {
		e.outcome = 1 + uint8(v.Reason)
		if denied := v.Denied(); denied != nil {
			e.rule = denied.Rule.Name
		}
	}
	if e.terms = 0; req.Quota != nil || req.Limit > 0 || req.OwnQueue {
		t := terms{limit: req.Limit, queue: req.Queue, ownQueue: req.OwnQueue}
		if req.Quota != nil {
			t.quota = *req.Quota
		}
		s.now.terms = append(s.now.terms, t)
		e.terms = int16(len(s.now.terms))
	}
}

// settled adds a settlement.
func (r *Recorder) settled(key, id string, n, was int) {
	now, age := time.Since(r.epoch), time.Duration(math.MaxInt64)
	if !r.readClock {
		offset := time.Duration(r.offset.Load())
		if at, ok := grant.Instant(id, now-offset); ok {
			age = max(now-offset-at, 0)
		}
	}
	s := r.stripe()
	defer s.mu.Unlock()
	e := r.room(s, key)
	*e = entry{at: now, maxWait: age, n: n, group: uint32(min(was, math.MaxUint32)), flags: Settled, keyEnd: e.keyEnd}
}

// room returns room for an entry in a stripe, which is locked, with the key.
func (r *Recorder) room(s *stripeEntries, key string) *entry {
	if b := s.now; b.n == blockEntries || b.n > 0 && len(b.keys)+len(key) > keyBytes {
		s.now = r.swap(b)
	}
	b := s.now
	if b.keys == nil {
		b.keys = make([]byte, 0, keyBytes)
	}
	b.keys = append(b.keys, key...)
	e := &b.all[b.n]
	e.keyEnd = int32(len(b.keys))
	b.n++
	return e
}

// swap takes entries, and returns empty ones.
func (r *Recorder) swap(b *entries) *entries {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += uint64(b.n)
	if len(r.full) == maxBlocks {
		r.lost += uint64(b.n)
		b.reset()
		return b
	}
	r.full = append(r.full, b)
	return r.freeLocked()
}

func (r *Recorder) freeLocked() *entries {
	last := len(r.free) - 1
	if last < 0 {
		return new(entries)
	}
	b := r.free[last]
	r.free = r.free[:last]
	return b
}

func (b *entries) reset() {
	clear(b.all[:b.n]) // the names of rules
	b.n, b.terms = 0, b.terms[:0]
	if b.keys = b.keys[:0]; cap(b.keys) > 2*keyBytes {
		b.keys = nil
	}
}

// Drain writes the decisions that it has not written before, and the counters, and flushes w. After an error, they
// are lost, and counted.
func (r *Recorder) Drain(w *Writer) error {
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		if s.now.n > 0 {
			s.now = r.swap(s.now)
		}
		s.mu.Unlock()
	}
	r.mu.Lock()
	all := r.full
	r.full = nil
	r.mu.Unlock()
	written := uint64(0)
	for _, b := range all {
		written += uint64(b.n)
		b.write(w)
		b.reset()
	}
	_ = w.Count(r.Counters())
	err := w.Flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, all[:min(len(all), maxBlocks-len(r.free))]...)
	if err != nil {
		r.lost += written
	}
	return err
}

func (b *entries) write(w *Writer) {
	begin := int32(0)
	for i := range b.n {
		e := &b.all[i]
		var t *terms
		if e.terms > 0 {
			t = &b.terms[e.terms-1]
		}
		w.add(e, string(b.keys[begin:e.keyEnd]), t)
		begin = e.keyEnd
	}
}
