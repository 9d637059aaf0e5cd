package census

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// far is when surveys are made.
const far = time.Minute

// summary returns the statuses of a census, by name.
func summary(c *Census) (text string) {
	s := c.Survey(far)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		if status, known := s.Status[name]; known {
			text += status.String() + " "
		}
	}
	return fmt.Sprint(text, s.Members, " ", s.Quorum)
}

// newTestCensus returns the census of a, with the links to the others up.
func newTestCensus(names ...string) *Census {
	c := New("a#1", "")
	var all []Member
	for _, name := range names {
		all = append(all, Member{Name: name})
	}
	c.List(0, all)
	for _, name := range names {
		c.Link(0, name, true, false, name+"#1")
		c.Hear(1, name, Note{Node: name + "#1", Sees: names})
	}
	return c
}

// stale gives a list of seven members to a, and has both others tell a note.
func stale(c *Census, n Note) {
	c.List(0, listOf("abcdefg"))
	for _, name := range []string{"b", "c"} {
		c.Link(0, name, true, false, name+"#1")
		n.Node, n.Sees = name+"#1", []string{"a", "b", "c"}
		if n.List != nil {
			n.Epoch, n.Linked = 1, true
		}
		c.Hear(1, name, n)
	}
}

func TestCensus(t *testing.T) {
	at := time.Second
	hear := func(c *Census, now time.Duration, from string, sees ...string) {
		c.Hear(now, from, Note{Node: from + "#1", Sees: sees})
	}
	for _, tt := range []struct {
		what string
		do   func(c *Census)
		want string
	}{
		{"all see each other", func(*Census) {}, "live live live 3 true"},
		{"a lost member that another one saw before", func(c *Census) { c.Link(at, "b", false, false, "") }, "live cut live 3 true"},
		{"a lost member that another one sees", func(c *Census) {
			c.Link(at, "b", false, false, "")
			hear(c, at+1, "c", "a", "b", "c")
		}, "live cut live 3 true"},
		{"a lost member that no other one sees", func(c *Census) {
			c.Link(at, "b", false, false, "")
			hear(c, at+1, "c", "a", "c")
		}, "live dead live 3 true"},
		{"what the process before has told does not count", func(c *Census) {
			c.Link(at, "b", false, false, "")
			hear(c, at+1, "c", "a", "c")
			c.Link(at+2, "c", true, false, "c#2")
		}, "live cut live 3 false"},
		{"a minority declares none dead", func(c *Census) {
			c.Link(at, "b", false, false, "")
			c.Link(at, "c", false, false, "")
		}, "live cut cut 3 false"},
		{"a member that leaves does not count", func(c *Census) { c.Link(at, "b", false, true, "") }, "live left live 2 true"},
		{"one that has said so in a note", func(c *Census) { c.Hear(at, "b", Note{Node: "b#1", Leaving: true}) }, "live left live 2 true"},
		{"another process in its place", func(c *Census) {
			c.Link(at, "b", false, true, "")
			c.Link(at, "b", true, false, "b#2")
		}, "live live live 3 true"},
		{"a late note of the process before", func(c *Census) {
			c.Link(at, "b", true, false, "b#2")
			c.Hear(at, "b", Note{Node: "b#1", Leaving: true})
		}, "live live live 3 true"},
		{"this member leaves", func(c *Census) { c.Leave() }, "left live live 2 true"},
		{"this member leaves, and the others end their links to it", func(c *Census) {
			c.Leave()
			c.Hear(at, "b", Note{Node: "b#1", Epoch: 1})
			c.Hear(at, "c", Note{Node: "c#1", Epoch: 1})
		}, "left live live 2 true"},
		{"others that cannot ask this member", func(c *Census) {
			c.Hear(at, "b", Note{Node: "b#1", Epoch: 1})
			c.Hear(at, "c", Note{Node: "c#1", Epoch: 1})
		}, "live live live 3 false"},
		{"and another one of these notes that comes too late", func(c *Census) {
			c.Hear(at, "b", Note{Node: "b#1", Epoch: 1, Seq: 2, Linked: true})
			c.Hear(at, "b", Note{Node: "b#1", Epoch: 1, Seq: 1})
			c.Hear(at, "c", Note{Node: "c#1", Epoch: 1, Seq: 1})
		}, "live live live 3 true"},
		{"two names of one process, of which it calls itself the second", func(c *Census) {
			c.Link(at, "c", true, false, "b#1")
			for _, name := range []string{"b", "c"} {
				c.Hear(at, name, Note{Node: "b#1", Self: "c"})
			}
		}, "live alias live 2 true"},
		{"a list of which nobody knows half", func(c *Census) { stale(c, Note{Quorum: true, List: listOf("abc")}) }, "live live live dead dead dead dead 3 true"},
		{"and that another one has as well", func(c *Census) { stale(c, Note{Quorum: true, List: listOf("abcdefg")}) }, "live live live cut cut cut cut 7 false"},
		{"and of which nobody knows whether there are others", func(c *Census) { stale(c, Note{List: listOf("abc")}) }, "live live live cut cut cut cut 7 false"},
		{"and of which an older version knows", func(c *Census) { stale(c, Note{Quorum: true}) }, "live live live cut cut cut cut 7 false"},
		{"two names of one process", func(c *Census) { c.Link(at, "c", true, false, "b#1") }, "live live alias 2 true"},
		{"another name of this process", func(c *Census) { c.Link(at, "c", true, false, "a#1") }, "live live alias 2 true"},
		{"a member that is not listed any more, but answers", func(c *Census) { c.List(at, []Member{{Name: "a"}, {Name: "c"}}) }, "live live live 3 true"},
		{"and does not answer any more", func(c *Census) {
			c.List(at, []Member{{Name: "a"}, {Name: "c"}})
			c.Link(at, "b", false, false, "")
			hear(c, at+1, "c", "a", "c")
		}, "live live 2 true"},
		{"and does not answer, until another one says so", func(c *Census) {
			c.List(at, []Member{{Name: "a"}, {Name: "c"}})
			c.Link(at, "b", false, false, "")
		}, "live cut live 3 true"},
		{"two that are not listed any more, and that nobody can ask about", func(c *Census) {
			c.List(far-1, []Member{{Name: "a"}})
			c.Link(far-1, "b", false, false, "")
			c.Link(far-1, "c", false, false, "")
		}, "live cut cut 3 false"},
		{"and that are lost for long", func(c *Census) {
			c.List(at, []Member{{Name: "a"}})
			c.Link(far-forget-1, "b", false, false, "")
			c.Link(far-forget-1, "c", false, false, "")
		}, "live 1 true"},
		{"a new member", func(c *Census) { c.List(at, []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}) }, "live live live dead 4 true"},
		{"the last one leaves", func(c *Census) {
			c.Leave()
			c.Link(at, "b", false, true, "")
			c.Link(at, "c", false, true, "")
		}, "live left left 1 true"},
	} {
		c := newTestCensus("a", "b", "c")
		if tt.do(c); summary(c) != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, summary(c), tt.want)
		}
	}
}

// A process that another one replaces without having left is reported once.
func TestCrash(t *testing.T) {
	c := newTestCensus("a", "b", "c")
	c.Link(1, "b", true, false, "b#2")
	if s := c.Survey(far); !slices.Equal(s.Unknown, []string{"b"}) {
		t.Errorf("%q", s.Unknown)
	}
	c.Link(2, "b", false, true, "")
	c.Link(3, "b", true, false, "b#3")
	if s := c.Survey(far); len(s.Unknown) > 0 {
		t.Errorf("%q", s.Unknown)
	}
}

// Whatever happens to links, two members never both have a quorum and each declare the other one
// dead.
func FuzzNoTwoMajorities(f *testing.F) {
	f.Add(uint16(0x1234), uint8(3))
	f.Add(uint16(0x01), uint8(0)) // two that are cut off from each other
	f.Add(uint16(0x1e), uint8(2)) // two sides of two
	f.Add(uint16(0x01), uint8(3)) // two of five that the other three see
	f.Fuzz(func(t *testing.T, broken uint16, n uint8) {
		names := []string{"a", "b", "c", "d", "e", "f"}[:2+n%5]
		cut := func(i, j int) bool { // links work in both directions or in none
			lo, hi := min(i, j), max(i, j)
			return i != j && broken>>((hi*(hi-1)/2+lo)%16)&1 == 1
		}
		all := make([]Survey, len(names))
		for i, name := range names {
			c := New(name+"#1", name)
			var members []Member
			for _, m := range names {
				members = append(members, Member{Name: m})
			}
			c.List(0, members)
			for j, other := range names {
				if i == j || cut(i, j) {
					continue
				}
				c.Link(1, other, true, false, other+"#1")
				n := Note{Node: other + "#1"}
				for k, seen := range names {
					if !cut(j, k) {
						n.Sees = append(n.Sees, seen)
					}
				}
				c.Hear(2, other, n)
			}
			all[i] = c.Survey(far)
		}
		for i, a := range names {
			for j, b := range names {
				if all[i].Status[b] == Dead && (all[j].Status[a] == Dead || all[j].Quorum && all[i].Quorum && !cut(i, j)) {
					t.Errorf("%s and %s: %+v, %+v", a, b, all[i], all[j])
				}
			}
		}
	})
}
