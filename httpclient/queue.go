package httpclient

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir"
)

// A pace is the shell of a pacer: a lock, a clock, and the line of requests that
// wait for their turn. It has no goroutine; its timer runs while somebody waits.
type pace struct {
	epoch  time.Time
	chance func() float64
	queue  int           // most waiters
	most   time.Duration // most time in the line; negative = as long as a context lasts

	mu    sync.Mutex // guards what follows
	pacer pacer
	line  list.List // of *waiter, first come, first served
	timer *time.Timer
}

// A waiter stands in line for a blocked request.
type waiter struct {
	endurance
	place  *list.Element
	answer chan verdict // of capacity one; whoever takes it out of the line sends, once
}

// endurance is how long a request can wait.
type endurance struct {
	until time.Duration // at this instant its turn would come too late,
	late  weir.Reason   // for this reason; 0 = that of the wait
}

// A verdict is a request's number, or why it has none.
type verdict struct {
	number uint64
	err    error
}

func newPace(cfg *Config, chance func() float64) *pace {
	return &pace{epoch: time.Now(), chance: chance, queue: cfg.Queue, most: cfg.MaxWait, pacer: pacer{longest: cfg.MaxHold}}
}

func (p *pace) now() time.Duration { return time.Since(p.epoch) }

// wait lets a request out, in its turn, and returns its number. The error is a
// *weir.Rejection or, if ctx ended first, the context's own. Waited is negative
// if the request did not stand in line.
func (p *pace) wait(ctx context.Context) (number uint64, waited time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, -1, err
	}
	began := p.now()
	end, ends := ctx.Deadline()
	number, w, err := p.enter(began, end, ends)
	if w == nil {
		return number, -1, err
	}
	number, err = p.await(ctx, w)
	return number, p.now() - began, err
}

// enter lets a request out, refuses it, or puts it in line.
func (p *pace) enter(now time.Duration, end time.Time, ends bool) (uint64, *waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line.Len() == 0 && p.pacer.turn(now) <= now {
		return p.pacer.send(now), nil, nil
	}
	can := endurance{until: forever}
	if p.most >= 0 {
		can.until = now + p.most
	}
	if ends {
		if at := end.Sub(p.epoch); at <= can.until {
			can = endurance{at, weir.TooLate}
		}
	}
	if err := p.tooLateLocked(now, can); err != nil {
		return 0, nil, err
	}
	if p.line.Len() >= p.queue {
		return 0, nil, weir.Reject(weir.QueueFull, p.pacer.turn(now)-now)
	}
	w := &waiter{endurance: can, answer: make(chan verdict, 1)}
	w.place = p.line.PushBack(w)
	p.armLocked(now)
	return 0, w, nil
}

// tooLateLocked returns the rejection of a request whose turn cannot come in
// time, or nil.
func (p *pace) tooLateLocked(now time.Duration, can endurance) error {
	o := p.pacer.opens(now)
	if o.at <= now || o.at < can.until {
		return nil
	}
	return weir.Reject(cmp.Or(can.late, o.why), o.at-now)
}

// await blocks until w is answered, its time is over, or ctx ends.
//
// No answer is lost: the waiter is taken out of the line under the lock, by the
// one who answers it or by itself, and if it was answered first, the answer is
// in its channel.
func (p *pace) await(ctx context.Context, w *waiter) (uint64, error) {
	var over <-chan time.Time
	if p.most >= 0 {
		timer := time.NewTimer(p.most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case v := <-w.answer:
		return v.number, v.err
	case <-over:
	case <-ctx.Done():
	}
	why, wait, left := p.leave(w)
	switch err := ctx.Err(); {
	case err == nil && left:
		return 0, weir.Reject(why, wait)
	case err == nil:
		v := <-w.answer
		return v.number, v.err
	default:
		if !left {
			if v := <-w.answer; v.err == nil {
				p.unsend(v.number)
			}
		}
		return 0, err
	}
}

// leave takes w out of the line, if it is still there, and returns why it was in
// it and how long the first of it has to wait.
func (p *pace) leave(w *waiter) (why weir.Reason, wait time.Duration, left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place == nil {
		return 0, 0, false
	}
	p.line.Remove(w.place)
	w.place = nil
	now := p.now()
	p.armLocked(now)
	return p.pacer.why, max(p.pacer.turn(now)-now, 0), true
}

// unsend takes back a request that did not go out after all.
func (p *pace) unsend(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.pacer.unsend(now, number)
	p.serveLocked(now)
}

// renew reports whether a request that was let out may still go out. If not, it
// is as if it had not been let out.
func (p *pace) renew(number *uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.pacer.opens(now).at <= now {
		return true
	}
	p.pacer.unsend(now, *number) // it may be this very request that has used up a quota
	if p.pacer.opens(now).at <= now {
		*number = p.pacer.send(now)
		return true
	}
	p.serveLocked(now)
	return false
}

// hear takes in an answer, and tells those who wait for it.
func (p *pace) hear(a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.pacer.hear(now, a, p.chance())
	for e := p.line.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if err := p.tooLateLocked(now, w.endurance); err != nil {
			p.answerLocked(w, verdict{err: err})
		}
	}
	p.serveLocked(now)
}

// serveLocked lets out all whose turn it is, and sets the timer for the next.
func (p *pace) serveLocked(now time.Duration) {
	for p.line.Len() > 0 && p.pacer.turn(now) <= now {
		p.answerLocked(p.line.Front().Value.(*waiter), verdict{number: p.pacer.send(now)})
	}
	p.armLocked(now)
}

func (p *pace) answerLocked(w *waiter, v verdict) {
	p.line.Remove(w.place)
	w.place = nil
	w.answer <- v
}

// armLocked sets the timer for the first in line; without one there is no timer.
func (p *pace) armLocked(now time.Duration) {
	if p.line.Len() == 0 {
		if p.timer != nil {
			p.timer.Stop()
		}
		return
	}
	d := p.pacer.turn(now) - now
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.wake)
	} else {
		p.timer.Reset(d)
	}
}

func (p *pace) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serveLocked(p.now())
}

// idle reports whether nothing that the host has said has to be waited for.
func (p *pace) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	return p.pacer.turn(now) <= now
}

// waiting returns how many stand in line.
func (p *pace) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line.Len()
}
