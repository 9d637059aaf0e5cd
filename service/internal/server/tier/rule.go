package tier

import (
	"cmp"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A Way says what decides about a request.
type Way uint8

const (
	ByNode     Way = iota // the node, about what others need not know of
	ByLeaf                // an assignment
	ByUpstream            // the upstream
)

// Terms say how the node decides about the keys of a match. They do not change.
type Terms struct {
	Way    Way
	Rule   *rules.Rule  // with the smallest rate, of the rules that can deny; nil if there is none
	Policy *leaf.Policy // with ByLeaf
	// single is set if all keys have one bucket. Then one of them stands for all: the
	// upstream assigns the rate of a bucket once.
	single bool
	first  atomic.Pointer[string] // that key; nil until there is one
}

// Key returns the key by which the leaf decides about a key.
func (m *Terms) Key(key string) string {
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

// Terms returns the terms of a match.
func (t *Counts) Terms(m *rules.Match) *Terms {
	got := m.Memo.Load()
	if got == nil {
		m.Memo.CompareAndSwap(nil, t.newTerms(m))
		got = m.Memo.Load()
	}
	return got.(*Terms)
}

func (t *Counts) newTerms(m *rules.Match) *Terms {
	terms := new(Terms)
	limiting, none := 0, false
	var least leaf.Limit
	without := config.AwayAllow
	for _, r := range m.Rated {
		if r.Mode == config.Shadow {
			continue
		}
		limit := limitOf(r.Quota)
		if limiting++; limiting == 1 || limit.Rate < least.Rate {
			terms.Rule, least.Rate = r, limit.Rate
		}
		if limiting == 1 || limit.Burst < least.Burst {
			least.Burst = limit.Burst
		}
		switch own := cmp.Or(r.Away, t.cfg.Away); {
		case own == config.AwayDeny:
			without = own
		case own == config.AwayShare && without == config.AwayAllow:
			without = own
		}
		none = none || r.Rate.Count == 0
	}
	switch {
	case limiting == 0 || none:
		return terms
	case least.Rate < t.cfg.AssignFrom:
		terms.Way = ByUpstream
		return terms
	}
	terms.Way = ByLeaf
	terms.single = limiting == 1 && terms.Rule.Per == config.PerRule
	terms.Policy = &leaf.Policy{
		First: leafFirst[terms.Rule.Unassigned], Away: leafAway[without], Limit: least, Leaves: t.Counts.Instances(),
	}
	return terms
}

var leafAway = map[config.Away]leaf.Away{config.AwayDeny: leaf.DenyAway, config.AwayAllow: leaf.AllowAway, config.AwayShare: leaf.ShareAway}

var leafFirst = map[config.Unassigned]leaf.First{"": leaf.AskFirst, config.UnassignedAsk: leaf.AskFirst, config.UnassignedShare: leaf.ShareFirst, config.UnassignedDeny: leaf.DenyFirst}

// limitOf returns a quota as leaves share it.
func limitOf(q config.Quota) leaf.Limit {
	return leaf.Limit{Rate: q.PerSecond(), Burst: float64(q.Limit())}
}
