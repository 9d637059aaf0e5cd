package server

import (
	"math"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// overrides are the windows of the clock in which the limits of descriptors count, by their
// unit. They are nil if such limits are token buckets.
type overrides map[time.Duration]*state

// compileOverrides makes the windows for next, or takes those of old.
func (s *Server) compileOverrides(next, old *version, share int) error {
	if next.Config.Overrides != config.FixedWindow {
		return nil
	}
	memory := overrideMemory(share)
	if old != nil && old.overrides != nil {
		next.overrides = old.overrides
		for _, st := range next.overrides {
			st.buckets.SetMemory(memory)
		}
		return nil
	}
	next.overrides = overrides{}
	for _, unit := range config.RateUnits[1:] {
		q := config.Quota{Rate: config.Rate{Count: math.MaxUint32, Period: unit}, Algorithm: config.FixedWindow}
		b, err := s.newBuckets(q, config.PerKey, memory)
		if err != nil {
			return err
		}
		next.overrides[unit] = &state{since: s.since(), buckets: b}
	}
	return nil
}

// overrideMemory returns the memory for the windows of a unit.
func overrideMemory(share int) int {
	return max(share/len(config.RateUnits[1:]), quota.MinMemory)
}

// overrideName returns the name for the windows of a unit in a snapshot. It is not ASCII,
// unlike the names of rules.
func overrideName(unit time.Duration) string {
	return "«limits of descriptors in " + unit.String() + "»"
}

// override returns the windows in which a quota of a request counts, and its bucket there; nil if
// it is a token bucket. A descriptor has one counter for each unit, as in
// envoyproxy/ratelimit: the rule of the descriptor and the limits that come with it share it.
func (rs *version) override(m *rules.Match, req *decider.Request) (b quota.Buckets, bucket string) {
	st := rs.overrides[req.Quota.Unit]
	if st == nil {
		return nil, ""
	}
	if len(m.Rated) > 0 && m.Rated[0].Rate.Period == req.Quota.Unit && m.Rated[0].Alone(req.Key) {
		return rs.at(m.Rated[0]).buckets, m.Rated[0].Bucket(req.Key)
	}
	return st.buckets, req.Key
}

// counts reports whether a quota needs no bucket of Requested: it counts in windows, or has
// no tokens.
func (o overrides) counts(q *decider.Quota) bool { return o[q.Unit] != nil || q.Empty() }
