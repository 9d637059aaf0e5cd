// Package memory counts in the memory of the process what keys have used, and queues the requests that wait.
package memory

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Config configures Counts. Node, Grants and Memory are required.
type Config struct {
	counts.Node
	Grants Ledger
	Memory int // bounds the counts, in bytes
	// OwnQuotas gives the buckets of quotas that requests bring a share of Memory, as a
	// rule has. If false, they have 64 KiB on top of it.
	OwnQuotas bool
	// Fleet, if not nil, is the seed of the fingerprints of keys at all members of a fleet. All rules that count for a key
	// must route alike then.
	Fleet *siphash.Key
	// Instances, if > 0, makes the limits shares: the limits of the rules divided by this number.
	Instances int
	// Check, if not nil, returns an error for rules that cannot be counted.
	Check func(*rules.Set) error
}

// A Ledger seals the ids of grants: see package grant.
type Ledger interface {
	AppendGrantID(b []byte, g decider.Grant, key string) []byte
	Redeem(id, key string, rules []uint64, now time.Duration) (g decider.Grant, which int, err error)
	Life(now time.Duration) time.Duration
	State() grant.State
	Pages() iter.Seq[grant.Page]
	Restore(s grant.State, crashed bool)
	RestorePage(p grant.Page)
}

// Counts are counts.Counts in memory.
type Counts struct {
	cfg       Config
	clock     *clock.Clock
	own       *quota.Requested
	rules     atomic.Pointer[Version]
	instances atomic.Int64 // Config.Instances, or what SetInstances has changed it to

	takeWaiting func(*counts.Ask, *counts.Wait) error // awaitTake
}

var _ counts.Counts = (*Counts)(nil)

// New returns Counts without rules.
func New(cfg Config) (*Counts, error) {
	m := &Counts{cfg: cfg, clock: cfg.Clock}
	m.takeWaiting = m.awaitTake
	m.instances.Store(int64(cfg.Instances))
	var err error
	if m.own, err = quota.NewRequested(m.clock, decider.MaxOwnRefill, m.ownMemory(cfg.Memory)); err != nil {
		return nil, err
	}
	if cfg.Fleet != nil {
		m.own.Share(*cfg.Fleet)
	}
	return m, nil
}

// Node returns the part of the node that the Counts use.
func (m *Counts) Node() counts.Node { return m.cfg.Node }

// Own returns the buckets of quotas that requests bring, but for those of Version.Kept.
func (m *Counts) Own() *quota.Requested { return m.own }

// Take takes at once: see counts.Counts.
func (m *Counts) Take(_ context.Context, a counts.Ask) (whole bool, err error) {
	v := m.find(a.Set)
	if v == nil {
		return false, waiting.ErrMoved
	}
	return false, m.take(v, &a, nil)
}

// take is Take for a request that waits, unless w is nil. The error can be waiting.ErrMoved or
// that of the context.
func (m *Counts) take(of *Version, a *counts.Ask, w *counts.Wait) error {
	req, v := a.Req, a.V
	if req.Quota != nil {
		d, err := m.takeOwn(of, a)
		if err == nil {
			a.Answer(d, counts.OwnRule)
		}
		return err
	}
	asked, shadows := m.cfg.Limit(req), 0
	var room Rule
	for i, rated := range a.Rated {
		r := of.at(rated, &room)
		own := r.OwnLimit(asked)
		d, redeemed := w.Redeem(&r.Queue)
		if !redeemed {
			d = r.take(req.Key, r.fingerprintOf(i, a.Known, req.Key), v.At, req.N, own, req.WantID)
		}
		a.Answer(d, r.Ref)
		if !d.OK && r.Mode != config.Shadow {
			granted, err := false, error(nil)
			if w != nil {
				granted, err = w.Under(a, m.line(r, req))
			}
			if !granted {
				if i > 0 {
					m.undo(of, a)
				}
				return err
			}
		}
		r.give(a, &shadows)
	}
	return nil
}

// give adds the rule to the grant, if its answer, the last one, allows.
func (r *Rule) give(a *counts.Ask, shadows *int) {
	a.Give(r.Rule, r.Since, shadows)
	v := a.V
	if answer := &v.Answers[len(v.Answers)-1]; answer.OK && r.Mode != config.Shadow && r.Algorithm.Resets() && r.Algorithm != config.Calendar && answer.ResetAfter != weir.Never {
		if began := answer.At + answer.ResetAfter - r.Rate.Period; began > v.At { // the window may have begun after the instant
			v.Grant.At = max(v.Grant.At, began)
		}
	}
}

// TakeAll takes from all or none: see counts.Counts.
func (m *Counts) TakeAll(_ context.Context, asks []counts.Asked, all bool) {
	var v *Version
	for i := range asks {
		a := &asks[i]
		if v == nil && !a.Decided {
			v = m.find(a.Set)
		}
		if !a.Decided && a.Req.Quota != nil {
			m.prefetch(&a.Ask)
		}
	}
	counts.Each(asks, all, func(a *counts.Asked) {
		if a.Err = waiting.ErrMoved; v != nil {
			a.Err = m.take(v, &a.Ask, nil)
		}
	}, func(a *counts.Ask) { m.undo(v, a) })
}

// Look tells the states of a key: see counts.Counts.
func (m *Counts) Look(_ context.Context, found *rules.Match, key string, states []decider.RuleState) (*decider.Explanation, error) {
	v := m.find(found.Set)
	if v == nil {
		return nil, waiting.ErrMoved
	}
	counts.Look(found, states, func(of *rules.Rule) decider.RuleState {
		r := v.At(of)
		bucket := r.Bucket(key)
		return counts.StateOf(r.take(key, r.fingerprint(key), m.clock.Now(), 0, 0, false), r.Buckets.Used(bucket), r.Queue.Len(bucket))
	})
	return nil, nil
}

// Undo returns what a request was granted, unless the rules have changed: then tokens return with time.
func (m *Counts) Undo(a *counts.Ask) {
	if v := m.find(a.Set); v != nil {
		m.undo(v, a)
	}
}

// undo returns what a request was given.
func (m *Counts) undo(v *Version, a *counts.Ask) {
	now := m.clock.Now()
	for rated, answer := range a.Given {
		if rated == nil {
			m.returnOwn(v, a)
			return
		}
		r, at := v.At(rated), answer.At
		if r.Algorithm.Resets() && now-at < answer.ResetAfter {
			at = now // the same window; it may have begun after the instant of the answer
		}
		r.settle(a.Req.Key, at, a.Req.N, 0)
	}
}

// AppendGrantID appends the id of a grant: see counts.Counts.
func (m *Counts) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	return m.cfg.Grants.AppendGrantID(b, g, key)
}

// Redeem settles a grant: see counts.Counts.
func (m *Counts) Redeem(_ context.Context, found *rules.Match, key, id string, n int) (decider.Settlement, error) {
	v := m.find(found.Set)
	if v == nil {
		return decider.Settlement{}, waiting.ErrMoved
	}
	since := func(r *rules.Rule) time.Duration { return v.At(r).Since }
	return counts.Redeem(m.cfg.Grants, found, key, id, n, m.clock.Now(), since, func(of *rules.Rule, g decider.Grant) int {
		r := v.At(of)
		return r.charge(key, g.At, g.N, n)
	})
}

// Reset fills the buckets of a key, and serves the requests that wait for them: see counts.Counts.
func (m *Counts) Reset(_ context.Context, found *rules.Match, key string) ([]decider.Reset, error) {
	v := m.find(found.Set)
	if v == nil {
		return nil, waiting.ErrMoved
	}
	return counts.Reset(found, func(of *rules.Rule) int {
		r := v.At(of)
		if r.Candidate != nil {
			r.Candidate.Reset(r.Bucket(key))
		}
		return r.Queue.Reset(r.Bucket(key))
	}), nil
}

// Learn keeps the bucket of a key at the node's share of what is left of the whole limit at an instant.
func (m *Counts) Learn(set *rules.Set, of *rules.Rule, key string, at time.Duration, left int) {
	v := m.find(set)
	if v == nil {
		return
	}
	r := v.At(of)
	bucket := r.Bucket(key)
	print := r.Buckets.Fingerprint(bucket)
	share := left / m.Instances()
	if has := r.Buckets.Take(bucket, print, at, 0, r.base, false).Remaining; has > share {
		r.Buckets.Take(bucket, print, at, has-share, r.base, false)
	}
}

// Try counts what the candidate of a rule decides about a request that others decide.
func (m *Counts) Try(set *rules.Set, of *rules.Rule, req *decider.Request) {
	if v := m.find(set); v != nil && of.Candidate != nil && req.N > 0 {
		r := v.At(of)
		r.try(r.Bucket(req.Key), m.clock.Now(), req.N, req.WantID)
	}
}

// Waiting returns how many requests wait under a rule: see counts.Counts.
func (m *Counts) Waiting(set *rules.Set, of *rules.Rule, key string) int {
	if v := m.find(set); v != nil {
		r := v.At(of)
		return r.Queue.Len(r.Bucket(key))
	}
	return 0
}

// Dismiss rejects the requests that wait.
func (m *Counts) Dismiss(why *weir.Rejection) {
	for st := range m.Current().States {
		st.Queue.Dismiss(why)
	}
}
