package census

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A world is processes that exchange notes, in virtual time.
type world struct {
	now    time.Duration
	starts int
	alive  map[string]*process
	side   map[string]int  // members pass notes only to members of the same side
	deaf   map[string]bool // no other member can connect to them
	apart  map[string]bool // pairs of members between which nothing passes
}

// A process runs at a member.
type process struct {
	*Census
	name   string
	survey Survey
}

// listOf returns a list of members with letters as names.
func listOf(names string) (all []Member) {
	for _, name := range names {
		all = append(all, Member{Name: string(name), URL: "http://" + string(name)})
	}
	return all
}

// newWorld returns the members a, b and c, with one list.
func newWorld() *world {
	w := &world{alive: map[string]*process{}, side: map[string]int{}, deaf: map[string]bool{}, apart: map[string]bool{}}
	for _, name := range []string{"a", "b", "c"} {
		w.start(name, "abc")
	}
	w.settle()
	return w
}

func (w *world) start(name, list string) {
	w.starts++
	p := &process{Census: New(fmt.Sprintf("%s#%d", name, w.starts), name), name: name}
	p.List(w.now, listOf(list))
	w.alive[name] = p
}

// passes reports whether notes pass between two members.
func (w *world) passes(from, to string) bool {
	return w.alive[from] != nil && w.alive[to] != nil && w.side[from] == w.side[to] && !w.deaf[to] && !w.apart[from+to] && !w.apart[to+from]
}

// settle has all exchange notes for a while.
func (w *world) settle() {
	for range 6 {
		w.now += 250 * time.Millisecond
		w.round()
	}
}

func (w *world) round() {
	names := slices.Sorted(maps.Keys(w.alive))
	for _, at := range names {
		p := w.alive[at]
		p.survey = p.Survey(w.now)
		for to := range p.survey.Status {
			if to == at || p.members[to].URL == "" {
				continue
			}
			node := ""
			if w.alive[to] != nil {
				node = w.alive[to].node
			}
			up := w.passes(at, to)
			if up != p.Reached(to) || up && node != p.Node(to) {
				p.Link(w.now, to, false, false, "")
				if up {
					p.Link(w.now, to, true, false, node)
				}
			}
		}
	}
	for _, at := range names {
		p := w.alive[at]
		for to := range p.survey.Status {
			if !p.Reached(to) || !w.passes(at, to) {
				continue
			}
			q := w.alive[to]
			if name := q.Name(p.node); name != "" {
				q.Hear(w.now, name, p.Note(to, q.node, p.survey.Quorum))
			} else {
				q.Meet(w.now, p.Note(to, q.node, p.survey.Quorum))
			}
			p.Hear(w.now, to, q.Note(q.Name(p.node), p.node, q.survey.Quorum))
		}
	}
	for _, at := range names {
		w.alive[at].survey = w.alive[at].Survey(w.now)
	}
}

// do does what an operation says: a member, what it does, and a list.
func (w *world) do(op string) {
	f := strings.Fields(op)
	p := w.alive[f[0]]
	switch f[1] {
	case "kill":
		delete(w.alive, f[0])
	case "leave":
		if p != nil {
			p.Leave()
			w.round()
			delete(w.alive, f[0])
		}
	case "start": // and ends without a word, if it runs
		w.start(f[0], f[2])
	case "deaf":
		w.deaf[f[0]] = true
	case "apart":
		w.apart[f[0]+f[2]] = true
	case "together":
		w.apart[f[0]+f[2]] = false
	case "hears":
		w.deaf[f[0]] = false
	case "list":
		if p != nil {
			p.List(w.now, listOf(f[2]))
		}
	}
}

func (s *Survey) owners() (names []string) {
	for name, status := range s.Status {
		if status == Live || status == Cut {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// check returns what is wrong: members of one side that have a quorum and other owners than each other, or two sides with a quorum.
func (w *world) check() string {
	owners, first := map[int]string{}, ""
	for _, name := range slices.Sorted(maps.Keys(w.alive)) {
		p := w.alive[name]
		if !p.survey.Quorum {
			continue
		}
		own := strings.Join(p.survey.owners(), "")
		side := w.side[name]
		if was, known := owners[side]; known && was != own {
			return fmt.Sprintf("%s: the owners are %s and %s", name, was, own)
		}
		owners[side] = own
		if len(owners) > 1 {
			return fmt.Sprintf("%s and %s decide at the same time", first, own)
		}
		first = own
	}
	return ""
}

// state describes the world.
func (w *world) state() (text string) {
	for _, name := range slices.Sorted(maps.Keys(w.alive)) {
		p := w.alive[name]
		text += fmt.Sprintf("%s lists %d: %v, %d, %v; ", name, len(p.list), p.survey.Status, p.survey.Members, p.survey.Quorum)
	}
	return text
}

// operations returns all operations: a member starts with a list, gets another one, leaves, dies, or cannot be reached.
func operations() (all []string) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		for _, op := range []string{"start abc", "start abcde", "list abc", "list abcde", "leave", "kill", "deaf", "hears"} {
			if op != "start abc" || name < "d" { // it would be no member
				all = append(all, name+" "+op)
			}
		}
	}
	for _, pair := range []string{"a %s b", "b %s c", "c %s d"} {
		all = append(all, fmt.Sprintf(pair, "apart"), fmt.Sprintf(pair, "together"))
	}
	return all
}

// play does operations one after the other.
func play(t *testing.T, ops ...string) *world {
	t.Helper()
	w := newWorld()
	for i, op := range ops {
		w.do(op)
		w.settle()
		if wrong := w.check(); wrong != "" {
			t.Fatalf("%q: %s\n%s", ops[:i+1], wrong, w.state())
		}
	}
	return w
}

// playSplit does operations, and then splits the members in two for a long time. Of these, split has one.
func playSplit(t *testing.T, split int, ops ...string) {
	t.Helper()
	w := play(t, ops...)
	before := w.state()
	for i, name := range []string{"a", "b", "c", "d"} {
		w.side[name] = split >> i & 1
	}
	for range 2 {
		w.settle()
		w.now += 2 * forget
		w.settle()
		if wrong := w.check(); wrong != "" {
			t.Fatalf("%q, split %04b: %s\n%s\n%s", ops, split, wrong, before, w.state())
		}
	}
	clear(w.side)
	w.settle()
	if wrong := w.check(); wrong != "" {
		t.Fatalf("%q, after the split %04b: %s\n%s", ops, split, wrong, w.state())
	}
}

// Whatever lists members have, and in whatever order they change, come and go: members that decide with the whole limit
// have the same owners, and are on one side of a split.
func TestListsThatDiffer(t *testing.T) {
	all := operations()
	for _, d := range []string{"d hears", "d start abcde"} {
		for _, e := range []string{"e hears", "e start abcde"} {
			for _, one := range all {
				play(t, d, e, one)
				for split := range 16 {
					playSplit(t, split, d, e, one)
				}
			}
		}
	}
}

// A member that is replaced, and that one of the others cannot ask.
func TestReplacedApart(t *testing.T) {
	for _, end := range []string{"leave", "kill"} {
		for _, pair := range []string{"a apart b", "b apart c", "c apart d"} {
			for _, name := range []string{"a", "b", "c", "d"} {
				for _, list := range []string{"abc", "abcde"} {
					for _, d := range []string{"d hears", "d start abcde"} {
						if list == "abc" && name == "d" {
							continue
						}
						play(t, d, name+" "+end, pair, name+" start "+list)
						play(t, d, pair, name+" "+end, name+" start "+list)
					}
				}
			}
		}
	}
}

// The same with longer histories, of which each seed plays others.
func FuzzListsThatDiffer(f *testing.F) {
	for seed := range uint64(150) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 46))
		all, ops := operations(), []string{}
		for range 3 + random.IntN(6) {
			ops = append(ops, all[random.IntN(len(all))])
		}
		playSplit(t, random.IntN(16), ops...)
	})
}
