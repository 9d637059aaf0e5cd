package quota

import (
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/internal/waitq"
)

// single is one token bucket for all keys. Every request of the rule meets the others
// there, so it takes no lock.
type single struct {
	epoch time.Time
	mu    sync.Mutex // held while the state is replaced
	state atomic.Pointer[singleState]
}

// A singleState is the bucket under one quota.
type singleState struct {
	quota   gcra.Quota
	watched bool
	bucket  atomic.Uint64 // a gcra.Bucket, or moved
	loose   atomic.Int64  // the instant of the last TakeLoose
}

// moved is the bucket of a state that another one has replaced.
const moved = math.MaxUint64

func newSingle(q gcra.Quota) *single {
	s := &single{epoch: waitq.Epoch()}
	s.state.Store(&singleState{quota: q})
	return s
}

// change replaces the bucket with what next returns of it. next may be called again.
func (s *single) change(next func(*gcra.Quota, gcra.Bucket) gcra.Bucket) {
	for {
		st, b := s.load()
		if st.bucket.CompareAndSwap(uint64(b), uint64(min(next(&st.quota, b), moved-1))) {
			return
		}
	}
}

// load returns the present state and its bucket.
func (s *single) load() (*singleState, gcra.Bucket) {
	st := s.state.Load()
	b := st.bucket.Load()
	if b == moved { // SetQuota holds the lock until there is another state
		s.mu.Lock()
		defer s.mu.Unlock()
		st = s.state.Load()
		b = st.bucket.Load()
	}
	return st, gcra.Bucket(b)
}

func (s *single) Fingerprint(string) uint64 { return 0 }

func (s *single) TakeAt(_ uint64, at time.Time, n int) weir.Decision {
	for now := at.Sub(s.epoch); ; {
		st, b := s.load()
		next, d := st.quota.Take(b, now, n)
		if next == b || n == 0 || st.bucket.CompareAndSwap(uint64(b), uint64(next)) {
			return d
		}
	}
}

func (s *single) TakeLoose(_ uint64, at time.Time, n int) (d weir.Decision, loose bool) {
	for now := at.Sub(s.epoch); ; {
		st, b := s.load()
		if st.watched {
			return d, false
		}
		next, d := st.quota.Take(b, now, n)
		if next == b || n == 0 {
			return d, true
		}
		// It is told before it is made, so that LastLoose misses none.
		for last := st.loose.Load(); last < int64(now) && !st.loose.CompareAndSwap(last, int64(now)); {
			last = st.loose.Load()
		}
		if st.bucket.CompareAndSwap(uint64(b), uint64(next)) {
			return d, true
		}
	}
}

func (s *single) LastLoose(_ uint64, watch bool) time.Time {
	if watch {
		s.watch()
	}
	return s.epoch.Add(time.Duration(s.state.Load().loose.Load()))
}

func (s *single) SettleAt(_ uint64, at time.Time, was, n int) (charged int) {
	now := at.Sub(s.epoch)
	s.change(func(q *gcra.Quota, b gcra.Bucket) gcra.Bucket {
		if charged = n; n <= was {
			return q.Refund(b, was-n)
		}
		b, more := q.Charge(b, now, n-was, maxDebt)
		charged = was + more
		return b
	})
	return charged
}

func (s *single) ReturnAt(_ uint64, _ time.Time, tokens float64) {
	s.change(func(q *gcra.Quota, b gcra.Bucket) gcra.Bucket { return q.Return(b, tokens) })
}

func (s *single) TokensAt(_ string, at time.Time) float64 {
	st, b := s.load()
	return st.quota.Tokens(b, at.Sub(s.epoch))
}

func (s *single) QuotaFor(string) gcra.Quota { return s.state.Load().quota }

func (s *single) SetQuota(q gcra.Quota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, st := s.state.Load(), &singleState{quota: q}
	st.watched = old.watched
	s.replace(st, func(b gcra.Bucket) gcra.Bucket { return old.quota.Move(b, time.Since(s.epoch), &q) })
}

// watch ends loose takes.
func (s *single) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.state.Load(); !old.watched {
		s.replace(&singleState{quota: old.quota, watched: true}, func(b gcra.Bucket) gcra.Bucket { return b })
	}
}

// replace replaces the state, under the lock; move returns the new bucket.
func (s *single) replace(st *singleState, move func(gcra.Bucket) gcra.Bucket) {
	old := s.state.Load()
	// A request that swaps the bucket before this is counted in the new state. A later
	// one finds that the bucket has moved.
	st.bucket.Store(uint64(move(gcra.Bucket(old.bucket.Swap(moved)))))
	st.loose.Store(old.loose.Load())
	s.state.Store(st)
}

func (s *single) Stats() (st keyedtable.Stats) { return st }

func (s *single) SetMemory(int) int { return 0 }

func (s *single) MemoryMost() int { return 0 }

// A savedBucket is a bucket in a snapshot.
type savedBucket struct {
	Now    time.Duration
	Burst  int
	Bucket gcra.Bucket // under quota; 0 if it was full
}

// quota is never refilled, so a bucket under it is the tokens alone.
func (b *savedBucket) quota() *gcra.Quota {
	q := gcra.Per(0, 0, b.Burst)
	return &q
}

func (s *single) Snapshot(w io.Writer) error {
	st, b := s.load()
	return gob.NewEncoder(w).Encode(save(&st.quota, b, time.Since(s.epoch)))
}

// save returns a bucket as a snapshot has it.
func save(q *gcra.Quota, b gcra.Bucket, now time.Duration) savedBucket {
	saved := savedBucket{Now: now, Burst: q.Burst()}
	if b > q.Level(now) {
		saved.Bucket = q.Move(b, now, saved.quota())
	}
	return saved
}

func (s *single) Restore(r io.Reader) error {
	var saved savedBucket
	if err := gob.NewDecoder(r).Decode(&saved); err != nil {
		return fmt.Errorf("reading a bucket: %w", err)
	}
	if saved.Bucket > 0 {
		then := min(saved.Now, time.Since(s.epoch)) // a clock that was set back must not make debts larger
		s.change(func(q *gcra.Quota, _ gcra.Bucket) gcra.Bucket { return saved.quota().Move(saved.Bucket, then, q) })
	}
	return nil
}

// Share has no effect: there is one bucket.
func (s *single) Share(siphash.Key) {}

func (s *single) Extract(_ *slot.Set, emit func(part []byte) error) error {
	var saved savedBucket
	now := time.Since(s.epoch)
	s.change(func(q *gcra.Quota, b gcra.Bucket) gcra.Bucket {
		saved = save(q, b, now)
		return 0
	})
	if saved.Bucket == 0 {
		return nil
	}
	part, _ := binary.Append(nil, binary.LittleEndian, [...]uint64{uint64(saved.Now), uint64(saved.Burst), uint64(saved.Bucket)})
	return emit(part)
}

func (s *single) Absorb(part []byte, maxDebt int) error {
	var words [3]uint64
	n, err := binary.Decode(part, binary.LittleEndian, &words)
	saved := savedBucket{Now: time.Duration(words[0]), Burst: int(words[1]), Bucket: gcra.Bucket(words[2])}
	if err != nil || n != len(part) || saved.Now < 0 || saved.Burst < 0 {
		return errors.New("it is not one bucket")
	}
	now := time.Since(s.epoch)
	then := min(saved.Now, now)
	s.change(func(q *gcra.Quota, b gcra.Bucket) gcra.Bucket {
		return keyedtable.Sum(q, b, saved.quota().Move(saved.Bucket, then, q), then, now, maxDebt)
	})
	return nil
}
