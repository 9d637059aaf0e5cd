package quota

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/usage"
)

// usages has the usage.Log of the token buckets of one rule that were used last: of as many as
// there is memory for. It knows since when it has forgotten no take.
type usages struct {
	pace   atomic.Pointer[pace]
	shards []usageShard
}

// A usageShard has a part of the logs. A bucket that is watched changes only while its shard is locked.
type usageShard struct {
	mu     sync.Mutex    // guards what follows
	sets   []logSet      // nil until a token is taken
	bytes  int           // bound on the memory
	groups int           // in logs
	before time.Duration // of the last take of a bucket without a log, or usage.Never
}

// A logSet has the places for the logs of some fingerprints.
type logSet [4]struct {
	fingerprint uint64
	taken       bool
	log         usage.Log
}

// A pace is how a quota refills.
type pace struct {
	quota   gcra.Quota
	rate    float64 // tokens a nanosecond
	fastest float64 // the greatest rate for which a grant lasts
	groups  usage.Groups
	since   time.Duration
	came    float64 // until since
	// lowered is when the burst was last lowered, or usage.Never. What grants before that have
	// taken is not known.
	lowered time.Duration
}

const (
	usagePart     = 4       // the logs have a quarter of a table's memory, beside it
	usageShardMin = 1 << 16 // bytes
	maxUsageShard = 64
	groupSize     = 56 // bytes
	setSize       = int(unsafe.Sizeof(logSet{})) + 4*groupSize
	groupsPerFill = 64
)

func newUsages(q gcra.Quota, memory int) *usages {
	n := 1
	for n < maxUsageShard && memory/usagePart/(2*n) >= usageShardMin {
		n *= 2
	}
	u := &usages{shards: make([]usageShard, n)}
	for i := range u.shards {
		u.shards[i].before = usage.Never
	}
	u.setMemory(memory)
	u.pace.Store(newPace(q, nil, 0))
	return u
}

func newPace(q gcra.Quota, was *pace, now time.Duration) *pace {
	p := &pace{quota: q, rate: q.Rate() / 1e9, since: now, lowered: usage.Never}
	fill := time.Duration(math.MaxInt64)
	if p.rate > 0 {
		fill = time.Duration(min(float64(q.Burst())/p.rate, math.MaxInt64/2))
	}
	p.groups = usage.GroupsFor(fill, groupsPerFill)
	if p.fastest = p.rate; was != nil {
		p.came, p.fastest, p.lowered = was.at(now).Came, max(p.rate, was.fastest), was.lowered
		if q.Burst() < was.quota.Burst() {
			p.lowered = now
		}
	}
	return p
}

func (p *pace) at(now time.Duration) usage.Instant {
	return usage.Instant{At: now, Came: p.came + float64(now-p.since)*p.rate, Size: float64(p.quota.Burst())}
}

func (u *usages) shard(fingerprint uint64) *usageShard {
	return &u.shards[fingerprint>>32%uint64(len(u.shards))]
}

// setMemory sets the bound on the logs to a part of the memory of the table. Logs that are beyond it
// are forgotten.
func (u *usages) setMemory(memory int) {
	u.each(func(s *usageShard) {
		was := s.places()
		if s.bytes = memory / usagePart / len(u.shards); s.sets != nil && s.places() < was {
			s.forget(s.last())
		}
	})
}

// setQuota changes the pace. The groups of takes do not count under another one.
func (u *usages) setQuota(q gcra.Quota, now time.Duration) {
	was := u.pace.Load()
	if was.quota == q {
		return
	}
	u.pace.Store(newPace(q, was, now))
	u.each(func(s *usageShard) {
		for i := range s.sets {
			for j := range s.sets[i] {
				l := &s.sets[i][j].log
				l.Start(l.Last())
			}
		}
	})
}

// forget forgets all takes, which were made until an instant.
func (u *usages) forget(last time.Duration) {
	u.each(func(s *usageShard) { s.forget(last) })
}

func (u *usages) each(f func(*usageShard)) {
	for i := range u.shards {
		s := &u.shards[i]
		s.mu.Lock()
		f(s)
		s.mu.Unlock()
	}
}

func (s *usageShard) forget(last time.Duration) {
	s.sets, s.groups, s.before = nil, 0, max(s.before, last)
}

// last returns the instant of the last take.
func (s *usageShard) last() time.Duration {
	last := s.before
	for i := range s.sets {
		for j := range s.sets[i] {
			last = max(last, s.sets[i][j].log.Last())
		}
	}
	return last
}

// places returns the number of sets that there is memory for, with half of it for groups.
func (s *usageShard) places() int { return max(s.bytes/2/setSize, 1) }

// note notes that n tokens of a bucket were taken. The bucket is full again after reset. The take
// begins a log only if it is tracked.
func (s *usageShard) note(p *pace, fingerprint uint64, at time.Duration, n int, reset time.Duration, tracked bool) {
	l := s.find(fingerprint)
	if l == nil && !tracked {
		s.before = max(s.before, at)
		return
	}
	full := p.rate > 0 && reset != weir.Never && float64(reset) <= float64(n)/p.rate+2 // rounded
	if l == nil {
		l = s.add(fingerprint)
	}
	size, groups := l.Size(), p.groups
	if s.groups*groupSize > s.bytes/2 {
		groups.Most = max(min(groups.Most, size), 1)
	}
	l.Take(p.at(at), float64(n), full, groups)
	s.groups += l.Size() - size
}

// find returns the log of a bucket, or nil.
func (s *usageShard) find(fingerprint uint64) *usage.Log {
	if s.sets == nil {
		return nil
	}
	set := &s.sets[fingerprint%uint64(len(s.sets))]
	for i := range set {
		if set[i].taken && set[i].fingerprint == fingerprint {
			return &set[i].log
		}
	}
	return nil
}

// add returns a new log. If there is no place, it takes that of the log in its set that was used
// longest ago.
func (s *usageShard) add(fingerprint uint64) *usage.Log {
	if s.sets == nil {
		s.sets = make([]logSet, s.places())
	}
	set := &s.sets[fingerprint%uint64(len(s.sets))]
	at := 0
	for i := range set {
		if !set[i].taken {
			at = i
			break
		}
		if set[i].log.Last() < set[at].log.Last() {
			at = i
		}
	}
	e := &set[at]
	if e.taken {
		s.before = max(s.before, e.log.Last())
	}
	e.fingerprint, e.taken = fingerprint, true
	e.log.Start(s.before)
	return &e.log
}

// settle returns how many of the tokens that were taken at an instant go back to a bucket that
// lacks some, if the cost is n, and what it is then.
func (s *usageShard) settle(p *pace, fingerprint uint64, at, now time.Duration, missing float64, was, n int) (back float64, charged int) {
	if at < p.lowered {
		return 0, was
	}
	l := s.find(fingerprint)
	if l == nil {
		l = new(usage.Log)
		l.Start(s.before)
	}
	back, c := l.Settle(p.at(now), usage.Settlement{Was: float64(was), N: float64(n), At: at, Missing: missing, Rate: p.fastest})
	return back, int(math.Ceil(c - rounding))
}

// rounding is the part of a token by which the arithmetic may err.
const rounding = 1e-4
