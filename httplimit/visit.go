package httplimit

import (
	"context"
	"io"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/observe"
	"github.com/weir-go/weir/shape"
)

// A visit is one request that was let in. It is used again for others.
type visit struct {
	admission.Visit[*http.Request]
	writer *observe.Writer
	spare  []observe.Writer // for other requests
	body   *body            // of the request, if it is watched
	first  int64            // bytes of it that were received first

	site *Middleware
	ctx  context.Context // of the request
	long *longResponse   // its permit, if the response goes on after its header
}

// batch is how many Writers are made at a time. None is used twice: routers are
// known to write after their middleware has returned, and that must not reach
// another request.
const batch = 16

func (v *visit) observe(w http.ResponseWriter) http.ResponseWriter {
	if len(v.spare) == 0 {
		v.spare = make([]observe.Writer, batch)
	}
	v.writer, v.spare = &v.spare[0], v.spare[1:]
	return v.writer.Observe(w)
}

// serve runs the handler, and holds what the request was given until it has
// ended. The request came as another, to which what handlers note is of use.
func (v *visit) serve(l *limited, w http.ResponseWriter, r, came *http.Request) {
	left := false // not in v, which is another request's once it is forgotten
	defer func() {
		if !left {
			v.abort(l)
		}
	}()
	l.fields.write(w.Header(), r, &v.Visit)
	w = v.observe(w)
	v.writer.Owner = v
	v.site, v.ctx = l.Middleware, r.Context()
	if v.body != nil {
		v.writer.Begins = v.body.answer
	}
	if l.cfg.Upload != nil || l.cfg.Download != nil {
		r = v.pace(l, r)
	}
	l.next.ServeHTTP(w, r)
	if r != came {
		came.Pattern = r.Pattern             // loggers want it
		came.MultipartForm = r.MultipartForm // the server removes its files
	}

	o := &v.writer.Response
	o.Begun()
	o.Begins, o.Owner = nil, nil // who writes later does so on his own
	left = true
	outcome := weir.Ignored // if it is the client's fault
	if !v.body.late() {
		outcome = observe.Outcome(r.Context(), o.Status)
	}
	v.end(outcome)
	v.forget(l)
}

// abort ends a visit whose handler has panicked, or made its goroutine exit.
func (v *visit) abort(l *limited) {
	v.end(weir.Ignored)
	v.drop(l)
}

// end gives back what the request holds.
func (v *visit) end(o weir.Outcome) {
	v.long.end(o)
	v.Leave(o)
}

// drop gives back the room of a body that was received first.
func (v *visit) drop(l *limited) {
	if v.first > 0 {
		l.bodies.Add(-v.first)
		v.first = 0
	}
}

// forget makes the visit ready for another request.
func (v *visit) forget(l *limited) {
	v.drop(l)
	v.writer, v.body, v.site, v.ctx, v.long = nil, nil, nil, nil, nil
	l.visits.Put(v)
}

// pace puts the request's body and the response's under the limiters that the
// configuration has for them.
func (v *visit) pace(l *limited, r *http.Request) *http.Request {
	if l.cfg.Download != nil {
		if lim := l.cfg.Download(r); lim != nil {
			v.writer.Paced = shape.NewWriter(r.Context(), v.writer.ResponseWriter, lim)
		}
	}
	if l.cfg.Upload == nil || r.Body == nil || r.Body == http.NoBody {
		return r
	}
	lim := l.cfg.Upload(r)
	if lim == nil {
		return r
	}
	paced := r.WithContext(r.Context()) // handlers do not change the request they get
	paced.Body = pacedBody{shape.NewReader(r.Context(), r.Body, lim), r.Body}
	return paced
}

type pacedBody struct {
	io.Reader
	io.Closer
}

// Use says that the request which w answers costs n tokens of each rule it is
// under, and not what was taken when it came: what is too much is given back,
// what is too little charged. Clients learn of it by their next request: the
// fields of this one say what was left when it came. Use is for the goroutine of
// the handler, before it returns; w may be wrapped, if that has an Unwrap as http.ResponseController
// wants it. Use reports whether there is a Middleware behind w. It panics if
// n < 0.
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
