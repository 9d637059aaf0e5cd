package memory

import (
	"math"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// compileOverrides makes the windows for next, or takes those of old.
func (m *Counts) compileOverrides(next, old *Version, share int) error {
	if next.Config.Overrides != config.FixedWindow {
		return nil
	}
	memory := overrideMemory(share)
	if old != nil && old.overrides != nil {
		next.overrides = old.overrides
		for _, st := range next.overrides {
			st.Buckets.SetMemory(memory)
		}
		return nil
	}
	next.overrides = map[time.Duration]*State{}
	for _, unit := range config.RateUnits[1:] {
		q := config.Quota{Rate: config.Rate{Count: math.MaxUint32, Period: unit}, Algorithm: config.FixedWindow}
		b, err := m.newBuckets(q, config.PerKey, memory)
		if err != nil {
			return err
		}
		next.overrides[unit] = &State{Since: m.Since(), Buckets: b}
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
func (v *Version) override(m *rules.Match, req *decider.Request) (b quota.Buckets, bucket string) {
	st := v.overrides[req.Quota.Unit]
	if st == nil {
		return nil, ""
	}
	if len(m.Rated) > 0 && m.Rated[0].Rate.Period == req.Quota.Unit && m.Rated[0].Alone(req.Key) {
		return v.At(m.Rated[0]).Buckets, m.Rated[0].Bucket(req.Key)
	}
	return st.Buckets, req.Key
}
