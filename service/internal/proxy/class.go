package proxy

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A class is a set of routes with the same limits. A reload makes new
// classes, with the limiters, the counts and the caches of the ones before.
type class struct {
	name     string
	rule     *proxyrule.Class // nil: none in the file
	own      bool             // the limiter is not shared from the class default
	mixed    bool             // the limiter, or the total, has requests of several routes
	limiter  *limiter
	origins  *origins.Set
	total    *limiter // of all classes; nil: none
	shadow   bool
	timeout  time.Duration // negative: none
	deadline time.Duration // 0: none
	maxBody  int64         // bytes; negative: no bound
	priority weir.Priority
	guard    *pressure.Guard // nil: none
	cache    *cached         // nil: none
	counts   *counts
}

// counts holds the counts of a class, or of all classes.
type counts struct {
	requests    atomic.Uint64
	denied      atomic.Uint64 // by rules
	admitted    atomic.Uint64
	waited      atomic.Int64                                // nanoseconds, of those
	waits       [len(inflight.WaitBounds) + 1]atomic.Uint64 // of those, as in inflight.Stats
	cancelled   atomic.Uint64                               // the client left the queue
	tooLarge    atomic.Uint64
	spared      atomic.Uint64 // rejected by the guard
	rejected    [reasons]atomic.Uint64
	outcomes    [weir.Dropped + 1]atomic.Uint64
	wasted      atomic.Uint64 // of the outcomes
	wouldReject [reasons]atomic.Uint64
	wouldRefuse atomic.Uint64 // too large, and let through in shadow mode
	wouldSpare  atomic.Uint64
}

// reasons is the number of Reasons; index 0 is for unknown ones.
const reasons = weir.Recovering + 1

// admit counts a request that has got its units, after a wait.
func (c *counts) admit(waited time.Duration) {
	c.admitted.Add(1)
	c.waited.Add(int64(waited))
	i, _ := slices.BinarySearch(inflight.WaitBounds[:], waited)
	c.waits[i].Add(1)
}

// reject counts a request that has got none.
func (c *counts) reject(err error) {
	if r := admission.Rejection(err); r == nil {
		c.cancelled.Add(1)
	} else if r.Reason < reasons {
		c.rejected[r.Reason].Add(1)
	}
}

// ended counts the outcome of an exchange.
func (c *counts) ended(o weir.Outcome, wasted bool) {
	c.outcomes[outcome.Plain(o)].Add(1)
	if wasted {
		c.wasted.Add(1)
	}
}

// rejections returns the counts above zero by reason.
func rejections(of *[reasons]atomic.Uint64, tooLarge, spared uint64) map[string]uint64 {
	all := map[string]uint64{}
	for why := range of {
		if n := of[why].Load(); n > 0 {
			all[weir.Reason(why).String()] = n
		}
	}
	if tooLarge > 0 {
		all["too_large"] = tooLarge
	}
	if spared > 0 {
		all[reasonPressure] = spared
	}
	return all
}

// bound bounds the body of a request, or reports that it is too large.
func (c *class) bound(w http.ResponseWriter, r *http.Request) (fits bool) {
	switch {
	case c.maxBody < 0 || r.Body == nil || r.Body == http.NoBody:
	case r.ContentLength > c.maxBody:
		if c.shadow {
			c.counts.wouldRefuse.Add(1)
			return true
		}
		return false
	case r.ContentLength >= 0:
	case c.shadow:
		r.Body = &measuredBody{ReadCloser: r.Body, left: c.maxBody, counts: c.counts}
	default:
		r.Body = http.MaxBytesReader(w, r.Body, c.maxBody)
	}
	return true
}

// A measuredBody counts a request in shadow mode if its body turns out to be too large.
type measuredBody struct {
	io.ReadCloser
	left   int64
	counts *counts
}

func (b *measuredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if before := b.left; before >= 0 {
		if b.left -= int64(n); b.left < 0 {
			b.counts.wouldRefuse.Add(1)
		}
	}
	return n, err
}

// tooLarge reports whether an error says that a body is beyond its bound.
func tooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
