package server

import "github.com/weir-go/weir/service/internal/server/decider"

// CheckQuotas returns an error of decider.Decider if a request brings a quota that is not valid
// or not allowed.
func (s *Server) CheckQuotas(reqs []decider.Request) error {
	rs := s.rules.Load()
	for i := range reqs {
		req := &reqs[i]
		if req.Quota == nil {
			continue
		}
		if !rs.overrides.counts(req.Quota) {
			if _, err := compileOwn(req.Quota); err != nil {
				return err
			}
		}
		if !s.keys.find(req.Key, rs).match.allowsOwn(rs) {
			return decider.ErrOwnQuota
		}
	}
	return nil
}

// Replaced prepares the descriptors of one request for decider.Decider.Batch: it sets quotas that
// are ignored to nil, and reports which requests take no tokens because the rule of another
// request replaces theirs. It returns nil if there are none. See decider.Decider.Descriptors.
func (s *Server) Replaced(reqs []decider.Request) []bool {
	rs := s.rules.Load()
	rs.dropOverrides(reqs)
	if !rs.Replaces() {
		return nil
	}
	keys := make([]found, len(reqs))
	for i := range reqs {
		keys[i] = s.keys.find(reqs[i].Key, rs)
	}
	names := replacedRules(keys, reqs)
	if len(names) == 0 {
		return nil
	}
	replaced := make([]bool, len(reqs))
	for i := range reqs {
		replaced[i] = names[keys[i].name(&reqs[i])]
	}
	return replaced
}
