package sim

import (
	"math"
	"time"
)

// shared is processor sharing. Each of n jobs works at the speed min(1, Workers/n). On a
// clock with this speed, the end of a job's work does not depend on other jobs.
type shared struct {
	heap  []share       // binary, by end; stale shares included
	jobs  int           // that work
	clock float64       // nanoseconds of work done per job
	as    time.Duration // instant at which clock was right, pauses taken out
	gen   uint32
}

// A share is a job in progress. It is stale unless the job has its seq.
type share struct {
	end float64
	seq uint64 // not 0; the order of shares with the same end
	job *job
}

func (a *share) before(b *share) bool { return a.end < b.end || a.end == b.end && a.seq < b.seq }

// push adds a share.
func (h *shared) push(e share) {
	h.heap = append(h.heap, e)
	i := len(h.heap) - 1
	for i > 0 && e.before(&h.heap[(i-1)/2]) {
		h.heap[i] = h.heap[(i-1)/2]
		i = (i - 1) / 2
	}
	h.heap[i] = e
}

// pop removes the first share.
func (h *shared) pop() share {
	first, last := h.heap[0], len(h.heap)-1
	e := h.heap[last]
	h.heap = h.heap[:last]
	i := 0
	for {
		c := 2*i + 1
		if c >= last {
			break
		}
		if c+1 < last && h.heap[c+1].before(&h.heap[c]) {
			c++
		}
		if !h.heap[c].before(&e) {
			break
		}
		h.heap[i] = h.heap[c]
		i = c
	}
	if last > 0 {
		h.heap[i] = e
	}
	return first
}

// first returns the share of the job that ends first, nil if no job works.
func (h *shared) first() *share {
	for len(h.heap) > 0 && h.heap[0].job.share != h.heap[0].seq {
		h.pop()
	}
	if len(h.heap) == 0 {
		return nil
	}
	return &h.heap[0]
}

func (l *layer) speed() float64 {
	return min(1, float64(l.workers)/float64(max(l.shared.jobs, 1)))
}

// share0 brings the clock up to now.
func (l *layer) share0(s *Sim) {
	if !l.cfg.Sharing {
		return
	}
	now := l.pause.active(s.now)
	l.shared.clock += float64(now-l.shared.as) * l.speed()
	l.shared.as = now
}

// shareNext schedules the next end of work.
func (l *layer) shareNext(s *Sim) {
	h := &l.shared
	h.gen++
	if !l.cfg.Sharing {
		return
	}
	if first := h.first(); first != nil {
		left := max(math.Ceil((first.end-h.clock)/l.speed()), 0)
		s.agenda.push(l.pause.after(s.now, span(left)), evShared, l.index, h.gen)
	}
}

// share begins the work of a job.
func (l *layer) share(s *Sim, j *job, work time.Duration) {
	l.share0(s)
	s.shares++
	j.share = s.shares
	l.shared.push(share{l.shared.clock + float64(work), j.share, j})
	l.shared.jobs++
	l.shareNext(s)
}

// unshare removes a job before the end of its work.
func (l *layer) unshare(s *Sim, j *job) {
	if j.share == 0 {
		return
	}
	l.share0(s)
	j.share = 0
	l.shared.jobs--
	l.shareNext(s)
}

// sharedDone handles the end of the work that ends first.
func (s *Sim) sharedDone(l *layer) {
	l.share0(s)
	j := l.shared.pop().job
	j.share = 0
	l.shared.jobs--
	l.shareNext(s)
	s.worked(j)
}
