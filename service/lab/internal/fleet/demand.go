package fleet

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A source makes the requests of one leaf: Poisson processes, of which the sum is one, and
// evenly spaced requests. Its random numbers do not depend on decisions, so each policy
// gets the same requests.
type source struct {
	rng   *rand.Rand
	keys  []int32   // of the Poisson processes
	sums  []float64 // of their rates up to and including each
	next  time.Duration
	evens []even
}

// An even is a stream of evenly spaced requests.
type even struct {
	key    int32
	period float64 // nanoseconds
	next   float64
}

// set replaces the streams from now on.
func (s *source) set(now time.Duration, streams []stream) {
	s.keys, s.sums, s.evens = s.keys[:0], s.sums[:0], s.evens[:0]
	total := 0.0
	for _, st := range streams {
		switch {
		case st.even:
			period := float64(time.Second) / st.rate
			s.evens = append(s.evens, even{st.key, period, float64(now) + period*s.rng.Float64()})
		default:
			total += st.rate
			s.keys, s.sums = append(s.keys, st.key), append(s.sums, total)
		}
	}
	s.schedule(now)
}

func (s *source) schedule(now time.Duration) {
	s.next = never
	if n := len(s.sums); n > 0 {
		gap := s.rng.ExpFloat64() / s.sums[n-1] * float64(time.Second)
		s.next = now + time.Duration(min(gap, float64(never/4)))
	}
}

// pop returns the next request before an instant.
func (s *source) pop(before time.Duration) (at time.Duration, key int32, ok bool) {
	at = s.next
	chosen := -1
	for i := range s.evens {
		if next := time.Duration(s.evens[i].next); next < at {
			at, chosen = next, i
		}
	}
	if at >= before {
		return 0, 0, false
	}
	if chosen >= 0 {
		e := &s.evens[chosen]
		e.next += e.period
		return at, e.key, true
	}
	key = s.keys[0]
	if n := len(s.keys); n > 1 {
		i, _ := slices.BinarySearch(s.sums, s.rng.Float64()*s.sums[n-1])
		key = s.keys[min(i, n-1)]
	}
	s.schedule(at)
	return at, key, true
}

// A stream is the requests of one leaf for one key, of one demand.
type stream struct {
	key  int32
	rate float64
	even bool
}

// A load has the rates of a demand at an instant: a leaf's rate for a key is the product
// of their parts, and factor.
type load struct {
	Demand
	keys   []int32
	byKey  []float64 // part of each of keys
	byLeaf []float64 // rate of each leaf, changed by the changes so far
	parts  []float64 // rate of each leaf at the beginning
	on     bool
}

// newLoad returns the load of a demand of a fleet with a number of leaves.
func newLoad(d Demand, first, count, leaves int) *load {
	l := &load{Demand: d, byLeaf: make([]float64, leaves)}
	for i := range count {
		l.keys = append(l.keys, int32(first+i))
	}
	l.byKey = zipf(count, d.KeySkew)
	d.each(leaves, func(leaf, i, of int) {
		if i == 0 {
			l.parts = zipf(of, d.LeafSkew)
		}
		l.byLeaf[leaf] = l.parts[i] * d.Rate
	})
	l.parts = slices.Clone(l.byLeaf)
	return l
}

// zipf returns parts of 1 in proportion to i^-skew.
func zipf(n int, skew float64) []float64 {
	parts, sum := make([]float64, n), 0.0
	for i := range parts {
		parts[i] = math.Pow(float64(i+1), -skew)
		sum += parts[i]
	}
	for i := range parts {
		parts[i] /= sum
	}
	return parts
}

// instants returns when the load changes.
func (l *load) instants(end time.Duration) (all []time.Duration) {
	all = append(all, l.From, l.until())
	for _, c := range l.Changes {
		all = append(all, c.At)
	}
	for at := l.From; (l.On > 0 || l.Off > 0) && at < min(end, l.until()); at += l.On + l.Off {
		all = append(all, at, at+l.On)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// change sets the rates to those from an instant on.
func (l *load) change(now time.Duration) {
	l.on = now >= l.From && now < l.until()
	if l.On > 0 || l.Off > 0 {
		l.on = l.on && (now-l.From)%(l.On+l.Off) < l.On
	}
	copy(l.byLeaf, l.parts)
	for _, c := range l.Changes {
		if c.At <= now {
			c.each(len(l.byLeaf), func(leaf, _, _ int) { l.byLeaf[leaf] = l.parts[leaf] * c.Factor })
		}
	}
}

// rate returns the rate of a leaf's requests for a key.
func (l *load) rate(leaf int, key int32) float64 {
	i := int(key - l.keys[0])
	if !l.on || i < 0 || i >= len(l.keys) {
		return 0
	}
	return l.byLeaf[leaf] * l.byKey[i]
}

// streams appends the streams of a leaf.
func (l *load) streams(all []stream, leaf int) []stream {
	if !l.on || l.byLeaf[leaf] == 0 {
		return all
	}
	for i, part := range l.byKey {
		all = append(all, stream{l.keys[i], l.byLeaf[leaf] * part, l.Arrivals == "even"})
	}
	return all
}
