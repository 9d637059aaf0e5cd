package memory

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// compileOverlays makes the states for next, where all rules that match a key overlay each other
// (config.Rules.Merge), or takes those of old. All keys of a period share one state.
func (m *Counts) compileOverlays(next, old *Version) error {
	base := next.Config.Rules[0]
	memory := max(m.cfg.Memory/max(len(next.Periods)+m.ownTables(), 1), quota.MinMemory)
	m.own.SetMemory(m.ownMemory(memory))
	for _, period := range next.Periods {
		st := old.stateOf(period)
		if st != nil && old.Config.Rules[0].Algorithm == base.Algorithm {
			st.Buckets.SetMemory(memory)
			next.overlays = append(next.overlays, st)
			continue
		}
		b, err := quota.SharedWindows(m.clock, base.Algorithm, period, memory)
		if err != nil {
			return err
		}
		if m.cfg.Fleet != nil {
			b.Share(*m.cfg.Fleet)
		}
		st = &State{Since: m.Since(), Buckets: b}
		st.Queue.Init(m.clock, m.cfg.Room, b)
		next.overlays = append(next.overlays, st)
	}
	return nil
}

// stateOf returns the state of the windows of a period; nil if there is none.
func (v *Version) stateOf(period time.Duration) *State {
	if v == nil || v.overlays == nil {
		return nil
	}
	if i, ok := slices.BinarySearch(v.Periods, period); ok {
		return v.overlays[i]
	}
	return nil
}

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
// it is a token bucket.
func (v *Version) override(m *rules.Match, req *decider.Request) (b quota.Buckets, bucket string) {
	st := v.overrides[req.Quota.Unit]
	if st == nil {
		return nil, ""
	}
	if r := counts.OverrideRule(m, req); r != nil {
		return v.At(r).Buckets, r.Bucket(req.Key)
	}
	return st.Buckets, req.Key
}
