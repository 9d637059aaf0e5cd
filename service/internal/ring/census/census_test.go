package ring

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// summary returns the statuses of a census, by name.
func summary(c *census) (text string) {
	s := c.survey()
	for _, name := range []string{"a", "b", "c", "d"} {
		if status, known := s.status[name]; known {
			text += status.String() + " "
		}
	}
	return fmt.Sprint(text, s.members, " ", s.quorum)
}

// newTestCensus returns the census of a, with the links to the others up.
func newTestCensus(names ...string) *census {
	c := newCensus("a#1", "")
	var all []Member
	for _, name := range names {
		all = append(all, Member{Name: name})
	}
	c.list(0, all)
	for _, name := range names {
		c.link(0, name, true, false, name+"#1")
		c.heard(1, name, note{Node: name + "#1", Sees: names})
	}
	return c
}

func TestCensus(t *testing.T) {
	at := time.Second
	hear := func(c *census, now time.Duration, from string, sees ...string) {
		c.heard(now, from, note{Node: from + "#1", Sees: sees})
	}
	for _, tt := range []struct {
		what string
		do   func(c *census)
		want string
	}{
		{"all see each other", func(*census) {}, "live live live 3 true"},
		{"a lost member that another one saw before", func(c *census) { c.link(at, "b", false, false, "") }, "live cut live 3 true"},
		{"a lost member that another one sees", func(c *census) {
			c.link(at, "b", false, false, "")
			hear(c, at+1, "c", "a", "b", "c")
		}, "live cut live 3 true"},
		{"a lost member that no other one sees", func(c *census) {
			c.link(at, "b", false, false, "")
			hear(c, at+1, "c", "a", "c")
		}, "live dead live 3 true"},
		{"what the process before has told does not count", func(c *census) {
			c.link(at, "b", false, false, "")
			hear(c, at+1, "c", "a", "c")
			c.link(at+2, "c", true, false, "c#2")
		}, "live cut live 3 true"},
		{"a minority declares none dead", func(c *census) {
			c.link(at, "b", false, false, "")
			c.link(at, "c", false, false, "")
		}, "live cut cut 3 false"},
		{"a member that leaves does not count", func(c *census) { c.link(at, "b", false, true, "") }, "live left live 2 true"},
		{"one that has said so in a note", func(c *census) { c.heard(at, "b", note{Node: "b#1", Leaving: true}) }, "live left live 2 true"},
		{"another process in its place", func(c *census) {
			c.link(at, "b", false, true, "")
			c.link(at, "b", true, false, "b#2")
		}, "live live live 3 true"},
		{"a late note of the process before", func(c *census) {
			c.link(at, "b", true, false, "b#2")
			c.heard(at, "b", note{Node: "b#1", Leaving: true})
		}, "live live live 3 true"},
		{"this member leaves", func(c *census) { c.leaving = true }, "left live live 2 true"},
		{"two names of one process", func(c *census) { c.link(at, "c", true, false, "b#1") }, "live live alias 2 true"},
		{"another name of this process", func(c *census) { c.link(at, "c", true, false, "a#1") }, "live live alias 2 true"},
		{"a member that is not listed any more, but answers", func(c *census) { c.list(at, []Member{{Name: "a"}, {Name: "c"}}) }, "live live live 3 true"},
		{"and does not answer any more", func(c *census) {
			c.list(at, []Member{{Name: "a"}, {Name: "c"}})
			c.link(at, "b", false, false, "")
			c.sweep()
		}, "live live 2 true"},
		{"a new member", func(c *census) { c.list(at, []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}) }, "live live live cut 4 true"},
		{"the last one leaves", func(c *census) {
			c.leaving = true
			c.link(at, "b", false, true, "")
			c.link(at, "c", false, true, "")
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
	c.link(1, "b", true, false, "b#2")
	if s := c.survey(); !slices.Equal(s.unknown, []string{"b"}) {
		t.Errorf("%q", s.unknown)
	}
	c.link(2, "b", false, true, "")
	c.link(3, "b", true, false, "b#3")
	if s := c.survey(); len(s.unknown) > 0 {
		t.Errorf("%q", s.unknown)
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
		all := make([]survey, len(names))
		for i, name := range names {
			c := newCensus(name+"#1", name)
			var members []Member
			for _, m := range names {
				members = append(members, Member{Name: m})
			}
			c.list(0, members)
			for j, other := range names {
				if i == j || cut(i, j) {
					continue
				}
				c.link(1, other, true, false, other+"#1")
				n := note{Node: other + "#1"}
				for k, seen := range names {
					if !cut(j, k) {
						n.Sees = append(n.Sees, seen)
					}
				}
				c.heard(2, other, n)
			}
			all[i] = c.survey()
		}
		for i, a := range names {
			for j, b := range names {
				if all[i].status[b] == Dead && (all[j].status[a] == Dead || all[j].quorum && all[i].quorum && !cut(i, j)) {
					t.Errorf("%s and %s: %+v, %+v", a, b, all[i], all[j])
				}
			}
		}
	})
}
