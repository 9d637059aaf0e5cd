// Package rules compiles the rules of a file into an immutable Set, finds the rules that count
// for a key in it, and remembers them for the keys that are asked for often. It holds no buckets
// and no leases: those have their place by Rule.Index.
package rules

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Rule is a compiled config.Rule. It is immutable, but for its Tally.
type Rule struct {
	config.Rule
	// Index is the place of its state: its place in Set.Rules or, of an effective rule (see
	// Set.Effective), that of its window length in Set.Periods.
	Index int
	// Number is Index or, of an effective rule, a number up to MaxEffective.
	Number int
	Tally  *Tally
	// NameHash is the FNV-1a hash of the name, the same in every process.
	NameHash uint64
	// Ref is the rule in answers.
	Ref *decider.RuleRef
	// Interval is the time between two tokens of a token bucket, in nanoseconds. It
	// is zero for windows, and for a bucket that is never refilled.
	Interval float64

	slot uint16 // with per: rule, that of its bucket
}

func newRule(c config.Rule) *Rule {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	r := &Rule{Rule: c, NameHash: h.Sum64(), Ref: refOf(&c)}
	if !c.Algorithm.Windows() && c.Rate.Count > 0 {
		r.Interval = float64(c.Rate.Period) / float64(c.Rate.Count)
	}
	return r
}

// refOf returns a rule as answers tell it.
func refOf(c *config.Rule) *decider.RuleRef {
	r := &decider.RuleRef{
		Name: c.Name, Mode: string(c.Mode), Rate: decider.Rate{Count: c.Rate.Count, Period: c.Rate.Period}, Limit: c.Limit(), Algorithm: string(c.Algorithm),
		Per: string(c.Per), Text: c.Quota.Text(), MaxQueue: config.QueueSize(c.Queue),
	}
	r.Kind, r.Pattern = c.Pattern()
	if c.Candidate != nil {
		r.Trial = c.Candidate.Text()
	}
	if d := c.Descriptor; d != nil {
		r.Descriptor = &decider.DescriptorRef{Name: d.Name, Unlimited: d.Unlimited, Quota: d.Quota, Shadow: d.Shadow, Metadata: d.Metadata}
	}
	return r
}

// Bucket returns the name of the bucket that a key has under the rule.
func (r *Rule) Bucket(key string) string {
	switch {
	case r.Per == config.PerRule:
		return ""
	case r.Descriptor != nil && r.Descriptor.Shares != nil:
		return descriptor.Replace(key, r.Descriptor.Shares)
	}
	return key
}

// Alone reports whether the bucket of a key has the name of the key: it is not shared with
// keys of other values.
func (r *Rule) Alone(key string) bool {
	return r.Descriptor == nil || r.Descriptor.Shares == nil || descriptor.Replace(key, r.Descriptor.Shares) == key
}

// OwnLimit returns a limit that a request asks for, or 0 if it makes no
// difference: a token bucket can only be made smaller.
func (r *Rule) OwnLimit(limit int) int {
	if limit == r.Limit() || limit > r.Limit() && r.Interval > 0 {
		return 0
	}
	return limit
}

// Within returns the number of tokens that a request can have at once: own, or
// the rule's limit if own is zero.
func (r *Rule) Within(own int) int {
	if own > 0 {
		return own
	}
	return r.Limit()
}

// MaxSpan bounds instants and durations, so that sums of a few of them do not
// overflow.
const MaxSpan = math.MaxInt64 / 8

// LeaseTerms are the durations of leases under a set of rules.
type LeaseTerms struct{ TTL, MaxTTL time.Duration }

// A Match is the rules that count for a key. It is immutable, but for Memo.
type Match struct {
	Set   *Set // nil if the rules are not known any more
	List  []*Rule
	Rated []*Rule // of List: the rules that have a rate
	// LeaseOnly is set if no rule has a rate, but a rule that is enforced has a concurrency.
	LeaseOnly bool
	// Memo is for the counts: they keep a result for these rules in it. It is empty at first.
	Memo atomic.Value
}

func newMatch(s *Set, list ...*Rule) *Match {
	m := &Match{Set: s, List: list}
	leased := false
	for _, r := range list {
		if r.Rated() {
			m.Rated = append(m.Rated, r)
		}
		leased = leased || r.Concurrency != nil && r.Mode != config.Shadow
	}
	m.LeaseOnly = leased && len(m.Rated) == 0
	return m
}

// First returns the first rule that matches the key, as answers refer to it; nil if there is none.
func (m *Match) First() *decider.RuleRef {
	if len(m.List) == 0 {
		return nil
	}
	return m.List[0].Ref
}

// A Set is the compiled rules of one file. It is immutable.
type Set struct {
	Config *config.Rules
	ID     uint64 // increases with each Compile
	Loaded time.Time
	// Rules are in the order of the file. Rules that are off are left out.
	Rules []*Rule
	// Periods are the window lengths of an overlay set, in ascending order: see
	// Overlay.
	Periods []time.Duration

	patterns    *match.Set
	only        bool // the first rule matches every key, and no other counts
	replaces    bool
	routesByKey bool
	matches     []*Match // for each rule, the match of that rule alone
	none        *Match   // no rule
	effective   effective
}

// maxPeriods bounds the window lengths of an overlay set: each has a table.
const maxPeriods = 1000

// Compile compiles rules, which must be complete and must not change afterwards. Rules that continue those
// of the Set before, which may be nil, keep their Tally; effective rules keep it with their numbers, if all their parts are
// still there.
func Compile(cfg *config.Rules, before *Set) (*Set, error) {
	s, was := &Set{Config: cfg, ID: 1, Loaded: time.Now()}, before.ByName()
	if before != nil {
		s.ID = before.ID + 1
	}
	s.none = newMatch(s)
	var patterns []match.Pattern
	for _, c := range cfg.Rules {
		if cfg.Descriptors != nil {
			s.replaces = s.replaces || c.Descriptor.Replaces != nil
		} else if c.Mode == config.Off {
			continue
		} else {
			patterns = append(patterns, Pattern(&c))
		}
		r := newRule(c)
		r.Index, r.Number, r.Tally = len(s.Rules), len(s.Rules), new(Tally)
		if old := was[r.Name]; r.Continues(old) {
			r.Tally = old.Tally
		}
		if r.slot = slot.Of(r.Name); s.All() {
			r.slot = slot.Of("")
		}
		s.Rules = append(s.Rules, r)
		s.matches = append(s.matches, newMatch(s, r))
	}
	s.routesByKey = routesByKey(s)
	if cfg.Descriptors != nil {
		return s, nil
	}
	var err error
	if s.patterns, err = match.New(patterns); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if cfg.Merge {
		if err := s.checkOverlay(); err != nil {
			return nil, err
		}
		s.effective.known, s.effective.rest = map[string]*effectiveMatch{}, new(Tally)
		if before != nil && before.Config.Merge {
			s.keepEffective(before)
		}
		return s, nil
	}
	everyKey := match.Pattern{Kind: match.Glob, Text: "*"}
	s.only = len(patterns) > 0 && patterns[0] == everyKey && (!s.All() || len(patterns) == 1)
	return s, nil
}

// checkOverlay reports rules that cannot overlay each other: all must be windows
// for each key, because keys share a table for each window length.
func (s *Set) checkOverlay() error {
	base := &s.Config.Rules[0]
	if !base.Algorithm.Windows() || base.Per == config.PerRule || base.Candidate != nil || base.Concurrency != nil || base.Mode == config.Off {
		return fmt.Errorf("server: rule %q: rules that overlay each other must be windows for each key, without a candidate or a concurrency", base.Name)
	}
	for _, r := range s.Config.Rules {
		if p := r.Rate.Period; p > 0 {
			s.Periods = append(s.Periods, p)
		}
	}
	slices.Sort(s.Periods)
	if s.Periods = slices.Compact(s.Periods); len(s.Periods) > maxPeriods {
		return fmt.Errorf("server: the rules have %d window lengths: must be at most %d", len(s.Periods), maxPeriods)
	}
	return nil
}

// Pattern returns the pattern of a rule.
func Pattern(c *config.Rule) match.Pattern {
	switch {
	case c.Glob != "":
		return match.Pattern{Kind: match.Glob, Text: c.Glob}
	case c.Regex != "":
		return match.Pattern{Kind: match.Regex, Text: c.Regex}
	case c.Entries != nil:
		_, text := c.Pattern()
		return match.Pattern{Kind: match.Entries, Text: text}
	}
	return match.Pattern{Kind: match.Exact, Text: c.Key}
}

// All reports whether all rules that match a key count, rather than the first.
func (s *Set) All() bool { return s.Config.Apply == config.All && s.Config.Descriptors == nil }

// Replaces reports whether a rule replaces others: see config.Descriptor.
func (s *Set) Replaces() bool { return s.replaces }

// Find returns the rules that count for a key, in order.
func (s *Set) Find(key string) *Match {
	switch {
	case s.only:
		return s.matches[0]
	case s.Config.Merge:
		return s.findEffective(s.patterns.All(key, nil))
	case !s.All():
		if i := s.first(key); i >= 0 {
			return s.matches[i]
		}
		return s.none
	}
	var list []*Rule
	for _, i := range s.patterns.All(key, nil) {
		list = append(list, s.Rules[i])
	}
	if list == nil {
		return s.none
	}
	return newMatch(s, list...)
}

// first returns the place in Rules of the first rule that matches the key, or -1.
func (s *Set) first(key string) int {
	if s.Config.Descriptors == nil {
		return s.patterns.First(key)
	}
	domain, entries, ok := descriptor.Parse(key)
	if !ok {
		return -1
	}
	first, _ := s.Config.Descriptors.Find(domain, entries)
	return first
}

// ByName returns the rules by their names; none if they overlay each other, or if s is nil.
func (s *Set) ByName() map[string]*Rule {
	all := map[string]*Rule{}
	if s != nil && !s.Config.Merge {
		for _, r := range s.Rules {
			all[r.Name] = r
		}
	}
	return all
}
