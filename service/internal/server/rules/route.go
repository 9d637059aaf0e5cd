package rules

import (
	"cmp"
	"fmt"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
)

// Route returns the slot of a bucket. The single bucket of a rule has the slot of the name
// of the rule or, if all rules that match a key count, one that all such rules share.
func (r *Rule) Route(bucket string) uint16 {
	if r.Per == config.PerRule {
		return r.slot
	}
	return slot.Of(bucket)
}

// Route returns the slot of a key with these rules.
func (m *Match) Route(key string) uint16 {
	for _, r := range m.List {
		if r.Rated() || r.Concurrency != nil {
			return r.Route(r.Bucket(key))
		}
	}
	return slot.Of(key)
}

// RoutesByKey reports whether every key has its own slot.
func (s *Set) RoutesByKey() bool { return s.routesByKey }

func routesByKey(s *Set) bool {
	for _, r := range s.Rules {
		if r.Per == config.PerRule || r.Descriptor != nil && r.Descriptor.Shares != nil {
			return false
		}
	}
	return true
}

// CheckRoutes reports rules with buckets for one key that can have different owners in a fleet.
func (s *Set) CheckRoutes() error {
	key, rule := s.Mixed(func(r *config.Rule) bool { return r.Rated() || r.Concurrency != nil })
	if key == "" {
		return nil
	}
	return fmt.Errorf("server: the rules %q (per: key) and %q (per: rule): with apply: all, no member of a fleet can decide about both, because their buckets can have different owners: use apply: first, or a store", key, rule)
}

// Mixed returns the names of two rules that can count for the same key, of which one has a bucket
// for each key and one a single bucket, of the rules that have something. It returns "" if there
// are no two.
func (s *Set) Mixed(has func(*config.Rule) bool) (key, rule string) {
	first := map[config.Per]string{}
	for _, r := range s.Rules {
		if per := cmp.Or(r.Per, config.PerKey); has(&r.Rule) && first[per] == "" {
			first[per] = r.Name
		}
	}
	if len(first) < 2 || !s.All() {
		return "", ""
	}
	return first[config.PerKey], first[config.PerRule]
}
