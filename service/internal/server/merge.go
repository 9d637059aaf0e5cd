package server

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/service/internal/config"
)

// maxMerged bounds the rules that are made of others. A key beyond it is under
// the first two that match it, of which there are not that many.
const maxMerged = 1000

// merged are the rules that are made of those that match a key, laid over each
// other (config.Rules.Merge), when the first such key comes.
type merged struct {
	server *Server
	set    uint64 // its id
	config *config.Rules
	pool   *pool // of those before, too

	mu sync.Mutex            // guards what follows
	of map[string]mergedRule // by the places of those they are made of
}

type mergedRule struct {
	members []int
	found   *found // the one rule
}

// merge makes anew the rules that the old set had made.
func (set *ruleset) merge(s *Server, old *ruleset) {
	set.merged = &merged{server: s, set: set.id, config: set.config, of: map[string]mergedRule{}, pool: &pool{of: map[keyedtable.Window]*keyedtable.Windows[string]{}}}
	if old == nil || old.merged == nil {
		return
	}
	set.merged.pool = old.merged.pool.under(set.config)
	places := map[string]int{}
	for i := range set.config.Rules {
		places[set.config.Rules[i].Name] = i
	}
	old.merged.mu.Lock()
	defer old.merged.mu.Unlock()
	for _, was := range old.merged.of {
		var members []int
		for _, i := range was.members {
			if at, ok := places[old.config.Rules[i].Name]; ok {
				members = append(members, at)
			}
		}
		if slices.Sort(members); len(members) == len(was.members) {
			set.merged.add(members)
		}
	}
}

// find returns the rule that is made of these.
func (m *merged) find(members []int) *found {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.of[listed(members)]; ok {
		return r.found
	}
	if len(m.of) >= maxMerged && len(members) > 2 {
		members = members[:2]
		if r, ok := m.of[listed(members)]; ok {
			return r.found
		}
	}
	r := m.add(members)
	var err error
	if r.live, err = m.server.newLive(r.Rule, m.server.share(m.config), m.pool); err != nil {
		panic("server: " + err.Error()) // each of its parts has been checked
	}
	return m.of[listed(members)].found
}

// add makes a rule, still without a state.
func (m *merged) add(members []int) *Rule {
	r := newRule(m.config.Merged(members))
	m.of[listed(members)] = mergedRule{members, &found{m.set, []*Rule{r}}}
	return r
}

// all returns the rules there are, in the order of their members.
func (m *merged) all() (all []*Rule) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, list := range slices.Sorted(maps.Keys(m.of)) {
		all = append(all, m.of[list].found.rules...)
	}
	return all
}

// listed is a list as the key of a map.
func listed(members []int) string {
	var b []byte
	for _, i := range members {
		b = binary.BigEndian.AppendUint32(b, uint32(i))
	}
	return string(b)
}
