package memory

import (
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/server/quota"
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
