package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/config"
)

// Restored is what Restore has found.
type Restored struct {
	Rules  int // whose counts go on
	Leases int // that are held again
	Ended  int // leases that have run out since
	// Skipped says of each thing that was left out what it is, and why.
	Skipped []string
}

// Restore takes up what a Snapshot has kept: as if the Server of then had only
// stood still, while time went by. Buckets have refilled, leases have run out, ids
// of grants and leases are good. Rules are found by their names: what belongs to one that
// is gone, or is counted in another way now, is left out. Leases are held even if
// the limit is less now. What became of them after the Snapshot is not known: who
// has returned a lease since still counts, until its TTL is over. If the error is
// not nil, nothing has changed.
//
// Restore before the Server is used by anybody else. It reads r to its end, and
// into memory.
func (s *Server) Restore(r io.Reader) (Restored, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return Restored{}, fmt.Errorf("server: reading a snapshot: %w", err)
	}
	from, err := decode(b)
	if err != nil {
		return Restored{}, fmt.Errorf("server: reading a snapshot: %w", err)
	}
	s.reload.Lock()
	defer s.reload.Unlock()
	s.epoch = time.Now().Add(-from.clock - passedSince(from.wall))
	var done Restored
	set := s.rules.Load()
	for _, r := range set.inForce() {
		r.live.since = s.now()
	}
	for _, c := range from.counts {
		if why := c.restore(set.named(c.rule)); why != "" {
			done.skip("the %s of rule %q: %s", c.what(), c.rule, why)
		} else if !c.trial {
			done.Rules++
		}
	}
	s.keys.outdate()
	s.restoreLeases(from, set, &done)
	for _, l := range from.limits {
		if r := set.named(l.rule); r == nil || !r.live.gates.restore(l) {
			done.skip("the limits of rule %q: there is none that finds its limits", l.rule)
		}
	}
	s.grants.restore(from.grants)
	return done, nil
}

// LoadFile is Restore of a file.
func (s *Server) LoadFile(path string) (Restored, error) {
	f, err := os.Open(path)
	if err != nil {
		return Restored{}, err
	}
	defer f.Close()
	return s.Restore(f)
}

func (done *Restored) skip(format string, args ...any) {
	done.Skipped = append(done.Skipped, fmt.Sprintf(format, args...))
}

func (c *savedCounts) what() string {
	if c.trial {
		return "candidate's counts"
	}
	return "counts"
}

// restore puts counts under a rule, or says why not.
func (c *savedCounts) restore(r *Rule) string {
	if r == nil {
		return "it is gone"
	}
	how, state := keeps(r.live.buckets, &r.Quota)
	if c.trial {
		how, state = keeps(r.live.trial, r.Candidate)
	}
	if state == nil || how != c.how {
		return "it is counted in another way"
	}
	if len(c.data) > 0 {
		if err := state.Restore(bytes.NewReader(c.data)); err != nil {
			return err.Error()
		}
	}
	if !c.trial {
		r.live.since = c.since
	}
	return ""
}

func (s *Server) restoreLeases(from *saved, set *ruleset, done *Restored) {
	rules := make([]*Rule, len(from.under))
	for i, name := range from.under {
		rules[i] = set.named(name)
	}
	ls := &s.leases
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.token = max(ls.token, from.token)
	now := s.now()
	gone, many := 0, 0
	for i := range from.leases {
		l := &from.leases[i]
		switch {
		case l.until <= now:
			done.Ended++
		case len(ls.of) >= s.cfg.MaxLeases:
			many++
		case !ls.restoreLocked(l, rules, now):
			gone++
		default:
			done.Leases++
		}
	}
	if gone > 0 {
		done.skip("%d leases: no rule leases them now", gone)
	}
	if many > 0 {
		done.skip("%d leases: more than %d", many, s.cfg.MaxLeases)
	}
}

// restoreLocked makes a lease held again, under those of its rules that still
// lease.
func (ls *leases) restoreLocked(l *savedLease, rules []*Rule, now time.Duration) bool {
	again := l.lease
	again.since, again.blind = now, true
	for _, i := range l.under {
		r := rules[i]
		if r == nil || r.Concurrency == nil {
			continue
		}
		g := r.live.gates
		if d := g.enter(r.bucket(l.key)); d != nil {
			again.held = append(again.held, held{d, d.force(l.n), r.Mode == config.Shadow})
			g.held.Add(int64(l.n))
		}
	}
	if len(again.held) == 0 && len(l.under) > 0 {
		return false
	}
	ls.keepLocked(&again, l.until)
	return true
}

// force lets units in, whatever the limit.
func (d *door) force(n int) weir.Permit {
	d.gates.mu.Lock()
	defer d.gates.mu.Unlock()
	p, ok := d.limiter.TryAcquire(context.Background(), n)
	if !ok {
		was := d.limiter.Stats().Limit
		d.limiter.SetAlgorithm(limit.Fixed(math.MaxInt))
		p, _ = d.limiter.TryAcquire(context.Background(), n)
		d.limiter.SetAlgorithm(algorithm(d.gates.terms, was))
	}
	return p
}

// restore lets Auto begin with the limits that it had found.
func (g *gates) restore(l savedLimits) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.terms == nil || g.terms.Limit != config.Auto {
		return false
	}
	for _, was := range l.of {
		d := g.doors[was.bucket]
		if d == nil {
			d = g.openLocked(was.bucket, was.limit)
			g.restLocked(d)
		} else {
			d.limiter.SetAlgorithm(algorithm(g.terms, was.limit))
		}
		d.lasts = was.lasts
	}
	return true
}

func (g *grants) restore(from savedGrants) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.key, g.turned, g.floor, g.settled = from.key, from.turned, from.floor, from.settled
	g.seq.Store(from.seq)
}

// nameOf returns what finds a rule again: its name or, if it is made of others,
// theirs.
func (set *ruleset) nameOf(r *Rule) string {
	if set.merged == nil {
		return r.Name
	}
	set.merged.mu.Lock()
	defer set.merged.mu.Unlock()
	for _, m := range set.merged.of {
		if m.found.rules[0] == r {
			var names []string
			for _, i := range m.members {
				names = append(names, set.config.Rules[i].Name)
			}
			return strings.Join(names, "\n")
		}
	}
	return ""
}

// named returns the rule that nameOf says; nil if there is none.
func (set *ruleset) named(name string) *Rule {
	if set.merged == nil {
		if i := slices.IndexFunc(set.rules, func(r *Rule) bool { return r.Name == name }); i >= 0 {
			return set.rules[i]
		}
		return nil
	}
	var members []int
	for part := range strings.SplitSeq(name, "\n") {
		i := slices.IndexFunc(set.config.Rules, func(r config.Rule) bool { return r.Name == part })
		if i < 0 {
			return nil
		}
		members = append(members, i)
	}
	slices.Sort(members)
	if members = slices.Compact(members); members[0] != 0 {
		return nil
	}
	return set.merged.find(members).rules[0]
}
