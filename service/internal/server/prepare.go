package server

import (
	"slices"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// CheckRequests returns an error of decider.Decider if a request brings a quota that is not valid
// or not allowed, or asks for tokens where rules only have leases.
func (s *Server) CheckRequests(reqs []decider.Request) error {
	rs := s.rules.Load()
	for i := range reqs {
		k := [1]rules.Found{s.keys.Find(reqs[i].Key, rs.Set)}
		if err := s.prepareAll(rs, k[:], reqs[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Replaced prepares the descriptors of one request for decider.Decider.Batch: it sets quotas that
// are ignored to nil, and reports which requests take no tokens because the rule of another
// request replaces theirs. It returns nil if there are none. See decider.Decider.Descriptors.
func (s *Server) Replaced(reqs []decider.Request) []bool {
	rs := s.rules.Load()
	rs.DropQuotas(reqs)
	if !rs.Replaces() {
		return nil
	}
	keys := make([]rules.Found, len(reqs))
	for i := range reqs {
		keys[i] = s.keys.Find(reqs[i].Key, rs.Set)
	}
	names := rules.Replaced(keys, reqs)
	if len(names) == 0 {
		return nil
	}
	replaced := make([]bool, len(reqs))
	for i := range reqs {
		replaced[i] = names[keys[i].Name(&reqs[i])]
	}
	return replaced
}

// Awaits reports whether requests for keys in a slot are held, because its state is still to
// come: see Expect.
func (s *Server) Awaits(at uint16) bool {
	now := s.owned.now.Load()
	return now != nil && slices.ContainsFunc(now.holds, func(h hold) bool { return h.slots.Has(at) && h.until > s.clock.Now() })
}
