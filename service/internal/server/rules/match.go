package rules

import (
	"slices"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Unrated reports whether a request asks for tokens where rules only have leases.
func (m *Match) Unrated(req *decider.Request) bool { return m.LeaseOnly && req.Quota == nil }

// AllowsOwn reports whether requests for keys with these rules may bring a quota of their
// own. A rule in shadow mode changes nothing unless it says that they may.
func (m *Match) AllowsOwn() bool {
	if len(m.List) == 0 {
		return m.Set.Config.Unmatched != "deny"
	}
	for _, r := range m.Rated {
		if !r.OwnQuota && r.Mode != config.Shadow {
			return false
		}
	}
	return true
}

// InWindow reports whether a quota of a request, a limit of a descriptor, counts in a window of the clock. Otherwise it is a
// token bucket.
func (s *Set) InWindow(q *decider.Quota) bool {
	return s.Config.Overrides == config.FixedWindow && slices.Contains(config.RateUnits[1:], q.Unit)
}

// ShadowsOwn reports whether all rules that allow quotas of requests deny nothing.
func (m *Match) ShadowsOwn() bool {
	own := 0
	for _, r := range m.Rated {
		if r.Mode != config.Shadow {
			return false
		}
		if r.OwnQuota {
			own++
		}
	}
	return own > 0
}

// Dated reports whether a rule that can deny counts in calendar windows.
func (m *Match) Dated() bool {
	return slices.ContainsFunc(m.Rated, func(r *Rule) bool { return r.Algorithm == config.Calendar && r.Mode != config.Shadow })
}

// Limits reports whether a limit that a request asks for makes a difference.
func (m *Match) Limits(asked int) bool {
	return slices.ContainsFunc(m.Rated, func(r *Rule) bool { return r.OwnLimit(asked) > 0 })
}

// Denying returns the rule that denied, by its name; nil if none did.
func (m *Match) Denying(v *decider.Verdict) *Rule {
	if denied := v.Denied(); denied != nil {
		for _, r := range m.Rated {
			if r.Name == denied.Rule.Name {
				return r
			}
		}
	}
	return nil
}

// DropQuotas drops the quotas of descriptors for domains that a file of envoyproxy/ratelimit does
// not have.
func (s *Set) DropQuotas(reqs []decider.Request) {
	tree := s.Config.Descriptors
	if tree == nil {
		return
	}
	for i := range reqs {
		if reqs[i].Quota != nil && !tree.Knows(reqs[i].Key) {
			reqs[i].Quota = nil
		}
	}
}

// Replaced returns the names of rules of descriptors that rules of other requests replace.
func Replaced(keys []Found, reqs []decider.Request) map[string]bool {
	names := map[string]bool{}
	for i := range keys {
		if reqs[i].Quota != nil {
			continue
		}
		for _, r := range keys[i].List {
			for _, name := range r.Descriptor.Replaces {
				names[name] = true
			}
		}
	}
	return names
}

// Name returns the name by which the rule of a request, which has a Descriptor, can be
// replaced, or "".
func (m *Match) Name(req *decider.Request) string {
	if req.Quota != nil || len(m.List) == 0 {
		return ""
	}
	return m.List[0].Descriptor.Name
}
