package memory

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/usage"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A Rule is a rule with its state.
type Rule struct {
	*rules.Rule
	*State
	Candidate quota.Buckets // nil without one
	// base is the limit under which the rule uses buckets that it shares with
	// others, where rules overlay each other. It is 0 if the buckets are its own.
	base int
}

// A State is the mutable part of a rule. It survives a reload.
type State struct {
	Since   time.Duration // when it began to count
	Buckets quota.Buckets // nil without a rate
	Queue   quota.Queue
	// Due, if not nil, returns tokens that others have had of a bucket since the last call: the node is charged for them
	// when it decides.
	Due atomic.Pointer[func(bucket string, now time.Duration) int]

	charging sync.Mutex // held while a debt is computed and charged
}

// A Version is the rules of a Set with their states.
type Version struct {
	*rules.Set
	counts *Counts

	rules     []Rule                   // by Rule.Index; nil if rules overlay each other
	overlays  []*State                 // by Rule.Index, if they do: of the windows of a period, which keys share
	overrides map[time.Duration]*State // by unit: the windows of the limits of descriptors; nil if these are token buckets
	before    *Version                 // while the Set comes into force
}

// Current returns the rules that were last passed to Use.
func (m *Counts) Current() *Version { return m.rules.Load() }

// find returns a Set with its states; nil if it is not in force any more.
func (m *Counts) find(set *rules.Set) *Version {
	v := m.rules.Load()
	for v != nil && v.Set != set {
		v = v.before
	}
	return v
}

// At returns a rule of the Set with its state. Where rules overlay each other, the limit is passed to each call.
func (v *Version) At(r *rules.Rule) Rule {
	if v.rules == nil {
		share := v.counts.share(r.Quota)
		return Rule{Rule: r, State: v.overlays[r.Index], base: share.Limit()}
	}
	return v.rules[r.Index]
}

// at is At, but returns a pointer, for which it may use room.
func (v *Version) at(r *rules.Rule, room *Rule) *Rule {
	if v.rules != nil {
		return &v.rules[r.Index]
	}
	*room = v.At(r)
	return room
}

// list is At for several rules. It does not return nil.
func (v *Version) list(some []*rules.Rule) []Rule {
	list := make([]Rule, len(some))
	for i, r := range some {
		list[i] = v.At(r)
	}
	return list
}

// States yields the states of all rules.
func (v *Version) States(yield func(*State) bool) {
	if v == nil {
		return
	}
	if v.rules == nil {
		slices.Values(v.overlays)(yield)
		return
	}
	for i := range v.rules {
		if !yield(v.rules[i].State) {
			return
		}
	}
}

// Use puts rules into force: see counts.Counts. A rule with the same name keeps its counts and its queue, unless its new quota
// is of another kind. A new rate does not change the tokens in its buckets. A request that waits stays where it is unless other
// rules count for its key now: then it waits under these, before requests that arrive later.
func (m *Counts) Use(next *rules.Set) (done func(), err error) {
	if m.cfg.Check != nil {
		if err := m.cfg.Check(next); err != nil {
			return nil, err
		}
	}
	old := m.rules.Load()
	v := &Version{Set: next, counts: m}
	if next.Config.Merge {
		err = m.compileOverlays(v, old)
	} else {
		err = m.compile(v, old)
	}
	if err != nil {
		return nil, err
	}
	if old == nil {
		m.rules.Store(v)
		return func() {}, nil
	}
	both := *v
	both.before = old
	move := m.move(old, v)
	m.rules.Store(&both)
	return func() {
		m.rules.Store(v)
		move()
	}, nil
}

// compile makes the states of rules. Rules that were in force keep theirs where they
// can. If there is an error, nothing has changed.
func (m *Counts) compile(next, old *Version) error {
	if m.cfg.Fleet != nil {
		if err := next.CheckRoutes(); err != nil {
			return err
		}
	}
	memory, err := m.shareOfMemory(next.Set)
	if err != nil {
		return err
	}
	was := old.byName()
	next.rules = make([]Rule, len(next.Rules))
	for i, c := range next.Rules {
		if next.rules[i], err = m.newRule(c, was[c.Name], memoryOf(&c.Rule, memory)); err != nil {
			return fmt.Errorf("server: rule %q: %w", c.Name, err)
		}
	}
	if err := m.compileOverrides(next, old, memory); err != nil {
		return err
	}
	// From here on nothing can fail.
	m.own.SetMemory(m.ownMemory(memory))
	for i := range next.rules {
		r := &next.rules[i]
		if w := was[r.Name]; w.State == r.State && r.Buckets != nil {
			r.Buckets.SetQuota(m.share(r.Quota))
		}
		if r.Candidate != nil {
			r.Candidate.SetQuota(m.share(*r.Rule.Candidate))
		}
		r.setMemory(memoryOf(&r.Rule.Rule, memory))
	}
	return nil
}

// newRule returns a rule with the state of the rule that it replaces, if there is one and
// if its state can serve. Otherwise the rule begins to count. The
// candidate keeps its buckets likewise.
func (m *Counts) newRule(c *rules.Rule, was Rule, memory int) (r Rule, err error) {
	r.Rule = c
	switch {
	case c.Candidate == nil:
	case was.Candidate != nil && was.Per == c.Per && rules.SameKind(*was.Rule.Candidate, *c.Candidate):
		r.Candidate = was.Candidate
	default:
		if r.Candidate, err = m.newBuckets(m.share(*c.Candidate), c.Per, memory); err != nil {
			return r, err
		}
	}
	if c.Continues(was.Rule) {
		r.State = was.State
		return r, nil
	}
	r.State = &State{Since: m.Since()}
	if c.Rated() {
		if r.Buckets, err = m.newBuckets(m.share(c.Quota), c.Per, memory); err != nil {
			return r, err
		}
	}
	r.Queue.Init(m.clock, m.cfg.Room, r.Buckets)
	return r, nil
}

// newBuckets returns full buckets.
func (m *Counts) newBuckets(q config.Quota, per config.Per, memory int) (quota.Buckets, error) {
	b, err := quota.New(m.clock, q, per, memory)
	if err == nil && m.cfg.Fleet != nil {
		b.Share(*m.cfg.Fleet)
	}
	return b, err
}

// byName returns the rules by their names; none if they overlay each other, or if v is nil.
func (v *Version) byName() map[string]Rule {
	all := map[string]Rule{}
	if v != nil {
		for _, r := range v.rules {
			all[r.Name] = r
		}
	}
	return all
}

// Since returns the instant that states note as their beginning. Nodes that share their limits,
// and members of a fleet, must all note the same, because grants are settled at any of them.
func (m *Counts) Since() time.Duration {
	if m.cfg.Instances > 0 || m.cfg.Fleet != nil {
		return 0
	}
	return m.clock.Now()
}

// take takes n tokens of a key, if no request waits for them. ownLimit is as
// Rule.OwnLimit returns it; tracked is as in quota.Buckets.
func (r *Rule) take(key string, fingerprint uint64, at time.Duration, n, ownLimit int, tracked bool) weir.Decision {
	bucket, limit := r.Bucket(key), r.limitFor(ownLimit)
	if due := r.Due.Load(); due != nil {
		if n := (*due)(bucket, at); n > 0 {
			r.Charge(key, at, n)
		}
	}
	if r.Candidate != nil && n > 0 {
		r.try(bucket, at, n, tracked)
	}
	if n == 0 || r.Queue.Busy() {
		return r.Queue.Decide(bucket, fingerprint, at, n, ownLimit, limit, r.Within(ownLimit), tracked)
	}
	return r.Buckets.Take(bucket, fingerprint, at, n, limit, tracked)
}

// limitFor returns the limit to pass to the buckets.
func (r *Rule) limitFor(ownLimit int) int {
	if ownLimit > 0 {
		return ownLimit
	}
	return r.base
}

// try counts what the candidate decides.
func (r *Rule) try(bucket string, at time.Duration, n int, tracked bool) {
	if r.Candidate.Take(bucket, r.Candidate.Fingerprint(bucket), at, n, 0, tracked).OK {
		r.Tally.TrialAllowed.Add(1)
	} else {
		r.Tally.TrialDenied.Add(1)
	}
}

// settle charges n tokens instead of the was tokens that were taken at an instant. Requests
// that wait get what is returned. The candidate settles too, whatever it decided.
func (r *Rule) settle(key string, at time.Duration, was, n int) int {
	bucket := r.Bucket(key)
	if r.Candidate != nil {
		r.Candidate.Settle(bucket, at, was, n)
	}
	return r.Queue.Settle(bucket, at, was, n)
}

// charge settles under one rule, within the debt that it allows. The instant of the grant is
// rounded down to whole milliseconds.
func (r *Rule) charge(key string, at time.Duration, was, n int) int {
	if n > was {
		r.charging.Lock()
		defer r.charging.Unlock()
		n = min(n, was+r.room(key))
	}
	if r.Algorithm.Windows() {
		at += usage.Grain // its window may have begun in the millisecond
	}
	return r.settle(key, at, was, n)
}

// Charge charges tokens that others have used, within the debt that the rule allows.
func (r *Rule) Charge(key string, at time.Duration, n int) {
	r.charging.Lock()
	defer r.charging.Unlock()
	if n = min(n, r.room(key)); n > 0 {
		r.Buckets.Settle(r.Bucket(key), at, 0, n)
	}
}

// room returns how many tokens the bucket of a key can still be charged.
func (r *Rule) room(key string) int {
	return counts.Chargeable(r.Rule, r.Buckets.Used(r.Bucket(key)))
}

// fingerprint returns that of the bucket of a key.
func (r *Rule) fingerprint(key string) uint64 { return r.Buckets.Fingerprint(r.Bucket(key)) }

// fingerprintOf is fingerprint for the i-th of the rules with a rate of a key, which may be nil.
func (r *Rule) fingerprintOf(i int, k *rules.Known, key string) uint64 {
	if k == nil || i > 0 {
		return r.fingerprint(key)
	}
	print := k.Bucket.Load()
	if print == 0 {
		print = r.fingerprint(key)
		k.Bucket.Store(print)
	}
	return print
}
