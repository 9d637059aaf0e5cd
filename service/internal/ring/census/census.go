// Package census finds out which members a fleet has, and which of them are alive: from the list of this
// node, from its links, and from what other members tell. It is pure: it has no clock and no goroutine.
package census

import (
	"slices"
	"strings"
	"time"
)

// A Member is an instance that is listed as a part of the fleet.
type Member struct {
	// Name identifies the member at all members. The owners of keys depend on it.
	Name string `json:"name"`
	URL  string `json:"url"` // of its public listener
	// ServerName is the name in its certificate, if that is not the host of the URL.
	ServerName string `json:"server,omitempty"`
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

const (
	// Grace is for how long a node tries to reach a new member that others see already, before it takes the
	// member for an owner.
	Grace = 500 * time.Millisecond
	// forget is for how long a member counts that is lost, and that the list of this node has dropped.
	forget = 30 * time.Second
	// linger is for how long a node tries to reach a member that it knows from the member itself.
	linger = 2 * time.Second
)

// A member has the state of a Member.
type member struct {
	Member
	listed   bool          // by this node
	dropped  bool          // this node has listed it before
	up       bool          // this node can ask it
	alive    bool          // this node has reached it, or another one sees it
	absent   bool          // all others have said that they do not see it, and this node has never reached it
	leaving  bool          // it has said that it is shutting down
	node     string        // the last process that answered there
	before   string        // the process before it, if that did not leave
	known    time.Duration // since when
	since    time.Duration // when up changed
	seen     time.Duration // since when another one sees it; 0 if none does. Unused once this node has reached it
	met      time.Duration // when the member itself has last told its name; 0 if it has not
	note     Note
	noted    time.Duration // when it came
	list     []Member      // that the process has told
	differs  Difference    // of list from that of this node
	heard    uint64        // the epoch of list; 0 if it has told none
	crashed  bool          // since the last survey, another process has answered, and the one before did not leave
	replaced bool          // its URL has changed since the last survey
}

// A Census finds out which members are alive. It must not be used concurrently.
type Census struct {
	node    string // the id of this process
	self    string // the name of this node; empty until it is known, and if it is no member
	leaving bool
	joined  time.Duration // when this node was first accepted by all; 0 if it was not
	list    []Member
	epoch   uint64 // of the list: how many this process has had
	notes   uint64 // that were made
	members map[string]*member
	placed  map[string]bool // the members as of the last survey
}

// New returns the Census of a process. The name of the node is self; empty if it is not known.
func New(node, self string) *Census {
	return &Census{node: node, self: self, members: map[string]*member{}, placed: map[string]bool{}}
}

// Self returns the name of this node; empty if it is not known, or it is no member.
func (c *Census) Self() string { return c.self }

// Leave says that this node is shutting down.
func (c *Census) Leave() { c.leaving = true }

// List sets the list of this node.
func (c *Census) List(now time.Duration, all []Member) {
	if c.epoch == 0 || !slices.Equal(c.list, all) {
		c.list = slices.Clone(all)
		c.epoch++
		for _, m := range c.members {
			m.differs = m.compare(c.list)
		}
	}
	for _, m := range c.members {
		m.dropped = m.dropped || m.listed
		m.listed = false
	}
	for _, m := range all {
		c.enter(now, m).listed = true
	}
}

// enter returns a member, which is new if it is not known at this URL.
func (c *Census) enter(now time.Duration, as Member) *member {
	m := c.members[as.Name]
	if m == nil || m.URL != as.URL {
		m = &member{Member: as, known: now, since: now, replaced: m != nil}
		c.members[as.Name] = m
	}
	return m
}

// Link notes the state of the link to a member. node is the process that has answered last.
func (c *Census) Link(now time.Duration, name string, up, leaving bool, node string) {
	m := c.members[name]
	if m == nil {
		return
	}
	if node != "" && node != m.node {
		if m.node != "" && !m.leaving {
			m.crashed, m.before = true, m.node
		}
		m.replace(node)
		if node == c.node && c.self == "" {
			c.self = name
		}
	}
	m.leaving, m.alive = m.leaving || leaving, m.alive || up
	if up != m.up {
		m.up, m.since = up, now
	}
}

// replace notes that another process runs at a member. It is not known if node is empty.
func (m *member) replace(node string) {
	m.node, m.note, m.leaving, m.list, m.heard, m.differs = node, Note{}, false, nil, 0, Difference{}
}

// Reached reports whether this node can ask a member.
func (c *Census) Reached(name string) bool { m := c.members[name]; return m != nil && m.up }

// Node returns the last process that answered at a member; empty if none has.
func (c *Census) Node(name string) string {
	if m := c.members[name]; m != nil {
		return m.node
	}
	return ""
}

// Before returns the process that has ended last at a member without leaving, and forgets that there was one before
// the present one.
func (c *Census) Before(name string) string {
	m := c.members[name]
	node := m.node
	if m.before != "" {
		node, m.before = m.before, ""
	}
	return node
}

// Since returns when this node has reached or lost a member.
func (c *Census) Since(name string) time.Duration { return c.members[name].since }

// Gone reports whether a member has left, and does not answer any more.
func (c *Census) Gone(name string) bool {
	m := c.members[name]
	return m == nil || m.leaving && !m.up
}

// Name returns the name of the member with a process; empty if it is not known.
func (c *Census) Name(node string) string {
	for name, m := range c.members {
		if m.node == node && name != c.self {
			return name
		}
	}
	return ""
}

// Back reports whether a process can be asked.
func (c *Census) Back(node string) bool {
	for _, m := range c.members {
		if m.node == node && m.up {
			return true
		}
	}
	return false
}

// others are the members that this node can ask and that stay, and what they tell.
type others struct {
	members     []*member
	seen, named map[string]bool   // members that one of them can ask, and members that one of them lists
	primary     map[string]string // the name of the member that stands for a process, for processes that this node can ask
}

// ask returns the others.
func (c *Census) ask() others {
	o := others{seen: map[string]bool{}, named: map[string]bool{}, primary: map[string]string{}}
	for name, m := range c.members {
		if !m.up && name != c.self || m.node == "" {
			continue
		}
		if first, known := o.primary[m.node]; !known || m.note.Self == name || c.members[first].note.Self != first && name < first {
			o.primary[m.node] = name
		}
	}
	if c.self != "" {
		o.primary[c.node] = c.self
	}
	for name, m := range c.members {
		if name == c.self || !m.up || m.leaving || o.isAlias(m) {
			continue
		}
		o.members = append(o.members, m)
		for _, name := range m.note.Sees {
			o.seen[name] = true
		}
		for i := range m.list {
			o.named[m.list[i].Name] = true
		}
	}
	slices.SortFunc(o.members, func(a, b *member) int { return strings.Compare(a.Name, b.Name) })
	return o
}

// isAlias reports whether a member is the process of another one: of that with the name by which the process calls
// itself, or of that with the least name.
func (o *others) isAlias(m *member) bool {
	name, known := o.primary[m.node]
	return known && name != m.Name
}

// Rules returns the hash of the rules of a member; empty if it has not told.
func (c *Census) Rules(name string) string { return c.members[name].note.Rules }
