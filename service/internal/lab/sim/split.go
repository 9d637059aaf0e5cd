package sim

import (
	"cmp"
	"strconv"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/routecost"
)

// spares returns how many instances wait for a dear class.
func (l *layer) spares(s *Sim) int {
	if !l.cfg.Guard.SplitRoutes {
		return 0
	}
	return min(len(s.classes), routecost.MaxRoutes)
}

// initSplit makes the instances that wait for a dear class. They serve none yet.
func (l *layer) initSplit(s *Sim) {
	for i := range l.spares(s) {
		g := &l.guards[1+i]
		*g = guard{index: int32(len(s.guards)), layer: l, process: l.guards[0].process, timer: never, name: strconv.Itoa(2 + i), kind: 1 + i, weight: 1,
			serves: make([]bool, len(s.classes))}
		s.guards = append(s.guards, g)
		g.init(s, l.cfg.Guard, &Group{}, 0)
	}
}

// learn takes in how long a job took at the first instance. If a class is dear, a free
// instance serves it from now on.
func (l *layer) learn(s *Sim, j *job, o weir.Outcome) {
	if !l.cfg.Guard.SplitRoutes || j.guard != &l.guards[0] || o != weir.Success && o != outcome.Late && o != outcome.Gone {
		return
	}
	name := func(class int) string { return "class-" + strconv.Itoa(class) }
	pattern := l.costs.Add(s.now, "GET", "/"+name(int(j.class)), s.now-j.admitted)
	for class := range s.classes {
		if pattern != "GET /"+name(class) || !l.guards[0].serves[class] {
			continue
		}
		for i := range l.guards[1:] {
			if g := &l.guards[1+i]; !g.busy() {
				l.guards[0].serves[class], g.serves[class] = false, true
				g.name = cmp.Or(s.classes[class], g.name)
				return
			}
		}
	}
}

// busy reports whether the instance serves any class.
func (g *guard) busy() bool {
	for _, serves := range g.serves {
		if serves {
			return true
		}
	}
	return false
}
