package httplimit

import (
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/internal/observe"
)

// errLongLived refuses a request because requests that go on hold all units of its limit. It
// is a Rejection of its own: one that weir.Reject shares would also be another limiter's.
var errLongLived = &weir.Rejection{Reason: weir.OverLimit, RetryAfter: time.Second}

// A crowd counts the units of requests that would have left their limit if LongLived allowed
// it. It is safe for concurrent use.
type crowd struct {
	longlived.Class
	log  *slog.Logger // nil: slog.Default
	told atomic.Bool
	full atomic.Uint64 // requests that stayed
	any  atomic.Int64  // units that are counted below

	mu    sync.Mutex
	units map[*inflight.Limiter]int // nil is for all other limiters
}

// stays counts the units of a request that stays in its limit, and warns once.
func (c *crowd) stays(l *inflight.Limiter, units int) {
	c.full.Add(1)
	c.add(l, units)
	if !c.told.Swap(true) {
		log := c.log
		if log == nil {
			log = slog.Default()
		}
		log.Warn("httplimit: Config.LongLived is used up by event streams, WebSockets and other requests that go on after their header; more of them hold"+
			" units of their limit, and a limit that they fill refuses requests with the reason long_lived", "long_lived", c.Now())
	}
}

func (c *crowd) add(l *inflight.Limiter, units int) {
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

// fills reports whether such requests hold a limit as a whole, so that a wait helps no other.
func (c *crowd) fills(l weir.Limiter) bool {
	if c.any.Load() == 0 {
		return false
	}
	in, ok := l.(*inflight.Limiter)
	if !ok {
		return false
	}
	c.mu.Lock()
	units := c.units[in]
	c.mu.Unlock()
	return units > 0 && units >= in.State().Limit
}

// A long holds the permit of a request that its client can make last: while it sends a
// large body, and while it takes a response after its header. The request leaves the
// limit if that takes longer than ordinary work, as far as LongLived allows it.
type long struct {
	class   *crowd
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
	stays    bool // in the limit, because LongLived is used up
	ended    bool
}

func (v *visit) newLong() *long {
	l := v.Limiter()
	in, _ := l.(*inflight.Limiter)
	return &long{class: &v.site.long, limiter: in, usual: longlived.Usual(l), units: v.Units(), permit: v.Detach()}
}

// watch watches the body of a request, unless it was received first.
func (v *visit) watch(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || !v.Limited() || v.site.cfg.Shadow {
		return
	}
	if _, first := r.Body.(received); first {
		return
	}
	x := v.newLong()
	v.long, r.Body = x, watchedBody{r.Body, x} // r is a copy: see receive
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = time.AfterFunc(x.usual, x.check)
}

// A watchedBody tells when the handler waits for more of it.
type watchedBody struct {
	io.ReadCloser
	long *long
}

func (b watchedBody) Read(p []byte) (int, error) {
	b.long.reads(true)
	defer b.long.reads(false)
	return b.ReadCloser.Read(p)
}

// reads is called around each Read. After it, the request takes its units again, without a
// wait: such requests can exceed the limit.
func (x *long) reads(now bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reading = now; now {
		x.read++
	} else {
		x.rejoinLocked()
	}
}

func (x *long) rejoinLocked() {
	if x.left && !x.responds && !x.ended {
		x.left = false
		x.class.Leave()
		x.permit.Use(x.units)
	}
}

// check is called each time that ordinary work could have ended, until the response goes on
// after its header, or ends. The request leaves the limit if one Read lasts from check
// to check.
func (x *long) check() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.responds || x.ended {
		return
	}
	if x.reading && x.read == x.checked && !x.left && x.class.Enter() {
		x.left, x.slow = true, true
		x.permit.Use(0)
	}
	x.checked = x.read
	x.timer.Reset(x.usual)
}

// Lasts is called when the response goes on after its header. The duration that
// the limiter learns ends here. A stream and a hijacked connection leave the limit
// at once. Another response leaves it after the time that ordinary work takes.
func (v *visit) Lasts(kind observe.Kind) {
	if !v.Limited() {
		return
	}
	if v.long == nil {
		v.long = v.newLong()
	}
	v.long.lasts(kind, observe.Outcome(v.Request().Context(), v.writer.Status))
}

func (x *long) lasts(kind observe.Kind, o weir.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.responds {
		x.rejoinLocked()
		x.responds, x.outcome = true, x.judged(o)
		x.stopLocked()
		x.permit.Report(x.outcome)
		if kind == observe.Body {
			x.timer = time.AfterFunc(x.usual, x.leave)
		}
	}
	if kind != observe.Body {
		x.leaveLocked()
	}
}

// leave releases the units while the response goes on, as soon as LongLived allows it.
func (x *long) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leaveLocked()
}

func (x *long) leaveLocked() {
	if x.ended || x.left {
		return
	}
	if !x.class.Enter() {
		if !x.stays {
			x.stays = true
			x.class.stays(x.limiter, x.units)
		}
		x.stopLocked()
		x.timer = time.AfterFunc(x.usual, x.leave)
		return
	}
	x.left = true
	x.countedLocked()
	x.permit.Release(x.outcome)
}

// end is called when the handler has ended, and returns the outcome of the work: that of the
// header, if the request has left the limit after it. The client of a stream ends it by leaving.
// A nil long does nothing.
func (x *long) end(o weir.Outcome) weir.Outcome {
	if x == nil {
		return o
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	x.stopLocked()
	x.countedLocked()
	if x.left {
		x.class.Leave()
		if x.responds {
			o = x.outcome
		}
	}
	x.permit.Release(x.judged(o))
	return o
}

// countedLocked ends the count of units that the request holds for lack of a place.
func (x *long) countedLocked() {
	if x.stays {
		x.stays = false
		x.class.add(x.limiter, -x.units)
	}
}

func (x *long) stopLocked() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// judged returns the outcome of work: its duration says nothing if the client was slow.
func (x *long) judged(o weir.Outcome) weir.Outcome {
	if x.slow && o == weir.Success {
		return weir.Ignored
	}
	return o
}
