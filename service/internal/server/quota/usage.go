package quota

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/usage"
)

// usages has the usage.Log of the token buckets of one rule that are not full: of as many as
// there is memory for. It knows which takes it has forgotten.
type usages struct {
	pace   atomic.Pointer[pace]
	shards []usageShard
}

// A usageShard has a part of the logs. A bucket changes only while its shard is locked.
type usageShard struct {
	mu     sync.Mutex            // guards what follows
	logs   map[uint64]*usage.Log // by fingerprint
	size   int                   // bytes of logs
	room   int                   // bytes
	before time.Duration         // of the last take of a bucket without a log, or usage.Never
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
	usagePart     = 4       // the logs have one of so many parts of a table's memory, beside it
	usageShardMin = 1 << 16 // bytes
	maxUsageShard = 64
	logSize       = 160 // bytes of a log without groups, and of its place
	groupSize     = 56  // bytes
	groupsPerFill = 64
)

func newUsages(q gcra.Quota, memory int) *usages {
	n := 1
	for n < maxUsageShard && memory/usagePart/(2*n) >= usageShardMin {
		n *= 2
	}
	u := &usages{shards: make([]usageShard, n)}
	for i := range u.shards {
		u.shards[i] = usageShard{logs: map[uint64]*usage.Log{}, before: usage.Never}
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

// setMemory sets the bound on the logs to a part of the memory of the table.
func (u *usages) setMemory(memory int) {
	for i := range u.shards {
		s := &u.shards[i]
		s.mu.Lock()
		s.room = memory / usagePart / len(u.shards)
		s.mu.Unlock()
	}
}

// setQuota changes the pace. The groups of takes do not count under another one.
func (u *usages) setQuota(q gcra.Quota, now time.Duration) {
	was := u.pace.Load()
	if was.quota == q {
		return
	}
	u.pace.Store(newPace(q, was, now))
	u.each(func(s *usageShard) {
		for _, l := range s.logs {
			l.Start(l.Last())
		}
	})
}

// forget forgets all takes until now.
func (u *usages) forget(now time.Duration) {
	u.each(func(s *usageShard) {
		clear(s.logs)
		s.size, s.before = 0, now
	})
}

func (u *usages) each(f func(*usageShard)) {
	for i := range u.shards {
		s := &u.shards[i]
		s.mu.Lock()
		f(s)
		s.mu.Unlock()
	}
}

// note notes that n tokens of a bucket were taken. The bucket is full again after reset.
func (s *usageShard) note(p *pace, fingerprint uint64, at time.Duration, n int, reset time.Duration) {
	full := p.rate > 0 && reset != weir.Never && float64(reset) <= float64(n)/p.rate+2 // rounded
	l := s.logs[fingerprint]
	if l == nil {
		l = s.add(fingerprint)
	}
	size := l.Size()
	l.Take(p.at(at), float64(n), full, p.groups)
	s.size += (l.Size() - size) * groupSize
}

// add returns a new log. If there is no room, it takes the place of another one.
func (s *usageShard) add(fingerprint uint64) (l *usage.Log) {
	if s.size+logSize+groupSize <= s.room || len(s.logs) == 0 {
		l = new(usage.Log)
		s.size += logSize
	}
	for s.size > s.room && len(s.logs) > 0 || l == nil {
		l = s.dropOne(l)
	}
	l.Start(s.before)
	s.logs[fingerprint] = l
	return l
}

// dropOne drops the log among a few that was used longest ago, and returns it if there is no other.
func (s *usageShard) dropOne(spare *usage.Log) *usage.Log {
	var oldest uint64
	last, looks := time.Duration(math.MaxInt64), 0
	for print, l := range s.logs {
		if at := l.Last(); at < last {
			oldest, last = print, at
		}
		if looks++; looks == 8 {
			break
		}
	}
	l := s.logs[oldest]
	delete(s.logs, oldest)
	s.before = max(s.before, last)
	if spare == nil && l.Size() <= 4 {
		return l
	}
	s.size -= logSize + l.Size()*groupSize
	if spare == nil && s.size+logSize <= s.room {
		s.size += logSize
		return new(usage.Log)
	}
	return spare
}

// settle returns how many of the tokens that were taken at an instant go back to a bucket that
// lacks some, if the cost is n, and what it is then.
func (s *usageShard) settle(p *pace, fingerprint uint64, at, now time.Duration, missing float64, was, n int) (back float64, charged int) {
	if at < p.lowered {
		return 0, was
	}
	l := s.logs[fingerprint]
	if l == nil {
		l = new(usage.Log)
		l.Start(s.before)
	}
	back, c := l.Settle(p.at(now), usage.Settlement{Was: float64(was), N: float64(n), At: at, Missing: missing, Rate: p.fastest})
	return back, int(math.Ceil(c - rounding))
}

// rounding is the part of a token by which the arithmetic may err.
const rounding = 1e-4
