package httplimit

import (
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/internal/observe"
)

// A longResponse holds the permit of a request after the header of its response.
type longResponse struct {
	class *longlived.Class

	mu      sync.Mutex // guards the fields below
	permit  weir.Permit
	outcome weir.Outcome // as the header tells
	timer   *time.Timer  // nil if the response left the limit at its header
	left    bool         // the limit
	ended   bool
}

// Lasts is called when the response goes on after its header. The duration that
// the limiter learns ends here. A stream and a hijacked connection leave the limit
// at once. Another response leaves it after the time that ordinary work takes.
func (v *visit) Lasts(kind observe.Kind) {
	switch {
	case v.long != nil:
		if kind != observe.Body {
			v.long.leave()
		}
		return
	case !v.Limited():
		return
	}
	x := &longResponse{class: &v.site.long, permit: v.Detach(), outcome: observe.Outcome(v.Request().Context(), v.writer.Status)}
	v.long = x
	x.permit.Report(x.outcome)
	if kind != observe.Body {
		x.leave()
		return
	}
	usual := longlived.Usual(v.Limiter())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = time.AfterFunc(usual, x.leave)
}

// leave releases the unit while the handler runs, if LongLived allows it.
func (x *longResponse) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.left || !x.class.Enter() {
		return
	}
	x.left = true
	x.permit.Release(x.outcome)
}

// end is called when the handler has ended. A nil longResponse does nothing.
func (x *longResponse) end(o weir.Outcome) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.left {
		x.class.Leave()
	}
	x.permit.Release(o)
}
