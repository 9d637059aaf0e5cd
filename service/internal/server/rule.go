package server

import (
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/match"
)

// A Rule is one that is in force. It does not change.
type Rule struct {
	config.Rule
	print uint64 // of the name, the same in every process
	live  *live

	limit    int
	refills  bool    // it is of a token bucket, to which what was taken comes back in time
	interval float64 // between tokens, in nanoseconds, if it refills
}

func newRule(c config.Rule) *Rule {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	r := &Rule{Rule: c, print: h.Sum64(), limit: burst(c.Quota)}
	if r.refills = alike(c.Quota, config.Quota{}) && c.Rate.Count > 0; r.refills {
		r.interval = float64(c.Rate.Period) / float64(c.Rate.Count)
	}
	return r
}

// live is the state of a rule, which outlives a reload.
type live struct {
	since   time.Duration // when it began to count
	buckets buckets       // nil without a rate
	trial   buckets       // the candidate's; nil without one
	counts  counts

	faster atomic.Int64 // when its rate was last raised, on the Server's clock; 0 if it never was

	charging sync.Mutex // held while a debt is reckoned and made

	lines lines
	gates *gates
}

// Quoted reports whether the rule has a rate.
func (r *Rule) Quoted() bool { return r.live.buckets != nil }

// Limit returns the most tokens that a key can have at once.
func (r *Rule) Limit() int { return r.limit }

// bucket returns the key of the bucket that a request's key has under the rule.
func (r *Rule) bucket(key string) string {
	if r.Per == config.PerRule {
		return ""
	}
	return key
}

// queue returns how many may wait for one bucket.
func (r *Rule) queue() int {
	if r.Queue == nil {
		return config.DefaultQueue
	}
	return *r.Queue
}

// A ruleset is the rules that are in force at a time.
type ruleset struct {
	config *config.Rules
	rules  []*Rule
	match  *match.Set
	all    bool    // that match count, not just the first
	one    []found // for each rule, that it matches
	none   found   // that no rule does
	only   *found  // what every key matches: no need to look; nil if there is such a need
	id     uint64  // goes up with each reload
	loaded time.Time
	merged *merged // nil unless the rules are laid over each other
}

// newRuleset compiles rules, which take over what they can of the old ones.
// gone are those of the old whose lines nobody serves any more, and moved those
// that match other keys now, or have another mode.
func (s *Server) newRuleset(cfg *config.Rules, old *ruleset) (set *ruleset, gone []*live, moved []*Rule, err error) {
	set = &ruleset{id: 1, config: cfg, all: cfg.Apply == config.All, loaded: time.Now()}
	kept := map[string]*Rule{}
	if old != nil {
		set.id = old.id + 1
		for _, r := range old.inForce() {
			kept[r.Name] = r
		}
	}
	var patterns []match.Pattern
	for i := range cfg.Rules {
		if c := cfg.Rules[i]; c.Mode != config.Off {
			set.rules = append(set.rules, newRule(c))
			patterns = append(patterns, pattern(c))
		}
	}
	if set.match, err = match.New(patterns); err != nil {
		return nil, nil, nil, fmt.Errorf("server: %w", err)
	}
	set.none.set = set.id
	for i := range set.rules {
		set.one = append(set.one, found{set.id, set.rules[i : i+1 : i+1]})
	}
	if cfg.Merge {
		set.merge(s, old)
	} else if len(patterns) > 0 && patterns[0] == (match.Pattern{Kind: match.Glob, Text: "*"}) && (!set.all || len(patterns) == 1) {
		set.only = &set.one[0]
	}
	share := s.share(cfg)
	var common *pool
	if set.merged != nil {
		common = set.merged.pool
	}
	var changed, faster []*Rule
	for _, r := range set.inForce() {
		shares := common != nil && common.has(r.Quota)
		if was := kept[r.Name]; was != nil && same(was.Rule, r.Rule) && was.shares() == shares && (!shares || was.Rate.Period == r.Rate.Period) {
			r.live = was.live
			delete(kept, r.Name)
			changed = append(changed, r)
			if r.interval < was.interval {
				faster = append(faster, r)
			}
			if pattern(r.Rule) != pattern(was.Rule) || r.Mode != was.Mode {
				moved = append(moved, r)
			}
		} else if r.live, err = s.newLive(r.Rule, share, common); err != nil {
			return nil, nil, nil, fmt.Errorf("server: rule %q: %w", r.Name, err)
		} else {
			g := s.shut[r.Name]
			if was != nil {
				g = was.live.gates
			}
			if g != nil && g.per == r.Per {
				r.live.gates = g
			}
		}
	}
	// From here on nothing can fail.
	for _, r := range changed {
		r.live.update(r)
	}
	for _, r := range faster {
		r.live.faster.Store(int64(s.now()))
	}
	for _, r := range kept {
		gone = append(gone, r.live)
	}
	return set, gone, moved, nil
}

// share returns the memory that each rule has for its counts.
func (s *Server) share(cfg *config.Rules) int {
	n := 0
	for i := range cfg.Rules {
		if r := &cfg.Rules[i]; r.Mode != config.Off && r.Rate.Period > 0 && r.Per != config.PerRule {
			n++
		}
	}
	return max(s.cfg.Memory/max(n, 1), minMemory)
}

// minMemory is the least that a table of buckets or windows takes.
const minMemory = 64 << 10

// newLive returns a fresh state for a rule; from the pool, if there is one, comes
// what it has in common with others.
func (s *Server) newLive(c config.Rule, memory int, common *pool) (l *live, err error) {
	l = &live{since: s.now(), gates: newGates(s, &c)}
	l.lines.init(s, l)
	if c.Rate.Period > 0 {
		if c.Key != "" {
			memory = minMemory // there is but one
		}
		if common != nil {
			if l.buckets, err = common.buckets(c.Quota, memory); err != nil {
				return nil, err
			}
		}
		if l.buckets == nil {
			if l.buckets, err = newBuckets(c.Quota, c.Per, memory); err != nil {
				return nil, err
			}
		}
	}
	if c.Candidate != nil {
		l.trial, err = newBuckets(*c.Candidate, c.Per, memory)
	}
	return l, err
}

// same reports whether the state of one rule serves the other.
func same(a, b config.Rule) bool {
	return (a.Rate.Period > 0) == (b.Rate.Period > 0) && alike(a.Quota, b.Quota) && a.Per == b.Per &&
		(a.Candidate == nil) == (b.Candidate == nil) && (a.Candidate == nil || alike(*a.Candidate, *b.Candidate))
}

// shares reports whether the rule has its windows from a pool.
func (r *Rule) shares() bool {
	c, ok := r.live.buckets.(*counted)
	return ok && c.limit.Load() > 0
}

// update puts the state under the rule r.
func (l *live) update(r *Rule) {
	if l.buckets != nil {
		l.buckets.set(r.Quota)
		l.lines.serveAll()
	}
	if l.trial != nil {
		l.trial.set(*r.Candidate)
	}
}

func pattern(c config.Rule) match.Pattern {
	switch {
	case c.Glob != "":
		return match.Pattern{Kind: match.Glob, Text: c.Glob}
	case c.Regex != "":
		return match.Pattern{Kind: match.Regex, Text: c.Regex}
	}
	return match.Pattern{Kind: match.Exact, Text: c.Key}
}

// find returns the rules that count for a key, in their order.
func (set *ruleset) find(key string) *found {
	switch {
	case set.only != nil:
		return set.only
	case set.merged != nil:
		return set.merged.find(set.match.All(key, nil))
	case !set.all:
		if i := set.match.First(key); i >= 0 {
			return &set.one[i]
		}
		return &set.none
	}
	matches := set.match.All(key, nil)
	if len(matches) == 0 {
		return &set.none
	}
	f := &found{set: set.id}
	for _, i := range matches {
		f.rules = append(f.rules, set.rules[i])
	}
	return f
}

// inForce returns the rules that have a state.
func (set *ruleset) inForce() []*Rule {
	if set.merged != nil {
		return set.merged.all()
	}
	return set.rules
}

// counts are what became of requests under a rule. The first is written by
// every request.
type counts struct {
	allowed stripes

	denied    [reasons]atomic.Uint64 // by reason
	shadowed  atomic.Uint64          // what would have been denied, but for the mode
	trial     [2]atomic.Uint64       // what the candidate would have denied and allowed
	cancelled atomic.Uint64          // left while waiting, or ran out of time
	waited    waits
}

// stripes are a counter that goroutines on different keys write to in
// different places.
type stripes [8]struct {
	n atomic.Uint64
	_ [56]byte // so that no two have a cache line in common
}

func (s *stripes) add(at uint64) { s[at%uint64(len(s))].n.Add(1) }

func (s *stripes) sum() (n uint64) {
	for i := range s {
		n += s[i].n.Load()
	}
	return n
}
