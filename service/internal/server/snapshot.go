package server

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/ruleset"
	snapshot "github.com/weir-go/weir/service/internal/server/state"
)

// Snapshot writes what must outlive the process, for Restore in the next one: the
// tokens that keys have used, leases, the limits that auto has found, and the
// secret of grants. Counters, the keys of Top and waiting requests are left out.
// Requests that are decided during the call may or may not be included. It takes as
// much memory as the counts of a rule.
//
// A reader of a snapshot can return leases, settle grants, and construct keys that
// share a bucket.
func (s *Server) Snapshot(w io.Writer) error {
	rs := s.rules.Load()
	out := snapshot.NewWriter(w)
	all := snapshot.Snapshot{Wall: time.Duration(time.Now().UnixNano()), Clock: s.clock.Now()}
	for _, k := range rs.kept() {
		var data bytes.Buffer
		if err := k.buckets.Snapshot(&data); err != nil {
			return fmt.Errorf("server: rule %q: %w", k.rule, err)
		}
		out.Counts(&snapshot.Counts{
			Rule: k.rule, Candidate: k.candidate, Since: k.state.since, Kind: k.buckets.Kind(), Data: data.Bytes(),
		})
	}
	places := map[*lease.Limits]int{}
	for i, r := range rs.all {
		if found := r.limits.Found(); len(found) > 0 {
			all.Limits = append(all.Limits, snapshot.Limits{Rule: r.Name, Found: found})
		}
		all.Rules, places[r.limits] = append(all.Rules, r.Name), i
	}
	all.Leases, all.Token = s.leases.Leases(places)
	all.Grants = s.grants.State()
	return out.Close(&all)
}

// A countsName is how Restore finds buckets: those of a rule, or of its candidate.
type countsName struct {
	rule      string
	candidate bool
}

// kept are buckets that a snapshot includes.
type kept struct {
	countsName
	state   *state
	buckets quota.Buckets
}

// kept returns all buckets.
func (rs *rules) kept() (all []kept) {
	if rs.overlays != nil {
		for period, st := range rs.overlays.states {
			all = append(all, kept{countsName{windowName(period), false}, st, st.buckets})
		}
	}
	for _, r := range rs.all {
		if r.buckets != nil {
			all = append(all, kept{countsName{r.Name, false}, r.state, r.buckets})
		}
		if r.candidate != nil {
			all = append(all, kept{countsName{r.Name, true}, r.state, r.candidate})
		}
	}
	return all
}

// windowName returns the name for the windows of overlays. It is not ASCII, unlike
// the names of rules.
func windowName(period time.Duration) string { return "«windows of " + period.String() + "»" }

// SaveFile writes a Snapshot to a file that only its owner can read, in place of
// the file there. If it fails, that stays unchanged. There must be one call at a
// time.
func (s *Server) SaveFile(path string) error { return snapshot.WriteFile(path, s.Snapshot) }

// Restored describes the result of Restore.
type Restored struct {
	Rules  int // that continue their counts
	Leases int // that are held again
	Ended  int // leases that have expired since
	// Skipped describes everything that was left out, and why.
	Skipped []string
}

func (done *Restored) skip(format string, args ...any) {
	done.Skipped = append(done.Skipped, fmt.Sprintf(format, args...))
}

// Restore continues from a Snapshot as if the Server of that time had only stood
// still: buckets have refilled, leases have expired, and ids of grants and leases
// are valid. Rules are found by their names; what belongs to a rule that is gone, or
// that counts in another way, is left out. Leases are held even if the limit is
// lower now. A lease that was returned after the Snapshot is held until it expires.
// If the error is not nil, nothing has changed.
//
// Restore must be called before any other use of the Server. It reads r into memory,
// to its end.
func (s *Server) Restore(r io.Reader) (Restored, error) {
	from, err := snapshot.Read(r)
	if err != nil {
		return Restored{}, err
	}
	s.reload.Lock()
	defer s.reload.Unlock()
	passed := max(time.Duration(time.Now().UnixNano())-from.Wall, 0)
	s.clock.Resume(from.Clock + min(passed, ruleset.MaxSpan))
	var done Restored
	rs := s.rules.Load()
	for st := range rs.states {
		st.since = s.clock.Now()
	}
	s.restoreCounts(rs, from, &done)
	s.keys.invalidate()
	s.restoreLeases(rs, from, &done)
	s.grants.Restore(from.Grants)
	return done, nil
}

// LoadFile is Restore from a file.
func (s *Server) LoadFile(path string) (Restored, error) {
	f, err := os.Open(path)
	if err != nil {
		return Restored{}, err
	}
	defer f.Close()
	return s.Restore(f)
}

func (s *Server) restoreCounts(rs *rules, from *snapshot.Snapshot, done *Restored) {
	byName, all := rs.byName(), map[countsName]kept{}
	for _, k := range rs.kept() {
		all[k.countsName] = k
	}
	for i := range from.Counts {
		c := &from.Counts[i]
		what := "counts"
		if c.Candidate {
			what = "candidate's counts"
		}
		here, ok := all[countsName{c.Rule, c.Candidate}]
		switch {
		case !ok && byName[c.Rule] == nil:
			done.skip("the %s of rule %q: it is gone", what, c.Rule)
		case !ok || here.buckets.Kind() != c.Kind:
			done.skip("the %s of rule %q: it counts in another way now", what, c.Rule)
		default:
			if err := here.buckets.Restore(bytes.NewReader(c.Data)); err != nil {
				done.skip("the %s of rule %q: %v", what, c.Rule, err)
			} else if !c.Candidate {
				here.state.since = c.Since
				done.Rules++
			}
		}
	}
}

func (s *Server) restoreLeases(rs *rules, from *snapshot.Snapshot, done *Restored) {
	byName := rs.byName()
	got := s.leases.Restore(from.Leases, from.Token, func(l *lease.SavedLease) (under []lease.Under) {
		for _, place := range l.Under {
			if r := byName[from.Rules[place]]; r != nil {
				under = leaseUnder([]*rule{r}, l.Key, under)
			}
		}
		return under
	})
	done.Leases, done.Ended = got.Held, got.Expired
	if got.Orphaned > 0 {
		done.skip("%d leases: no rule leases them now", got.Orphaned)
	}
	if got.TooMany > 0 {
		done.skip("%d leases: more than %d", got.TooMany, s.leases.Max())
	}
	for _, l := range from.Limits {
		if r := byName[l.Rule]; r == nil || !r.limits.Restore(l.Found) {
			done.skip("the limits of rule %q: no rule has that name and an auto limit", l.Rule)
		}
	}
}
