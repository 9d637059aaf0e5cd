package tally

import "github.com/weir-go/weir/internal/topk"

// Denied is how often a key was denied.
type Denied struct {
	Key   string
	Count uint64 // denials, or more
	Over  uint64 // but no more than so many more
}

// Top returns the n keys most denied since New or Restore, most first. It counts
// eight keys in each of its shards, which have up to 128 kB (in small budgets
// 4 kB, in large ones 256 kB). A key that has more than an eighth of its shard's
// denials is always found. The keys counted are kept: if keys are long, take a
// hash of them.
func (l *Limiter) Top(n int) []Denied {
	var all []topk.Count[string]
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
	top := make([]Denied, len(most))
	for i, c := range most {
		top[i] = Denied(c)
	}
	return top
}

// Stats is the state of a Limiter, and its counts since New or Restore.
type Stats struct {
	Denied    uint64 // decisions against a key
	Forgotten uint64 // counts forgotten while live, because memory was full
	Memory    int    // bytes in use for counts, of Config.Memory
	Keys      int    // that have a live count; an estimate from one page of each shard
}

// Stats returns the state and the counts.
func (l *Limiter) Stats() Stats {
	t := l.table.Load()
	st := Stats{Memory: int(t.pages.Load())*pageBytes + len(t.shards)*shardBytes}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		st.Denied += s.denied
		st.Forgotten += s.forgotten
		st.Memory += len(s.dir.pages) * 8
		if s.dir.pages != nil {
			m := s.rule.moment(t.now())
			p := s.dir.pages[0]
			st.Keys += p.live(s.rule, &m) << p.depth // each prefix is as likely
		}
		s.mu.Unlock()
	}
	return st
}

func (p *page) live(r *rule, m *moment) (n int) {
	for i := range p.slots {
		if r.weight(p.slots[i].count, m) > 0 {
			n++
		}
	}
	return n
}
