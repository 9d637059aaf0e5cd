package census

import (
	"maps"
	"slices"
	"time"
)

// A Survey is the result of a Census.
type Survey struct {
	Self    string
	Status  map[string]Status
	Members int  // that count
	Quorum  bool // this node sees more than half of them, and they see it
	// Accepted says that this node has a quorum, and that all members that it can ask can ask it.
	Accepted bool
	// Differs has the members with another list.
	Differs []Difference

	// These have changed since the Survey before: members that are new and members that are gone, and both if the URL
	// of a member has changed; and members whose last process has ended without handing over its state.
	Added   []Member
	Removed []string
	Unknown []string
}

// Survey returns the state of each member.
func (c *Census) Survey(now time.Duration) Survey {
	o := c.ask()
	c.learn(now, &o)
	s := c.count(&o)
	if c.retire(now, &o, &s) {
		s = c.count(&o)
	}
	if s.Accepted && c.joined == 0 {
		c.joined = max(now, 1)
	}
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		m := c.members[name]
		m.dead = s.Quorum && s.Status[name] == Dead
		if m.crashed {
			s.Unknown, m.crashed = append(s.Unknown, name), false
		}
		if m.replaced && c.placed[name] {
			s.Removed = append(s.Removed, name)
		}
		if m.replaced || !c.placed[name] {
			s.Added = append(s.Added, m.Member)
		}
		m.replaced, c.placed[name] = false, true
	}
	for name := range c.placed {
		if c.members[name] == nil {
			s.Removed = append(s.Removed, name)
			delete(c.placed, name)
		}
	}
	for _, m := range o.members {
		if !m.differs.IsEmpty() {
			s.Differs = append(s.Differs, m.differs)
		}
	}
	return s
}

// learn takes in the members that others list or see.
func (c *Census) learn(now time.Duration, o *others) {
	for _, m := range o.members {
		for _, as := range m.list {
			if known := c.members[as.Name]; known == nil || known.URL == "" {
				c.enter(now, as)
			}
		}
		for _, name := range m.note.Sees {
			if c.members[name] == nil {
				c.enter(now, Member{Name: name}) // a list has its URL
			}
		}
	}
	for name, m := range c.members {
		switch back := m.leaving && !m.up; {
		case name == c.self || m.alive && !back:
		case !o.seen[name] || back && !o.isBack(m):
			m.seen = 0
		default:
			if m.seen == 0 {
				m.seen = max(now, 1)
			}
			isNew := back || m.dead || c.joined > 0 && m.known > c.joined
			if isNew && now-m.seen < Grace {
				break
			}
			if m.alive = true; back {
				m.replace("")
			}
		}
	}
}

// HasHeirs reports whether another member can take the keys of this one.
func (s *Survey) HasHeirs() bool {
	for name, status := range s.Status {
		if status == Live && name != s.Self {
			return true
		}
	}
	return false
}

// isBack reports whether another process runs at a member that has left.
func (o *others) isBack(left *member) bool {
	return slices.ContainsFunc(o.members, func(m *member) bool {
		i := slices.Index(m.note.Sees, left.Name)
		return i >= 0 && i < len(m.note.Nodes) && m.note.Nodes[i] != "" && m.note.Nodes[i] != left.node
	})
}

// count returns the status of each member, and whether this node has a quorum.
func (c *Census) count(o *others) Survey {
	s := Survey{Self: c.self, Status: map[string]Status{}, Accepted: true}
	reached := 0
	for name, m := range c.members {
		switch {
		case o.isAlias(m):
			s.Status[name] = Alias
			continue
		case name == c.self && c.leaving || name != c.self && m.leaving:
			s.Status[name] = Left
			continue
		case name == c.self:
			s.Status[name] = Live
			reached++
		case m.up:
			s.Status[name] = Live
			if c.leaving || m.accepts() { // a process that leaves loses the links to it, and owns no keys
				reached++
			} else {
				s.Accepted = false
			}
		case m.alive || m.listed && !o.isPhantom(m):
			s.Status[name] = Cut
		default:
			s.Status[name] = Dead
			continue
		}
		s.Members++
	}
	if s.Members == 0 && c.leaving && c.members[c.self] != nil { // there is no other
		s.Status[c.self], s.Members, reached = Live, 1, 1
	}
	s.Quorum = 2*reached > s.Members
	s.Accepted = s.Accepted && s.Quorum
	for name, status := range s.Status {
		m := c.members[name]
		if tried := !m.alive && m.seen > 0; status == Cut && s.Quorum && (tried || o.isUnseen(m)) {
			s.Status[name] = Dead
		}
	}
	return s
}

// accepts reports whether the process at a member can ask this node. An older version does not tell.
func (m *member) accepts() bool {
	return m.up && m.note.Node == m.node && (m.note.Linked || m.note.Epoch == 0)
}

// isPhantom reports whether no member but this node knows about one that it lists: none has seen it, no other one
// lists it, and one of these has a quorum without it.
func (o *others) isPhantom(m *member) bool {
	return !m.alive && !o.named[m.Name] && !o.seen[m.Name] &&
		slices.ContainsFunc(o.members, func(m *member) bool { return m.note.Quorum }) &&
		!slices.ContainsFunc(o.members, func(m *member) bool { return m.heard == 0 })
}

// isUnseen reports whether all members that this node can ask have said, after it lost its link
// to a member, that they do not see it either.
func (o *others) isUnseen(lost *member) bool {
	return !o.seen[lost.Name] && !slices.ContainsFunc(o.members, func(m *member) bool {
		return m.note.Node != m.node || lost.node != "" && m.noted < lost.since
	})
}

// retire removes members that no list has any more and that are gone. A member that has not left is gone if a
// majority says so, or if this node has listed it before and does not see it for long.
func (c *Census) retire(now time.Duration, o *others, s *Survey) (any bool) {
	for name, m := range c.members {
		if m.listed || m.up || name == c.self || o.named[name] || o.seen[name] {
			continue
		}
		gone := s.Status[name] == Left || s.Status[name] == Alias || m.dropped && now-m.since > forget
		if m.alive {
			gone = gone || s.Status[name] == Dead && m.dead // what it owned is lost since the last survey
		} else {
			gone = gone || m.met == 0 || now-m.met > linger
		}
		if gone {
			delete(c.members, name)
			any = true
		}
	}
	return any
}
