package sim

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/heap"
)

// shared is processor sharing. Each of n jobs works at the speed min(1, Workers/n). On a
// clock with this speed, the end of a job's work does not depend on other jobs.
type shared struct {
	jobs  *heap.Heap[*job] // that work; first the one that ends first
	clock float64          // nanoseconds of work done per job
	as    time.Duration    // instant at which clock was right, pauses taken out
	gen   uint32
}

// A share is a job's part of a processor.
type share struct {
	end float64 // on the clock of the processor
	seq uint64  // the order of jobs with the same end
	at  int     // index in the heap, plus 1; 0 if the job has no share
}

func newShared() shared {
	return shared{jobs: heap.New(func(a, b *job) bool {
		return a.share.end < b.share.end || a.share.end == b.share.end && a.share.seq < b.share.seq
	}).Track(func(j *job, at int) { j.share.at = at + 1 })}
}

func (l *layer) speed() float64 {
	return min(1, float64(l.workers)/float64(max(l.shared.jobs.Len(), 1)))
}

// advance brings the clock of the processor up to now.
func (l *layer) advance(s *Sim) {
	if !l.cfg.Sharing {
		return
	}
	now := l.pause.active(s.now)
	l.shared.clock += float64(now-l.shared.as) * l.speed()
	l.shared.as = now
}

// schedule puts the next end of shared work on the agenda.
func (l *layer) schedule(s *Sim) {
	h := &l.shared
	h.gen++
	if !l.cfg.Sharing || h.jobs.Len() == 0 {
		return
	}
	left := max(math.Ceil((h.jobs.Min().share.end-h.clock)/l.speed()), 0)
	s.agenda.push(l.pause.after(s.now, span(left)), evShared, l.index, h.gen)
}

// share begins the work of a job.
func (l *layer) share(s *Sim, j *job, work time.Duration) {
	l.advance(s)
	s.shares++
	j.share.end, j.share.seq = l.shared.clock+float64(work), s.shares
	l.shared.jobs.Push(j)
	l.schedule(s)
}

// unshare ends the work of a job, if it works.
func (l *layer) unshare(s *Sim, j *job) {
	if j.share.at > 0 {
		l.advance(s)
		l.shared.jobs.Remove(j.share.at - 1)
		l.schedule(s)
	}
}
