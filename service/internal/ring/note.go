package ring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring/census"
)

// The names of the calls between members.
const (
	noteCall  = "ring/note"
	resetCall = "ring/reset"
	claimCall = "ring/claim"
	stateCall = "ring/state"
)

// Calls returns the functions for serve.Config.Calls.
func (r *Ring) Calls() map[string]func(ctx context.Context, from wire.Info, body []byte) ([]byte, error) {
	return map[string]func(ctx context.Context, from wire.Info, body []byte) ([]byte, error){
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
	up := r.census.Reached(p.Name)
	if !up {
		_ = r.refreshLocked() // its time may be over
	}
	r.mu.Unlock()
	if !up {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 4*r.cfg.Interval)
	defer cancel()
	body, err := p.link.Call(ctx, noteCall, r.note(p.Name, ""))
	if err == nil {
		r.hear(p.Name, body)
	}
}

// note returns the note for a process at a member, or for the last one if node is empty. The name is empty for a
// stranger.
func (r *Ring) note(name, node string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.census.Note(name, cmp.Or(node, r.census.Node(name)), r.view.Load().Quorum)
	n.Rules = r.cfg.Local.Rules().Hash
	body, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return body
}

// hear reads the note of a member. The name is empty for a process that is not known as one.
func (r *Ring) hear(name string, body []byte) {
	var n census.Note
	if json.Unmarshal(body, &n) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		r.meetLocked(n)
		return
	}
	if p := r.places[name]; p != nil {
		p.quorum.Store(n.Quorum)
	}
	found := r.census.Hear(r.now(), name, n)
	_ = r.refreshLocked() // errors of members that others list, which know of them
	for _, name := range found {
		r.redialLocked(name)
	}
}

// meetLocked notes a process that is not known as a member. It can ask this node, so this node can probably ask it.
func (r *Ring) meetLocked(n census.Note) {
	if r.cfg.Strangers {
		r.census.Meet(r.now(), n)
		_ = r.refreshLocked() // the process knows its name
	}
	if r.places[n.Self] != nil {
		r.redialLocked(n.Self)
		return
	}
	for name := range r.places {
		r.redialLocked(name)
	}
}

// redialLocked has a member connected that cannot be asked.
func (r *Ring) redialLocked(name string) {
	if p := r.places[name]; p != nil && p.link != nil && !r.census.Reached(name) {
		p.link.Redial()
	}
}

var errStranger = errors.New("the caller is not known as a member")

// onNote answers a note with the note of this node.
func (r *Ring) onNote(_ context.Context, from wire.Info, body []byte) ([]byte, error) {
	name := r.nameOf(from.Node)
	r.hear(name, body)
	return r.note(name, from.Node), nil
}

// nameOf returns the name of the member with a process; empty if it is not known.
func (r *Ring) nameOf(node string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.census.Name(node)
}
