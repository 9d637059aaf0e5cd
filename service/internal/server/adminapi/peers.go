package adminapi

import (
	"github.com/weir-go/weir/service/internal/ring"
)

// PeersState describes the fleet in which members share keys, as this instance sees it.
type PeersState struct {
	Self      string            `json:"self,omitempty"` // the name of this member; empty if it is none
	Quorum    bool              `json:"quorum"`         // it sees more than half of the members
	Members   []PeerState       `json:"members"`
	Decisions map[string]uint64 `json:"decisions"` // by step: exact, share or rule
}

// PeerState describes a member.
type PeerState struct {
	Name      string `json:"name"`
	URL       string `json:"url"`
	Status    string `json:"status"`   // live, cut, dead, left or alias
	SinceMS   int64  `json:"since_ms"` // for how long it has been reached, or not
	Slots     int    `json:"slots"`    // of 65,536: its part of the keys
	Forwarded uint64 `json:"forwarded"`
	Failed    uint64 `json:"failed"`
	// Rules identify its rules, as config.hash does those of this instance; empty if it has not
	// told.
	Rules string `json:"rules,omitempty"`
	// OnlyHere and OnlyThere are the names by which its list of members differs from that of this instance.
	OnlyHere  []string `json:"only_here,omitempty"`
	OnlyThere []string `json:"only_there,omitempty"`
	// RoundTripMS is the time from a ping to its answer, smoothed; 0 without one.
	RoundTripMS float64 `json:"round_trip_ms,omitempty"`
	Error       string  `json:"error,omitempty"` // why there is no connection
}

// peersState returns the state of the fleet; nil if there is none.
func (a *API) peersState() *PeersState {
	if a.cfg.Peers == nil {
		return nil
	}
	stats := a.cfg.Peers()
	st := &PeersState{Self: stats.Self, Quorum: stats.Quorum, Members: []PeerState{}, Decisions: byStep(&stats.Decisions)}
	for i := range stats.Members {
		st.Members = append(st.Members, peerState(&stats.Members[i]))
	}
	return st
}

func peerState(m *ring.MemberStats) PeerState {
	p := PeerState{
		Name: m.Name, URL: m.URL, Status: m.Status.String(), SinceMS: m.Since.Milliseconds(), Slots: m.Slots,
		Forwarded: m.Forwarded, Failed: m.Failed, Rules: m.Rules,
		OnlyHere: m.Lists.OnlyHere, OnlyThere: m.Lists.OnlyThere,
	}
	if l := m.Link; l != nil && l.State.Up {
		p.RoundTripMS = float64(l.Latency.Microseconds()) / 1000
	} else if l != nil && l.State.Err != nil {
		p.Error = l.State.Err.Error()
	}
	return p
}
