package longlived

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/wrapped"
)

// A Crowd counts the units of requests that would have left their limit if the bound of
// the Class allowed it. It is safe for concurrent use.
type Crowd struct {
	Class
	OnStay func() // called once, when the first request stays in its limit

	told   atomic.Bool
	stayed atomic.Uint64 // requests
	any    atomic.Int64  // units that are counted below

	mu    sync.Mutex
	units map[*inflight.Limiter]int // nil is for all other limiters
}

// Stayed returns how many requests have stayed in their limit.
func (c *Crowd) Stayed() uint64 { return c.stayed.Load() }

// stays counts the units of a request that stays in its limit.
func (c *Crowd) stays(l *inflight.Limiter, units int) {
	c.stayed.Add(1)
	c.add(l, units)
	if !c.told.Swap(true) {
		c.OnStay()
	}
}

func (c *Crowd) add(l *inflight.Limiter, units int) {
	c.any.Add(int64(units))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.units == nil {
		c.units = map[*inflight.Limiter]int{}
	}
	if c.units[l] += units; c.units[l] == 0 {
		delete(c.units, l)
	}
}

// Fills reports whether such requests hold a limit as a whole, so that a wait helps no other.
func (c *Crowd) Fills(l weir.Limiter) bool {
	if c.any.Load() == 0 {
		return false
	}
	in, ok := wrapped.Innermost(l).(*inflight.Limiter)
	if !ok {
		return false
	}
	c.mu.Lock()
	units := c.units[in]
	c.mu.Unlock()
	return units > 0 && units >= in.State().Limit
}

// An Exchange holds the permit of a request that its client can make last: while it sends a
// large body, and while it takes a response after its header. The request leaves the
// limit if that takes longer than ordinary work, as far as the Crowd allows it.
type Exchange struct {
	crowd   *Crowd
	limiter *inflight.Limiter // nil: of another type
	usual   time.Duration     // the time that ordinary work takes
	units   int

	mu       sync.Mutex // guards the fields below
	permit   weir.Permit
	timer    *time.Timer // nil without a check to come
	reading  bool        // the handler waits for the body
	read     uint        // counts Reads
	checked  uint        // read at the last check
	slow     bool        // the request has left the limit because of that
	responds bool        // the header of the response is written, and it goes on
	outcome  weir.Outcome
	left     bool // the limit
	stays    bool // in the limit, because the Crowd is full
	ended    bool
}

// NewExchange returns the Exchange of a request, and takes over its permit for units of a limiter.
func (c *Crowd) NewExchange(l weir.Limiter, units int, permit *weir.Permit) *Exchange {
	l = wrapped.Innermost(l)
	in, _ := l.(*inflight.Limiter)
	return &Exchange{crowd: c, limiter: in, usual: Usual(l), units: units, permit: permit.Move()}
}

// Watch has the request leave its limit while one Read of its body takes longer than ordinary work.
func (x *Exchange) Watch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = time.AfterFunc(x.usual, x.check)
}

// Reads is called around each Read. After it, the request takes its units again, without a
// wait: such requests can exceed the limit.
func (x *Exchange) Reads(now bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reading = now; now {
		x.read++
	} else {
		x.rejoinLocked()
	}
}

func (x *Exchange) rejoinLocked() {
	if x.left && !x.responds && !x.ended {
		x.left = false
		x.crowd.Leave()
		x.permit.Use(x.units)
	}
}

// check is called each time that ordinary work could have ended, until the response goes on
// after its header, or ends. The request leaves the limit if one Read lasts from check
// to check.
func (x *Exchange) check() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.responds || x.ended {
		return
	}
	if x.reading && x.read == x.checked && !x.left && x.crowd.Enter() {
		x.left, x.slow = true, true
		x.permit.Use(0)
	}
	x.checked = x.read
	x.timer.Reset(x.usual)
}

// Lasts is called when the response goes on after its header, which has an outcome. The duration that the limiter learns
// ends here. A response that is a body leaves the limit after the time that ordinary work takes, any other at once.
func (x *Exchange) Lasts(body bool, o weir.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.responds {
		x.rejoinLocked()
		x.responds, x.outcome = true, x.judged(o)
		x.stopLocked()
		x.permit.Report(x.outcome)
		if body {
			x.timer = time.AfterFunc(x.usual, x.leave)
		}
	}
	if !body {
		x.leaveLocked()
	}
}

// leave releases the units while the response goes on, as soon as the Crowd allows it.
func (x *Exchange) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leaveLocked()
}

func (x *Exchange) leaveLocked() {
	if x.ended || x.left {
		return
	}
	if !x.crowd.Enter() {
		if !x.stays {
			x.stays = true
			x.crowd.stays(x.limiter, x.units)
		}
		x.stopLocked()
		x.timer = time.AfterFunc(x.usual, x.leave)
		return
	}
	x.left = true
	x.countedLocked()
	x.permit.Release(x.outcome)
}

// End is called when the handler has ended, and returns the outcome of the work: that of the
// header, if the request has left the limit after it. The client of a stream ends it by leaving.
// A nil Exchange does nothing.
func (x *Exchange) End(o weir.Outcome) weir.Outcome {
	if x == nil {
		return o
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	x.stopLocked()
	x.countedLocked()
	if x.left {
		x.crowd.Leave()
		if x.responds {
			o = x.outcome
		}
	}
	x.permit.Release(x.judged(o))
	return o
}

// countedLocked ends the count of units that the request holds for lack of a place.
func (x *Exchange) countedLocked() {
	if x.stays {
		x.stays = false
		x.crowd.add(x.limiter, -x.units)
	}
}

func (x *Exchange) stopLocked() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// judged returns the outcome of work: its duration says nothing if the client was slow.
func (x *Exchange) judged(o weir.Outcome) weir.Outcome {
	if x.slow && o == weir.Success {
		return weir.Ignored
	}
	return o
}
