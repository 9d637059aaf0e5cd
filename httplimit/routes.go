package httplimit

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/admission"
)

// routing has the patterns of routes that requests were found to take, behind handlers that
// do not tell the route before. An http.ServeMux of these patterns finds that of the next
// request.
type routing struct {
	mux     http.ServeMux
	some    atomic.Bool // there are patterns
	told    atomic.Bool // by handlers
	known   sync.Map    // for each pattern, whether it finds requests; MaxClasses at most
	count   atomic.Int64
	unknown atomic.Uint64
	warning sync.Once
}

// of returns the pattern that a request is likely to match; empty if none is known.
func (rs *routing) of(r *http.Request) (pattern string) {
	if rs.some.Load() {
		_, pattern = rs.mux.Handler(r)
	}
	return pattern
}

// add makes a pattern known, by which r was served, and reports whether it finds requests
// such as r. A pattern does not that contradicts others, that is none of an http.ServeMux, or
// that is one of a path that has lost a prefix on the way.
func (rs *routing) add(pattern string, r *http.Request) bool {
	if useful, known := rs.known.Load(pattern); known {
		return useful.(bool)
	}
	if rs.count.Load() >= admission.MaxClasses {
		return false
	}
	useful := finds(pattern, r) && handle(&rs.mux, pattern)
	if useful {
		rs.some.Store(true)
		rs.told.Store(true)
	}
	if _, known := rs.known.LoadOrStore(strings.Clone(pattern), useful); !known {
		rs.count.Add(1)
	}
	return useful
}

// finds reports whether an http.ServeMux of a pattern alone finds r.
func finds(pattern string, r *http.Request) bool {
	var mux http.ServeMux
	if !handle(&mux, pattern) {
		return false
	}
	_, found := mux.Handler(r)
	return found == pattern
}

// handle adds a pattern to a mux, and reports whether that takes it.
func handle(mux *http.ServeMux, pattern string) (ok bool) {
	defer func() { _ = recover() }() // it panics if not
	mux.Handle(pattern, http.NotFoundHandler())
	return true
}

// silent reports whether no handler tells routes.
func (rs *routing) silent() bool { return !rs.told.Load() && rs.unknown.Load() >= asks }

// took reports whether a request with this status has taken a route.
func took(status int) bool { return status/100 == 2 || status/100 == 5 }

// learn learns from a request that was put into a class, and has taken a route, and reports
// whether later requests are found by that. The pattern is empty if the route is not known.
func (rs *routing) learn(pattern, class string, r *http.Request, status int, log *slog.Logger) (known bool) {
	switch {
	case pattern == class && class != "":
		return true
	case pattern != "":
		if rs.add(pattern, r) {
			return true
		}
	case class != "", !took(status), rs.told.Load(): // a handler in between has answered
		return false
	}
	rs.unknown.Add(1)
	rs.warning.Do(func() {
		if log == nil {
			log = slog.Default()
		}
		log.Warn("httplimit: the routes of requests are not known, so they share a limit: use httplimit.Routes"+
			" around the http.ServeMux, httplimit.Route in another router with a pattern that an http.ServeMux would find"+
			" the request by, or Config.Class", "pattern", pattern, "path", r.URL.Path)
	})
	return false
}

// asks is how many requests of a visit there are for each that asks for its route, although
// one is known, which may be less special, or although none ever was.
const asks = 64

// A found route is a context value, which a handler may set that the Middleware does not
// wait for.
type found struct{ pattern atomic.Pointer[string] }

type foundKey struct{}

// ask lets handlers tell the route of a request, if it is not known, and now and then if it
// is. It returns the request for them.
func (v *visit) ask(r *http.Request) *http.Request {
	v.found = nil
	if v.turn++; v.turn%asks != 1 && (v.Class() != "" || v.site.routes.silent()) {
		return r
	}
	v.found = new(found)
	return r.WithContext(context.WithValue(r.Context(), foundKey{}, v.found))
}

// route returns the pattern of the route that the request r has taken; empty if it is not
// known.
func (v *visit) route(r *http.Request) string {
	if v.found != nil {
		if p := v.found.pattern.Load(); p != nil {
			return *p
		}
	}
	return r.Pattern
}

// Routes returns mux, such that a Middleware in front of it learns the routes of requests,
// whatever handlers are in between:
//
//	m.Handler(logging(authenticated(httplimit.Routes(mux))))
//
// The Middleware finds the class of a request by the routes that earlier requests have
// taken. Routes is needed if a handler in between passes a copy of the request on, as those
// do that change its context; otherwise the Middleware reads http.Request.Pattern.
func Routes(mux *http.ServeMux) http.Handler { return router{mux} }

type router struct{ *http.ServeMux }

func (mux router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f, ok := r.Context().Value(foundKey{}).(*found); ok {
		if _, pattern := mux.Handler(r); pattern != "" {
			f.pattern.Store(&pattern)
		}
	}
	mux.ServeMux.ServeHTTP(w, r)
}

// Route tells a Middleware in front of a router which route a request has taken, in the
// syntax of http.ServeMux, as in "GET /users/{id}". The Middleware finds the class of later
// requests by that. It wants the context of the request.
func Route(ctx context.Context, pattern string) {
	if f, ok := ctx.Value(foundKey{}).(*found); ok {
		f.pattern.Store(&pattern)
	}
}
