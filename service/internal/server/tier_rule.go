package server

import (
	"cmp"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A tierWay says what decides about a request.
type tierWay uint8

const (
	byNode     tierWay = iota // the node, about what others need not know of
	byLeaf                    // an assignment
	byUpstream                // the upstream
)

// tierTerms say how a Tier decides about the keys of a match. They do not change.
type tierTerms struct {
	way    tierWay
	rule   *rules.Rule  // with the smallest rate, of the rules that can deny; nil if there is none
	policy *leaf.Policy // with byLeaf
	// single is set if all keys have one bucket. Then one of them stands for all: the
	// upstream assigns the rate of a bucket once.
	single bool
	first  atomic.Pointer[string] // that key; nil until there is one
}

// key returns the key by which the leaf decides about a key.
func (m *tierTerms) key(key string) string {
	if !m.single {
		return key
	}
	if first := m.first.Load(); first != nil {
		return *first
	}
	own := strings.Clone(key)
	if m.first.CompareAndSwap(nil, &own) {
		return own
	}
	return *m.first.Load()
}

// terms returns the terms of a match.
func (t *Tier) terms(m *rules.Match) *tierTerms {
	got := m.Memo.Load()
	if got == nil {
		m.Memo.CompareAndSwap(nil, t.newTerms(m))
		got = m.Memo.Load()
	}
	return got.(*tierTerms)
}

func (t *Tier) newTerms(m *rules.Match) *tierTerms {
	terms := new(tierTerms)
	limiting, none := 0, false
	var least leaf.Limit
	away := config.AwayAllow
	for _, r := range m.Rated {
		if r.Mode == config.Shadow {
			continue
		}
		limit := limitOf(r.Quota)
		if limiting++; limiting == 1 || limit.Rate < least.Rate {
			terms.rule, least.Rate = r, limit.Rate
		}
		if limiting == 1 || limit.Burst < least.Burst {
			least.Burst = limit.Burst
		}
		switch own := cmp.Or(r.Away, t.cfg.Away); {
		case own == config.AwayDeny:
			away = own
		case own == config.AwayShare && away == config.AwayAllow:
			away = own
		}
		none = none || r.Rate.Count == 0
	}
	switch {
	case limiting == 0 || none:
		return terms
	case least.Rate < t.cfg.AssignFrom:
		terms.way = byUpstream
		return terms
	}
	terms.way = byLeaf
	terms.single = limiting == 1 && terms.rule.Per == config.PerRule
	terms.policy = &leaf.Policy{
		First: leafFirst[terms.rule.Unassigned], Away: leafAway[away], Limit: least, Leaves: t.memory.Instances(),
	}
	return terms
}

var leafAway = map[config.Away]leaf.Away{config.AwayDeny: leaf.DenyAway, config.AwayAllow: leaf.AllowAway, config.AwayShare: leaf.ShareAway}

var leafFirst = map[config.Unassigned]leaf.First{"": leaf.AskFirst, config.UnassignedAsk: leaf.AskFirst, config.UnassignedShare: leaf.ShareFirst, config.UnassignedDeny: leaf.DenyFirst}
