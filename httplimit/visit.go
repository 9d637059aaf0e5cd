package httplimit

import (
	"io"
	"net/http"
	"strings"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/bodytime"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/internal/observe"
	"github.com/weir-go/weir/shape"
)

// A visit is one request on its way through a Middleware. Visits are reused.
type visit struct {
	admission.Visit[*http.Request]
	writer   *observe.Writer
	spare    []observe.Writer // for later requests
	body     *bodytime.Body   // of the request, if its time is bounded
	buffered int64            // bytes of the body that were received first

	site  *Middleware
	long  *longlived.Exchange // the permit, if the client can make the request last
	found *found              // in the context of the request; nil if it does not ask for its route
	turn  uint                // requests that the visit was used for
}

// batch is how many Writers are allocated at a time. Writers are not reused: some
// routers write after their middleware has returned, and that must not reach
// another request. Fourteen fill a size class of the allocator.
const batch = 14

func (v *visit) observe(w http.ResponseWriter) http.ResponseWriter {
	if len(v.spare) == 0 {
		v.spare = make([]observe.Writer, batch)
	}
	v.writer, v.spare = &v.spare[0], v.spare[1:]
	return v.writer.Observe(w)
}

// serve runs the handler with r, and then gives back what the request holds. The
// original request, which outer handlers know, gets the fields that handlers set.
func (v *visit) serve(l *limited, w http.ResponseWriter, r, original *http.Request) {
	left := false // not a field of v, which belongs to another request after recycle
	defer func() {
		if !left {
			v.abort(l)
		}
	}()
	l.fields.write(w.Header(), v.Answers())
	w = v.observe(w)
	v.writer.Owner = v
	v.site = l.Middleware
	if v.body != nil {
		v.writer.Begins = v.body.Answer
	}
	v.watch(r)
	if l.cfg.Bandwidth != nil {
		r = v.pace(l, r)
	}
	learns := l.learns(r)
	if learns {
		r = v.ask(r)
	}
	l.next.ServeHTTP(w, r)
	if r != original {
		returned(r, original)
	}

	o := &v.writer.Response
	o.Ended()
	if learns {
		pattern := v.route(r)
		if l.routes.learn(pattern, v.Class(), original, o.Status, l.cfg.Log) && v.Class() == "" {
			v.Reclass(pattern)
		}
	}
	if v.body != nil && o.Status != observe.Hijacked {
		v.body.Returned()
	}
	o.Begins, o.Owner = nil, nil // later writes do not concern the visit
	left = true
	outcome := weir.Ignored // a slow body is the client's fault
	if !v.body.Late() {
		outcome = observe.Outcome(r.Context(), o.Status)
	}
	v.end(outcome)
	v.recycle(l)
}

// returned gives the request of outer handlers what inner ones have set in a copy of it:
// loggers read that, and the server removes the files of a form.
func returned(r, original *http.Request) {
	original.Form, original.PostForm, original.MultipartForm = r.Form, r.PostForm, r.MultipartForm
	if original.Pattern == r.Pattern {
		return
	}
	original.Pattern = r.Pattern
	for _, part := range strings.Split(r.Pattern, "{")[1:] {
		name, _, _ := strings.Cut(part, "}")
		if name = strings.TrimSuffix(name, "..."); name != "$" {
			original.SetPathValue(name, r.PathValue(name))
		}
	}
}

// abort ends a visit after a panic of the handler, or a runtime.Goexit.
func (v *visit) abort(l *limited) {
	if v.writer != nil {
		v.writer.Begins, v.writer.Owner = nil, nil // a router may still write
	}
	v.end(weir.Ignored)
	v.dropBody(l)
}

// end gives back what the request holds.
func (v *visit) end(o weir.Outcome) {
	v.Leave(v.long.End(o))
}

// dropBody gives back the memory of a body that was received first.
func (v *visit) dropBody(l *limited) {
	if v.buffered > 0 {
		l.buffered.Add(-v.buffered)
		v.buffered = 0
	}
}

// recycle makes the visit available to another request.
func (v *visit) recycle(l *limited) {
	v.dropBody(l)
	v.writer, v.body, v.site, v.long, v.found = nil, nil, nil, nil, nil
	l.visits.Put(v)
}

// pace limits the bandwidth of the request's body and of the response's.
func (v *visit) pace(l *limited, r *http.Request) *http.Request {
	upload, download := l.cfg.Bandwidth(r)
	if download != nil {
		v.writer.Paced = shape.NewWriter(r.Context(), v.writer.ResponseWriter, download)
	}
	if upload == nil || r.Body == nil || r.Body == http.NoBody {
		return r
	}
	paced := r.WithContext(r.Context()) // a handler must not change the request it gets
	paced.Body = pacedBody{shape.NewReader(r.Context(), r.Body, upload), r.Body}
	return paced
}

type pacedBody struct {
	io.Reader
	io.Closer
}

// Use changes the cost of the request behind w to n tokens for each rule, and
// gives back or charges the difference. The header fields of this response show
// the cost on arrival; those of the client's next response show the change. The
// handler must call Use in its own goroutine, before it returns. A wrapper of w
// must have the method Unwrap, as for http.ResponseController. Use reports whether
// w belongs to a Middleware. It panics if n < 0.
func Use(w http.ResponseWriter, n int) bool {
	if n < 0 {
		panic("httplimit: Use of a negative cost")
	}
	found := false
	for w != nil {
		if v, ok := observe.OwnerOf(w).(*visit); ok {
			v.Settle(n)
			found = true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = u.Unwrap()
	}
	return found
}
