package server

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/keyedtable"
)

// reasons is how many weir.Reasons there are, and none.
const reasons = int(weir.Throttled) + 1

// WaitBounds are the upper bounds of the buckets that waits are counted in.
var WaitBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
	30 * time.Second, time.Minute,
}

// waits count how long those waited who were granted.
type waits struct {
	counts [len(WaitBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (w *waits) add(d time.Duration) {
	i, _ := slices.BinarySearch(WaitBounds[:], d)
	w.counts[i].Add(1)
	w.sum.Add(int64(d))
}

// Waits is a histogram: Counts[i] of those granted waited at most WaitBounds[i],
// and longer than the bound before it; the last longer than all.
type Waits struct {
	Counts [len(WaitBounds) + 1]uint64
	Sum    time.Duration
}

func (w *waits) load() (h Waits) {
	for i := range w.counts {
		h.Counts[i] = w.counts[i].Load()
	}
	h.Sum = time.Duration(w.sum.Load())
	return h
}

// RuleStats is the state of a rule, and what became of requests under it since
// it came.
type RuleStats struct {
	Rule *Rule

	Allowed   uint64
	Denied    map[weir.Reason]uint64
	Cancelled uint64 // left while waiting, or ran out of time
	Shadowed  uint64 // allowed, but for the mode they would have been denied
	// TrialAllowed and TrialDenied are what the candidate would have done. It hears of
	// what is given back whatever it said, so where much is, it seems too generous.
	TrialAllowed, TrialDenied uint64

	Waiting   int    // now
	Waits     Waits  // of those who stood in line and were granted
	Memory    int    // bytes for counts, the candidate's too; those that rules have in common are the first one's
	Forgotten uint64 // counts given up too early, because memory was full

	Leases LeaseStats
}

// Stats is the state of a Server.
type Stats struct {
	Rules []RuleStats
	// Unmatched are the requests that no rule matched.
	UnmatchedAllowed, UnmatchedDenied uint64
	Leases                            int       // held, of all rules
	LeasesRefused                     uint64    // because Config.MaxLeases are held
	Reloads                           uint64    // rules put into force, the first included
	Loaded                            time.Time // when the present ones were
}

// Stats returns the state, and the counts.
func (s *Server) Stats() Stats {
	set := s.rules.Load()
	st := Stats{
		Reloads: set.id, Loaded: set.loaded,
		UnmatchedDenied: s.unmatchedKeys[0].Load(), UnmatchedAllowed: s.unmatchedKeys[1].Load(),
	}
	st.Leases, st.LeasesRefused = s.leases.count()
	seen := map[*keyedtable.Windows[string]]bool{}
	for _, r := range set.inForce() {
		rs := r.stats()
		if r.Quoted() && !repeated(r.live.buckets, seen) {
			rs.Memory, rs.Forgotten = r.live.buckets.memory()
		}
		if r.live.trial != nil {
			bytes, _ := r.live.trial.memory()
			rs.Memory += bytes
		}
		st.Rules = append(st.Rules, rs)
	}
	return st
}

func (r *Rule) stats() RuleStats {
	c := &r.live.counts
	st := RuleStats{
		Rule: r, Allowed: c.allowed.sum(), Denied: map[weir.Reason]uint64{}, Cancelled: c.cancelled.Load(),
		Shadowed: c.shadowed.Load(), TrialDenied: c.trial[0].Load(), TrialAllowed: c.trial[1].Load(),
		Waiting: int(r.live.lines.waiting.Load()), Waits: c.waited.load(), Leases: r.live.gates.stats(),
	}
	for why := range c.denied {
		if n := c.denied[why].Load(); n > 0 {
			st.Denied[weir.Reason(why)] = n
		}
	}
	return st
}

// A Seen is a key that was asked for of late.
type Seen struct {
	Key             string
	Rules           []*Rule // that count for it
	Allowed, Denied uint64  // requests, since the key is remembered
	Waiting         int     // requests in line for it
}

// Top returns the n keys that were denied most or, if not denied, asked for most,
// of those remembered.
func (s *Server) Top(n int, denied bool) []Seen {
	var all []Seen
	for e := range s.keys.all {
		if seen := s.seen(e); !denied || seen.Denied > 0 {
			all = append(all, seen)
		}
	}
	by := func(k Seen) uint64 {
		if denied {
			return k.Denied
		}
		return k.Allowed + k.Denied
	}
	slices.SortFunc(all, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(max(n, 0), len(all))]
}

func (s *Server) seen(e *known) Seen {
	k := Seen{Key: e.key, Rules: e.found.rules, Allowed: e.allowed.Load(), Denied: e.denied.Load()}
	if e.found.set == 0 {
		k.Rules = s.rules.Load().find(e.key).rules
	}
	for _, r := range k.Rules {
		k.Waiting += r.live.lines.length(r.bucket(e.key))
	}
	return k
}

// length returns how many wait for a bucket.
func (l *lines) length(bucket string) int {
	if l.waiting.Load() == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	if q := l.of[spot{bucket: bucket}]; q != nil {
		n = q.n
	}
	for _, q := range l.own[bucket] {
		n += q.n
	}
	return n
}
