package adminapi

import "github.com/weir-go/weir/service/internal/server/decider"

// PeersState describes the fleet whose members share keys, as this instance sees it.
type PeersState struct {
	Self      string            `json:"self,omitempty"` // the name of this member; empty if it is none
	Quorum    bool              `json:"quorum"`         // it sees more than half of the members
	Members   []PeerState       `json:"members"`
	Decisions map[string]uint64 `json:"decisions"` // by step: exact, share or rule
}

// PeerState describes a member.
type PeerState struct {
	Name      string `json:"name"`
	Status    string `json:"status"`   // live, cut, dead, left or alias
	SinceMS   int64  `json:"since_ms"` // for how long it has been reached, or not
	Slots     int    `json:"slots"`    // of 65,536: its part of the keys
	Forwarded uint64 `json:"forwarded"`
	Failed    uint64 `json:"failed"`
}

// peersState returns the state of the fleet; nil if there is none.
func (a *API) peersState() *PeersState {
	if a.cfg.Peers == nil {
		return nil
	}
	stats := a.cfg.Peers()
	st := &PeersState{Self: stats.Self, Quorum: stats.Quorum, Members: []PeerState{}, Decisions: map[string]uint64{}}
	for i := range stats.Members {
		m := &stats.Members[i]
		st.Members = append(st.Members, PeerState{m.Name, m.Status.String(), m.Since.Milliseconds(), m.Slots, m.Forwarded, m.Failed})
	}
	for step, n := range stats.Decisions {
		st.Decisions[decider.Step(step).String()] = n
	}
	return st
}
