package ring

import (
	"maps"
	"slices"
	"time"
)

// A Member is an instance that is listed as a part of the fleet.
type Member struct {
	// Name identifies the member at all members. The owners of keys depend on it.
	Name string
	URL  string // of its public listener
	// ServerName is the name in its certificate, if that is not the host of the URL.
	ServerName string
}

// A Status says whether a member owns keys, as a node sees it.
type Status uint8

// The statuses.
const (
	Live  Status = iota // it owns keys, and this node can ask it, or is it
	Cut                 // this node cannot ask it, but it may be alive: it owns keys
	Dead                // no member that this node can ask sees it: it owns no keys
	Left                // it is shutting down, or has: it owns no keys and is not counted
	Alias               // it is the same process as another member: it owns no keys and is not counted
	StatusCount
)

var statusNames = [...]string{"live", "cut", "dead", "left", "alias"}

// String returns the Status as metrics and logs spell it.
func (s Status) String() string { return statusNames[s] }

// A note tells another member about a node, and which members the node sees.
type note struct {
	Node    string   `json:"node"`
	Leaving bool     `json:"leaving,omitempty"`
	Quorum  bool     `json:"quorum,omitempty"` // it sees more than half of the members
	Sees    []string `json:"sees,omitempty"`   // members that it can ask, and itself
	Rules   string   `json:"rules,omitempty"`  // config.Rules.Hash of the rules in force
}

// A member has the state of a Member.
type member struct {
	Member
	up      bool
	leaving bool          // it has said that it is shutting down
	node    string        // the last process that answered there
	before  string        // the process before it, if that did not leave
	since   time.Duration // when up changed
	note    note
	noted   time.Duration // when it came
	listed  bool
	crashed bool // since the last survey, another process has answered, and the one before did not leave
}

// A census finds out which members are alive, from the links of this node and from what the
// other members see. It is pure: it has no clock, and must not be used concurrently.
type census struct {
	node    string // the id of this process
	self    string // the name of this node; empty until it is known, and if it is no member
	leaving bool
	members map[string]*member
}

func newCensus(node, self string) *census {
	return &census{node: node, self: self, members: map[string]*member{}}
}

// list sets the members. A member that is not listed any more stays for as long as it can be
// asked. It returns the names that are new, and the names that are gone.
func (c *census) list(now time.Duration, all []Member) (added []Member, removed []string) {
	listed := map[string]bool{}
	for _, m := range all {
		listed[m.Name] = true
		old := c.members[m.Name]
		if old != nil && old.URL != m.URL {
			removed = append(removed, m.Name)
			old = nil
		}
		if old == nil {
			old = &member{Member: m, since: now}
			c.members[m.Name] = old
			added = append(added, m)
		}
	}
	for name, m := range c.members {
		m.listed = listed[name]
	}
	return added, append(removed, c.sweep()...)
}

// sweep removes members that are neither listed nor up.
func (c *census) sweep() (removed []string) {
	for name, m := range c.members {
		if !m.listed && !m.up && name != c.self {
			delete(c.members, name)
			removed = append(removed, name)
		}
	}
	return removed
}

// link notes the state of the link to a member. node is the process that has answered last.
func (c *census) link(now time.Duration, name string, up, leaving bool, node string) {
	m := c.members[name]
	if m == nil {
		return
	}
	if node != "" && node != m.node {
		if m.node != "" && !m.leaving {
			m.crashed, m.before = true, m.node
		}
		m.node, m.note, m.leaving = node, note{}, false
		if node == c.node && c.self == "" {
			c.self = name
		}
	}
	m.leaving = m.leaving || leaving
	if up != m.up {
		m.up, m.since = up, now
	}
}

// heard notes what the process at a member tells.
func (c *census) heard(now time.Duration, name string, n note) {
	m := c.members[name]
	if m == nil || n.Node != m.node {
		return
	}
	m.note, m.noted = n, now
	m.leaving = m.leaving || n.Leaving
}

// reached reports whether this node is the member or can ask it.
func (c *census) reached(m *member) bool { return m.Name == c.self || m.up }

// A survey is the result of a census.
type survey struct {
	self    string
	status  map[string]Status
	members int  // that count: neither left nor aliases
	quorum  bool // this node sees more than half of them
	// unknown has members whose last process has ended without handing over its state, since
	// the survey before.
	unknown []string
}

// survey returns the status of each member.
func (c *census) survey() survey {
	s := survey{self: c.self, status: map[string]Status{}}
	reached := 0
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		m := c.members[name]
		if m.crashed {
			s.unknown = append(s.unknown, name)
			m.crashed = false
		}
		switch {
		case c.isAlias(m):
			s.status[name] = Alias
			continue
		case name == c.self && c.leaving || name != c.self && m.leaving:
			s.status[name] = Left
			continue
		case c.reached(m):
			s.status[name] = Live
			reached++
		default:
			s.status[name] = Cut
		}
		s.members++
	}
	if s.members == 0 && c.leaving && c.members[c.self] != nil { // there is no other
		s.status[c.self], s.members, reached = Live, 1, 1
	}
	s.quorum = 2*reached > s.members
	for name, status := range s.status {
		if status == Cut && s.quorum && c.unseen(c.members[name]) {
			s.status[name] = Dead
		}
	}
	return s
}

// isAlias reports whether a member is the process of another member, with a lesser name.
func (c *census) isAlias(m *member) bool {
	if m.node == "" || m.Name == c.self {
		return false
	}
	if m.node == c.node && c.self != "" {
		return true
	}
	for name, other := range c.members {
		if name < m.Name && other.node == m.node && c.reached(other) && c.reached(m) {
			return true
		}
	}
	return false
}

// unseen reports whether all members that this node can ask have said, after it lost its link
// to a member, that they do not see it either.
func (c *census) unseen(lost *member) bool {
	for _, m := range c.members {
		if m.Name == c.self || !m.up || m.leaving || c.isAlias(m) {
			continue
		}
		if m.noted < lost.since || m.note.Node != m.node || slices.Contains(m.note.Sees, lost.Name) {
			return false
		}
	}
	return true
}

// note returns what this node tells the others.
func (c *census) note(quorum bool) note {
	n := note{Node: c.node, Leaving: c.leaving, Quorum: quorum}
	for name, m := range c.members {
		if c.reached(m) {
			n.Sees = append(n.Sees, name)
		}
	}
	slices.Sort(n.Sees)
	return n
}
