package census

import (
	"maps"
	"slices"
	"time"
)

// A Note tells another member about a node, and which members the node sees. Nodes of older versions do not tell
// what comes after Rules, and ignore it.
type Note struct {
	Node    string   `json:"node"`
	Leaving bool     `json:"leaving,omitempty"`
	Quorum  bool     `json:"quorum,omitempty"` // it sees more than half of the members
	Sees    []string `json:"sees,omitempty"`   // members that it can ask, and itself
	Rules   string   `json:"rules,omitempty"`  // config.Rules.Hash of the rules in force

	Seq  uint64 `json:"seq,omitempty"`  // the number of the Note, of all of the process
	Self string `json:"self,omitempty"` // its name, if it knows that
	// Nodes has the processes of Sees, in the same order.
	Nodes []string `json:"nodes,omitempty"`
	// Epoch is how many lists the process has had, and List the last, unless the other has Heard of it.
	Epoch uint64   `json:"epoch,omitempty"`
	Heard uint64   `json:"heard,omitempty"`
	List  []Member `json:"list,omitempty"`
	// Linked says that it can ask the process that the Note is for.
	Linked bool `json:"linked,omitempty"`
}

// Note returns what this node tells a process at a member. The name is empty for a stranger.
func (c *Census) Note(name, node string, quorum bool) Note {
	c.notes++
	n := Note{Node: c.node, Leaving: c.leaving, Quorum: quorum, Seq: c.notes, Self: c.self, Epoch: c.epoch}
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		if m := c.members[name]; name == c.self {
			n.Sees, n.Nodes = append(n.Sees, name), append(n.Nodes, c.node)
		} else if m.up {
			n.Sees, n.Nodes = append(n.Sees, name), append(n.Nodes, m.node)
		}
	}
	to := c.members[name]
	if known := to != nil && to.node == node; known {
		n.Heard, n.Linked = to.heard, to.up
	}
	if n.Heard == 0 || to.note.Heard != c.epoch {
		n.List = c.list
	}
	return n
}

// Hear notes what the process at a member tells, unless it has told something later. It returns the members that are seen
// now and were not before.
func (c *Census) Hear(now time.Duration, name string, n Note) (found []string) {
	m := c.members[name]
	if m == nil || n.Node != m.node || n.Seq < m.note.Seq {
		return nil
	}
	for _, seen := range n.Sees {
		if !slices.Contains(m.note.Sees, seen) {
			found = append(found, seen)
		}
	}
	m.note, m.noted = n, now
	m.leaving = m.leaving || n.Leaving
	if n.List != nil {
		m.heard, m.list = n.Epoch, n.List
		m.differs = m.compare(c.list)
	}
	return found
}

// Meet notes what a process tells that this node does not know as a member: its list has its name and URL. A URL in the
// list of this node can be older.
func (c *Census) Meet(now time.Duration, n Note) {
	if n.Leaving || n.Self == c.self || n.Node == c.node {
		return
	}
	for _, as := range n.List {
		if as.Name != n.Self {
			continue
		}
		m := c.members[as.Name]
		if m == nil || !m.up {
			listed := m != nil && m.listed
			m = c.enter(now, as)
			m.listed = listed
		}
		m.met = now
	}
}

// A Difference says how the list of a member differs from that of this node.
type Difference struct {
	Member    string
	OnlyHere  []string // names that this node lists, and the member does not
	OnlyThere []string
}

// Equal reports whether two Differences are equal.
func (d Difference) Equal(e Difference) bool {
	return d.Member == e.Member && slices.Equal(d.OnlyHere, e.OnlyHere) && slices.Equal(d.OnlyThere, e.OnlyThere)
}

// Changed returns the Differences that are not as they were. It is empty for a member that has the same list again.
func Changed(was, next []Difference) (changed []Difference) {
	for _, d := range next {
		if !slices.ContainsFunc(was, d.Equal) {
			changed = append(changed, d)
		}
	}
	for _, d := range was {
		if !slices.ContainsFunc(next, func(n Difference) bool { return n.Member == d.Member }) {
			changed = append(changed, Difference{Member: d.Member})
		}
	}
	return changed
}

// IsEmpty reports whether the lists are the same.
func (d Difference) IsEmpty() bool { return d.OnlyHere == nil && d.OnlyThere == nil }

// compare compares the list of a member with that of this node.
func (m *member) compare(list []Member) Difference {
	if m.heard == 0 {
		return Difference{}
	}
	return Difference{m.Name, without(list, m.list), without(m.list, list)}
}

// without returns the names that are in a list and not in another one.
func without(list, other []Member) (names []string) {
	for _, m := range list {
		if !lists(other, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

func lists(list []Member, name string) bool {
	return slices.ContainsFunc(list, func(m Member) bool { return m.Name == name })
}
