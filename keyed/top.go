package keyed

import "github.com/weir-go/weir/internal/topk"

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
	var all []topk.Count[K]
	t := l.table.Load()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if s.top != nil {
			all = s.top.AppendTo(all)
		}
		s.mu.Unlock()
	}
	most := topk.Most(all, n)
	top := make([]Denied[K], len(most))
	for i, c := range most {
		c.Key = l.shown(c.Key)
		top[i] = Denied[K](c)
	}
	return top
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
