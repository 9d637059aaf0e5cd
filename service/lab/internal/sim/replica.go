package sim

import (
	"math"
	"reflect"

	"github.com/weir-go/weir/internal/gate"
)

// A Replica has the figures of one instance of a guard. Rates are per second of the time
// after the warm-up and after the start of the last instance.
type Replica struct {
	Name     string     `json:"name"`
	Weight   float64    `json:"weight"`
	Admitted float64    `json:"admitted_rps"`
	Goodput  float64    `json:"goodput_rps"`          // successes before their callers left
	Limit    float64    `json:"mean_limit,omitempty"` // over the second half of the series; 0 if unlimited
	Guard    gate.Stats `json:"guard"`                // of the whole run
}

// replicas returns the figures of the instances of a layer's guard, and the least of
// Jain's indices of the goodputs of equal instances. Equal instances have the same
// weight, limit and classes. Both results are zero for a single instance; the index is 1
// if no two instances are equal.
func (s *Sim) replicas(l *layer) (all []Replica, jain float64) {
	if len(l.guards) < 2 {
		return nil, 0
	}
	seconds := (s.now - l.level).Seconds()
	kinds := map[int][]float64{}
	for i := range l.guards {
		g := &l.guards[i]
		r := Replica{Name: g.name, Weight: g.weight, Guard: g.stats()}
		if seconds > 0 {
			r.Admitted, r.Goodput = float64(g.admits)/seconds, float64(g.success)/seconds
		}
		half := s.meter.series[len(s.meter.series)/2:]
		for _, st := range half {
			r.Limit += float64(st.Layers[l.index].Limits[i])
		}
		r.Limit /= float64(max(len(half), 1))
		if r.Limit > Unlimited {
			r.Limit = 0
		}
		all = append(all, r)
		kinds[g.kind] = append(kinds[g.kind], r.Goodput)
	}
	jain = 1
	for _, goodputs := range kinds {
		jain = min(jain, jainIndex(goodputs))
	}
	return all, jain
}

// stats returns the state and the counts of the guard.
func (g *guard) stats() gate.Stats {
	if g.other != nil {
		return g.other.Stats()
	}
	return g.gate.Stats()
}

// stats returns the sums over the instances of the guard; nil without a guard.
func (l *layer) stats() *gate.Stats {
	if len(l.guards) == 0 {
		return nil
	}
	sum := l.guards[0].stats()
	for i := range l.guards[1:] {
		st := l.guards[i+1].stats()
		st.Limit = min(st.Limit, math.MaxInt-sum.Limit) // no limit is math.MaxInt
		all, one := reflect.ValueOf(&sum).Elem(), reflect.ValueOf(st)
		for k := range all.NumField() {
			if field := all.Field(k); field.CanInt() {
				field.SetInt(field.Int() + one.Field(k).Int())
			} else {
				field.SetUint(field.Uint() + one.Field(k).Uint())
			}
		}
	}
	return &sum
}
