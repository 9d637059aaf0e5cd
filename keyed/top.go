package keyed

import (
	"cmp"
	"slices"
)

// topAShard is how many keys a shard counts the denials of.
const topAShard = 8

// A top counts the denials of the keys most denied: the space-saving sketch
// (Metwally, Agrawal and El Abbadi, 2005). A key that is not counted takes the
// place of the one least denied, and its count for a start. So a count is too
// high by at most what it started with, and a key with more denials than one
// in topAShard is always among them.
type top[K comparable] struct {
	prints [topAShard]uint64
	counts [topAShard]Denied[K]
}

func (t *top[K]) add(print uint64, key K) {
	least := 0
	for i, p := range t.prints {
		if p == print {
			t.counts[i].Count++
			return
		}
		if t.counts[i].Count < t.counts[least].Count {
			least = i
		}
	}
	t.prints[least] = print
	c := &t.counts[least]
	*c = Denied[K]{Key: key, Count: c.Count + 1, Over: c.Count}
}

// Denied is how often a key was denied.
type Denied[K comparable] struct {
	Key   K
	Count uint64 // denials, or more
	Over  uint64 // but no more than so many more
}

// Top returns the n keys most denied since New or Restore, most first. It counts
// eight keys in each of its shards, which have up to 128 kB (in small budgets
// 4 kB, in large ones 256 kB). A key that has more than an eighth of its shard's
// denials is always found. The keys counted are kept: if keys are long, take a
// hash of them.
func (l *Limiter[K]) Top(n int) []Denied[K] {
	var all []Denied[K]
	t := l.table.Load()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if s.top != nil {
			for _, d := range s.top.counts {
				if d.Count > 0 {
					all = append(all, d)
				}
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Denied[K]) int { return cmp.Compare(b.Count, a.Count) })
	all = slices.Clip(all[:min(max(n, 0), len(all))])
	for i := range all {
		all[i].Key = l.shown(all[i].Key)
	}
	return all
}

// Stats is the state of a Limiter, and its counts since New or Restore.
type Stats struct {
	Denied    uint64 // decisions against a key
	Forgotten uint64 // buckets forgotten in debt, because memory was full
	Waiting   int    // calls that wait
	Memory    int    // bytes in use for buckets, of Config.Memory
	Own       int    // keys with waiters, or a quota of their own
}

// Stats returns the state and the counts.
func (l *Limiter[K]) Stats() Stats {
	t := l.table.Load()
	st := Stats{Waiting: l.Waiting(), Memory: int(t.pages.Load())*pageBytes + len(t.shards)*shardBytes}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		st.Denied += s.denied
		st.Forgotten += s.forgotten
		st.Own += len(s.own)
		st.Memory += len(s.dir.pages) * 8
		s.mu.Unlock()
	}
	return st
}
