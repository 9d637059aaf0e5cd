package plan

import (
	"io"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pathshape"
	"github.com/weir-go/weir/pressure"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A Class is a set of routes with the same limits. A reload makes new
// classes, with the limiters, the counts and the caches of the ones before.
type Class struct {
	forward.Class
	Rule     *proxyrule.Class // nil: none in the file
	Own      bool             // the limiter is not shared from the class default
	mixed    bool             // the limiter, or the total, has requests of several routes
	Deadline time.Duration    // 0: none
	MaxBody  int64            // bytes; negative: no bound
	Priority weir.Priority
	Guard    *pressure.Guard // nil: none
	Cache    *classCache     // nil: none
}

// BoundBody bounds the body of a request, or reports that it is too large.
func (c *Class) BoundBody(w http.ResponseWriter, r *http.Request) (fits bool) {
	switch {
	case c.MaxBody < 0 || r.Body == nil || r.Body == http.NoBody:
	case r.ContentLength > c.MaxBody:
		if c.Shadow {
			c.Counts.CountWouldBeTooLarge()
			return true
		}
		return false
	case r.ContentLength >= 0:
	case c.Shadow:
		r.Body = &measuredBody{ReadCloser: r.Body, left: c.MaxBody, counts: c.Counts}
	default:
		r.Body = http.MaxBytesReader(w, r.Body, c.MaxBody)
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

// Classify returns the class of a request, and the pattern that it has matched; an empty one in
// the class default.
func (pl *Plan) Classify(r *http.Request) (c *Class, pattern string) {
	if pattern, ok := pl.routes.Match(r); ok {
		return pl.Classes[pl.classOf[pattern]], pattern
	}
	return pl.Other, ""
}

// RouteOf returns the route of a request that has matched a pattern of the class.
func (c *Class) RouteOf(r *http.Request, pattern string) string {
	switch {
	case !c.mixed:
		return ""
	case pathshape.Several(pattern):
		return pathshape.Shape(r.Method, r.URL.Path)
	}
	return pattern
}
