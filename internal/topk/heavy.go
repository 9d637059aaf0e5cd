// Package topk counts the most frequent keys of a stream, in memory that does not
// grow: which clients are denied most, without a counter for every client.
//
//	var s topk.Sketch[string]
//	s.Add(fingerprint, client)
//	top := topk.Most(s.AppendTo(nil), 3)
package topk

import (
	"cmp"
	"slices"
)

// Counters is the number of keys that a Sketch counts.
const Counters = 8

// A Sketch counts the keys that come most often: the space-saving sketch
// (Metwally, Agrawal and El Abbadi, 2005). A key that is not counted takes the
// place of the one that came least, and its count for a start. So a count is too
// high by at most what it started with, and a key that is more than one in
// Counters of all that came is always among them. The zero Sketch is empty.
type Sketch[K any] struct {
	prints [Counters]uint64
	counts [Counters]Count[K]
}

// A Count is how often a key came.
type Count[K any] struct {
	Key   K
	Count uint64 // times, or more
	Over  uint64 // the most by which Count is too high
}

// Add counts a key, which is known by its fingerprint, and that is not 0.
func (s *Sketch[K]) Add(print uint64, key K) {
	least := 0
	for i, p := range s.prints {
		if p == print {
			s.counts[i].Count++
			return
		}
		if s.counts[i].Count < s.counts[least].Count {
			least = i
		}
	}
	s.prints[least] = print
	c := &s.counts[least]
	*c = Count[K]{Key: key, Count: c.Count + 1, Over: c.Count}
}

// AppendTo appends the keys that are counted to all, in no order.
func (s *Sketch[K]) AppendTo(all []Count[K]) []Count[K] {
	for _, c := range s.counts {
		if c.Count > 0 {
			all = append(all, c)
		}
	}
	return all
}

// Most returns the n that came most of all, most first. It orders all.
func Most[K any](all []Count[K], n int) []Count[K] {
	slices.SortFunc(all, func(a, b Count[K]) int { return cmp.Compare(b.Count, a.Count) })
	return all[:min(max(n, 0), len(all))]
}
