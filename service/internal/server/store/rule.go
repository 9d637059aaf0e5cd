package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A storedRule says how the store counts the buckets of a rule.
type storedRule struct {
	quota redisscript.Quota
	most  time.Duration // the most that a bucket is ahead of time, beyond its burst
	name  string        // ends the keys of its buckets
}

// clockGrain bounds the difference of two readings of the store's clock, of nodes that fail
// over to each other.
const clockGrain = time.Second

// Check returns an error for rules that a store, which may be a Cluster, cannot count.
func Check(set *rules.Set, cluster bool) error {
	for _, r := range set.Rules {
		err := away.Undated(r)
		switch {
		case err != nil:
		case r.Concurrency != nil && r.Concurrency.Limit == config.Auto:
			err = fmt.Errorf("concurrency.limit: auto finds the limit of one instance: with a store of shared limits, give a number")
		case r.Rated():
			_, err = newStoredRule(r, r.Name)
		}
		if err != nil {
			return fmt.Errorf("server: rule %q: %w", r.Name, err)
		}
	}
	if cluster {
		return checkSlots(set)
	}
	return nil
}

// storedSet has how the store counts the rules of a Set, by Rule.Index; nil for rules without a rate.
type storedSet struct {
	set   *rules.Set
	rules []*storedRule
}

// Use takes rules that come into force soon: see counts.Counts.
func (s *Counts) Use(next *rules.Set) (done func(), err error) {
	if done, err = s.Counts.Use(next); err == nil && !next.Config.Merge {
		all := &storedSet{set: next, rules: make([]*storedRule, len(next.Rules))}
		for i, r := range next.Rules {
			if r.Rated() {
				all.rules[i], _ = newStoredRule(r, r.Name) // no error: they are checked
			}
		}
		s.stored.Store(all)
	}
	return done, err
}

// storedRule returns how the store counts a rule with a rate.
func (s *Counts) storedRule(set *rules.Set, r *rules.Rule) *storedRule {
	if all := s.stored.Load(); all != nil && all.set == set {
		return all.rules[r.Index]
	}
	name := r.Name
	if set.Config.Merge {
		name = memory.WindowName(r.Rate.Period)
	}
	st, _ := newStoredRule(r, name) // windows of all periods can be stored
	return st
}

// newStoredRule returns how the store counts a rule with a rate, by a name.
func newStoredRule(r *rules.Rule, name string) (*storedRule, error) {
	st := &storedRule{name: storedName(name) + kindSuffix(r.Algorithm)}
	var err error
	if st.quota, err = storedQuota(r.Quota); err != nil {
		return nil, fmt.Errorf("the store cannot count it: %w", err)
	}
	debt := r.Limit() // after an absence of the store
	if r.MaxDebt != nil {
		debt = max(debt, *r.MaxDebt)
	}
	if r.Rate.Count > 0 {
		refill := time.Duration(min(float64(debt)/float64(r.Rate.Count)*float64(r.Rate.Period), float64(maxStored)))
		st.most = max(refill, min(r.MaxWait, maxStored)) + clockGrain
	}
	return st, nil
}

// maxStored bounds times for the store, so that sums of them do not overflow.
const maxStored = time.Duration(1 << 60)

// storedQuota returns a quota as the store counts it.
func storedQuota(q config.Quota) (redisscript.Quota, error) {
	switch {
	case q.Algorithm == config.Sliding:
		return redisscript.NewWindow(redisscript.SlidingWindow, q.Rate.Count, q.Rate.Period)
	case q.Algorithm == config.FixedWindow:
		return redisscript.NewWindow(redisscript.ClockWindow, q.Rate.Count, q.Rate.Period)
	case q.Algorithm == config.Fixed, q.Rate.Count == 0: // nothing passes
		return redisscript.NewWindow(redisscript.FixedWindow, q.Rate.Count, q.Rate.Period)
	}
	return redisscript.NewQuota(gcra.Per(q.Rate.Count, q.Rate.Period, q.Limit()))
}

// storedKey returns the key in the store of a bucket, with the name of what counts it:
//
//	weir:{user:7}:logins
//	weir:rules:{*}:others    of the one bucket of a rule
//
// The bucket is the hash tag, so that all buckets of a key are in one slot of a Cluster. A
// bucket that begins with a brace would leave the tag empty: its keys have a fixed tag. Names have
// no closing brace, so keys of different buckets differ.
func (s *Counts) storedKey(bucket, name string) string {
	if strings.HasPrefix(bucket, "}") {
		return s.cfg.Prefix + "-{=}" + bucket + "}:" + name
	}
	if bucket == "" {
		return s.cfg.Prefix + "rules:{*}:" + name
	}
	return s.cfg.Prefix + "{" + bucket + "}:" + name
}

// storedName returns a name without a closing brace. Names of rules have no backslash.
func storedName(name string) string { return strings.ReplaceAll(name, "}", `\`) }

// checkSlots reports rules with buckets for one key in different slots of a Cluster.
func checkSlots(set *rules.Set) error {
	for _, what := range []struct {
		name string
		has  func(*config.Rule) bool
	}{{"rate", (*config.Rule).Rated}, {"concurrency", func(r *config.Rule) bool { return r.Concurrency != nil }}} {
		if key, rule := set.Mixed(what.has); key != "" {
			return fmt.Errorf("server: the rules %q (per: key) and %q (per: rule) both have a %s: with apply: all, a Redis Cluster cannot decide about both in one call, because their buckets are in different slots: use apply: first, or a store that is no Cluster",
				key, rule, what.name)
		}
	}
	return nil
}

// kindSuffix tells buckets apart that count in another way, after a change of the rule.
func kindSuffix(a config.Algorithm) string {
	if a.Windows() {
		return ":" + string(a)
	}
	return ""
}
