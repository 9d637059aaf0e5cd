package ring

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weir-go/weir/service/internal/peer"
)

// The names of the calls between members.
const (
	noteCall  = "ring/note"
	resetCall = "ring/reset"
	claimCall = "ring/claim"
	stateCall = "ring/state"
)

// Calls returns the functions for peer.HandlerConfig.Calls.
func (r *Ring) Calls() map[string]func(ctx context.Context, from peer.Info, body []byte) ([]byte, error) {
	return map[string]func(ctx context.Context, from peer.Info, body []byte) ([]byte, error){
		noteCall: r.onNote, claimCall: r.onClaim, stateCall: r.onState, resetCall: r.onReset,
	}
}

// exchange exchanges notes with a member until ctx ends.
func (r *Ring) exchange(ctx context.Context, p *place) {
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	for {
		r.exchangeOnce(ctx, p)
		select {
		case <-tick.C:
		case <-p.soon:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Ring) exchangeOnce(ctx context.Context, p *place) {
	r.mu.Lock()
	m := r.census.members[p.Name]
	up := m != nil && m.up
	r.mu.Unlock()
	if !up {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 4*r.cfg.Interval)
	defer cancel()
	body, err := p.link.Call(ctx, noteCall, r.note())
	if err == nil {
		r.hear(p.Name, body)
	}
}

// note returns the note of this node.
func (r *Ring) note() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.census.note(r.view.Load().quorum)
	n.Rules = r.cfg.Local.Rules().Hash
	body, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return body
}

// hear reads the note of a member.
func (r *Ring) hear(name string, body []byte) {
	var n note
	if json.Unmarshal(body, &n) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.places[name]; p != nil {
		p.quorum.Store(n.Quorum)
	}
	r.census.heard(r.now(), name, n)
	r.refreshLocked()
}

var errStranger = errors.New("the caller is not known as a member")

// onNote answers a note with the note of this node.
func (r *Ring) onNote(_ context.Context, from peer.Info, body []byte) ([]byte, error) {
	if name := r.nameOf(from.Node); name != "" {
		r.hear(name, body)
	}
	return r.note(), nil
}

// nameOf returns the name of the member with a process; empty if it is not known.
func (r *Ring) nameOf(node string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.census.members {
		if m.node == node && name != r.census.self {
			return name
		}
	}
	return ""
}
