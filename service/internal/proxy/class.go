package proxy

import (
	"io"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A class is a set of routes with the same limits. A reload makes new
// classes, with the limiters, the counts and the caches of the ones before.
type class struct {
	forward.Class
	rule     *proxyrule.Class // nil: none in the file
	own      bool             // the limiter is not shared from the class default
	mixed    bool             // the limiter, or the total, has requests of several routes
	deadline time.Duration    // 0: none
	maxBody  int64            // bytes; negative: no bound
	priority weir.Priority
	guard    *pressure.Guard // nil: none
	cache    *cached         // nil: none
}

// bound bounds the body of a request, or reports that it is too large.
func (c *class) bound(w http.ResponseWriter, r *http.Request) (fits bool) {
	switch {
	case c.maxBody < 0 || r.Body == nil || r.Body == http.NoBody:
	case r.ContentLength > c.maxBody:
		if c.Shadow {
			c.Counts.CountWouldBeTooLarge()
			return true
		}
		return false
	case r.ContentLength >= 0:
	case c.Shadow:
		r.Body = &measuredBody{ReadCloser: r.Body, left: c.maxBody, counts: c.Counts}
	default:
		r.Body = http.MaxBytesReader(w, r.Body, c.maxBody)
	}
	return true
}

// A measuredBody counts a request in shadow mode if its body turns out to be too large.
type measuredBody struct {
	io.ReadCloser
	left   int64
	counts *tally.Counts
}

func (b *measuredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if before := b.left; before >= 0 {
		if b.left -= int64(n); b.left < 0 {
			b.counts.CountWouldBeTooLarge()
		}
	}
	return n, err
}
