package server

import (
	"cmp"
	"fmt"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/ruleset"
)

// Route returns the slot of a request: the owner of the slot decides the request.
func (s *Server) Route(req *decider.Request) uint16 {
	if req.Quota != nil { // the rules do not matter
		return slot.Of(req.Key)
	}
	return s.RouteKey(req.Key)
}

// RouteKey returns the slot of the leases and grants of a key, and of requests without a
// quota of their own.
func (s *Server) RouteKey(key string) uint16 {
	rs := s.rules.Load()
	if rs.routesByKey {
		return slot.Of(key)
	}
	return s.keys.find(key, rs).match.routeOf(key)
}

// routeOf returns the slot of a key with these rules.
func (m *match) routeOf(key string) uint16 {
	for _, r := range m.list {
		if r.Rated() || r.Concurrency != nil {
			return r.route(r.Bucket(key))
		}
	}
	return slot.Of(key)
}

// route returns the slot of a bucket. The single bucket of a rule has the slot of the name
// of the rule or, if all rules that match a key count, one that all such rules share.
func (r *rule) route(bucket string) uint16 {
	if r.Per == config.PerRule {
		return r.singleRoute
	}
	return slot.Of(bucket)
}

// singleRoute returns the slot of the single bucket of a rule.
func singleRoute(set *ruleset.Set, r *config.Rule) uint16 {
	if set.All() {
		return slot.Of("")
	}
	return slot.Of(r.Name)
}

// routesByKey reports whether every key has its own slot.
func routesByKey(set *ruleset.Set) bool {
	for _, r := range set.Rules {
		if r.Per == config.PerRule || r.Descriptor != nil && r.Descriptor.Shares != nil {
			return false
		}
	}
	return true
}

// checkRoutes reports rules whose buckets for one key can have different owners.
func (s *Server) checkRoutes(set *ruleset.Set) error {
	if s.cfg.Fleet == "" || !set.All() {
		return nil
	}
	first := map[config.Per]string{}
	for _, r := range set.Rules {
		per := cmp.Or(r.Per, config.PerKey)
		if (r.Rated() || r.Concurrency != nil) && first[per] == "" {
			first[per] = r.Name
		}
	}
	if len(first) > 1 {
		return fmt.Errorf("server: the rules %q (per: key) and %q (per: rule): with apply: all, no member of a fleet can decide about both, because their buckets can have different owners: use apply: first, or a store",
			first[config.PerKey], first[config.PerRule])
	}
	return nil
}
