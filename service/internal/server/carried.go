package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/memory"
	snapshot "github.com/weir-go/weir/service/internal/server/state"
)

// carryFor is how long the state of a rule that is missing is kept. A start with the
// wrong rules, or without any, must not lose what all keys have used.
const carryFor = 24 * time.Hour

// carried is the state in a snapshot of rules that are missing, or that count in
// another way now. Counts stay in the snapshot, from which they are read when they are
// written to the next one, or when the rule is back.
type carried struct {
	from   *snapshot.Reader // nil if there are no counts
	counts []snapshot.Counts
	limits []snapshot.Limits
	fleet  bool // all members note the same instant at which a rule began to count
}

// restore continues the counts and limits of rules, and no longer carries them. It
// returns how many rules continue their counts, and why others do not. It returns an
// error if the snapshot cannot be read.
func (c *carried) restore(all []memory.Kept, limits map[string]*lease.Limits) (continued int, skipped []string, failed error) {
	skip := func(what, rule string, err any) {
		skipped = append(skipped, fmt.Sprintf("the %s of rule %q: %v", what, rule, err))
	}
	byCounts := map[memory.Name]memory.Kept{}
	for _, k := range all {
		byCounts[k.Name] = k
	}
	c.counts = slices.DeleteFunc(c.counts, func(was snapshot.Counts) bool {
		what := "counts"
		if was.Candidate {
			what = "candidate's counts"
		}
		here, ok := byCounts[memory.Name{Rule: was.Rule, Candidate: was.Candidate}]
		switch {
		case !ok && limits[was.Rule] == nil:
			skip(what, was.Rule, "it is gone")
			return false
		case !ok || here.Buckets.Kind() != was.Kind:
			skip(what, was.Rule, "it counts in another way now")
			return false
		}
		if err := here.Buckets.Restore(c.from.Section(was.Data), c.from.Clock); err != nil {
			skip(what, was.Rule, err)
			if errors.As(err, new(*fs.PathError)) {
				failed = err
			}
		} else if !was.Candidate {
			if continued++; !c.fleet {
				here.State.Since = was.Since
			}
		}
		return true
	})
	c.limits = slices.DeleteFunc(c.limits, func(was snapshot.Limits) bool {
		if l := limits[was.Rule]; l != nil && l.Restore(was.Found) {
			return true
		}
		skip("limits", was.Rule, "no rule has that name and an auto limit")
		return false
	})
	return continued, skipped, failed
}

// leave notes the wall time at which rules were missing first.
func (c *carried) leave(wall time.Duration) {
	for i := range c.counts {
		if c.counts[i].Left == 0 {
			c.counts[i].Left = wall
		}
	}
	for i := range c.limits {
		if c.limits[i].Left == 0 {
			c.limits[i].Left = wall
		}
	}
}

// expire drops what has been carried for long enough.
func (c *carried) expire(wall time.Duration) {
	c.counts = slices.DeleteFunc(c.counts, func(was snapshot.Counts) bool { return wall-was.Left > carryFor })
	c.limits = slices.DeleteFunc(c.limits, func(was snapshot.Limits) bool { return wall-was.Left > carryFor })
}

func (c *carried) clone() carried {
	return carried{c.from, slices.Clone(c.counts), slices.Clone(c.limits), c.fleet}
}

// copyOf returns a function that copies counts from the snapshot.
func (c *carried) copyOf(counts snapshot.Counts) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, c.from.Section(counts.Data))
		return err
	}
}

// release closes the snapshot if nothing is to be read from it.
func (c *carried) release() (err error) {
	if c.from != nil && len(c.counts) == 0 {
		err = c.from.Close()
		c.from = nil
	}
	return err
}

// carryFrom reads what is carried from the file that was saved last, and closes the one
// before, so that its space on the disk can be used. If the file cannot be read, or has
// been replaced, the one before stays in use.
func (s *Server) carryFrom(path string) {
	s.reload.Lock()
	defer s.reload.Unlock()
	if s.carried.release(); s.carried.from == nil {
		return
	}
	f, err := snapshot.OpenFile(path)
	if err != nil {
		return
	}
	was := s.carried.from
	if !s.carried.move(f) {
		was = &snapshot.Reader{Source: f}
	}
	was.Close()
}

// move makes counts be read from a later snapshot, if that has them all.
func (c *carried) move(src snapshot.Source) bool {
	from, err := snapshot.Index(src)
	if err != nil {
		return false
	}
	counts := slices.Clone(c.counts)
	for i := range counts {
		at := slices.IndexFunc(from.Counts, func(next snapshot.Counts) bool {
			next.Data = counts[i].Data
			return next == counts[i]
		})
		if at < 0 {
			return false
		}
		counts[i] = from.Counts[at]
	}
	c.from, c.counts = from, counts
	return true
}

// reclaim continues what is carried of the rules that are new.
func (s *Server) reclaim() {
	if len(s.carried.counts)+len(s.carried.limits) > 0 {
		s.carried.restore(s.memory.Current().Fresh(), s.leases.ByName())
	}
}
