package adminapi

import "github.com/weir-go/weir/service/internal/server/decider"

// LeafState describes a leaf and its upstream.
type LeafState struct {
	URL       string            `json:"url,omitempty"`   // of the upstream
	Away      bool              `json:"away"`            // the upstream does not answer: decisions are degraded
	Error     string            `json:"error,omitempty"` // why it is away
	Leaves    int               `json:"leaves"`          // by which limits are divided without the upstream
	Keys      int               `json:"keys"`            // that the leaf knows
	Assigned  int               `json:"assigned"`        // of them, with an assignment
	Leases    int               `json:"leases"`          // that the leaf has granted or passed on
	Decisions map[string]uint64 `json:"decisions"`
}

// byStep returns decisions by the names of their steps.
func byStep(decisions *[decider.StepsCount]uint64) map[string]uint64 {
	all := map[string]uint64{}
	for step, n := range decisions {
		all[decider.Step(step).String()] = n
	}
	return all
}

// leafState returns the state of the leaf; nil if there is no upstream.
func (a *API) leafState() *LeafState {
	if a.cfg.Upstream == nil {
		return nil
	}
	stats := a.cfg.Upstream()
	st := &LeafState{
		URL: a.cfg.UpstreamURL, Away: stats.Away, Leaves: stats.Leaves, Keys: stats.Keys, Assigned: stats.Assigned, Leases: stats.Leases,
		Decisions: byStep(&stats.Decisions),
	}
	if stats.Reason != nil {
		st.Error = stats.Reason.Error()
	}
	return st
}
