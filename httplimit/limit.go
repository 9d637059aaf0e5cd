// Package httplimit protects HTTP handlers from overload: it limits how many
// requests are in flight, and how often each client may send one.
//
// [Handler] finds the concurrency that each route can bear, and refuses the excess
// early, with 503 and Retry-After:
//
//	http.ListenAndServe(addr, httplimit.Handler(mux))
//
// Rules limit each client's rate, and its requests in flight (keyed.Inflight). Refused
// requests get 429, and all responses tell the client its limit (RateLimit,
// RateLimit-Policy):
//
//	perClient, err := keyed.New[netip.Addr](rate.Per(100, time.Minute, 20), keyed.Config{})
//	...
//	m, err := httplimit.New(httplimit.Config{
//		Rules:    []httplimit.Rule{httplimit.PerKey("per-client", perClient, httplimit.Address())},
//		PerClass: httplimit.Auto, // limit the concurrency, too
//	})
//	...
//	http.ListenAndServe(addr, m.Handler(mux))
//
// Packages weirchi, weirecho, weirecho4, weirgin and weirgorilla, in the modules
// github.com/weir-go/weir/router/..., put a Middleware into other routers.
//
// Package httpclient is the client side: it obeys these headers.
//
// # What a request holds
//
// A request spends tokens of rules, and holds a unit of each rule of requests in flight
// until the handler returns or panics: event streams and WebSockets count for as long as
// their handlers run. It also holds a unit of its concurrency limit until the handler
// returns or panics. If the response goes on after its header,
// the limit learns the duration of the work from the header, and the request
// leaves the limit
//
//   - immediately, if the response is an event stream, or the handler has hijacked
//     the connection, as for a WebSocket;
//   - after twice the 99th percentile of successful work, if the handler has
//     flushed the response, written more than 32 KiB of it, or copied a file into it.
//
// A body of up to 64 KiB is received before the request takes a unit. While the
// handler waits for a larger one, for as long as the second kind of response above,
// the request leaves the limit too, and is back when more has come.
//
// At most Config.LongLived requests do so; further ones keep their units. While they hold
// a limit as a whole, other requests are refused at once, with the reason long_lived.
//
// # Where it belongs
//
// A Middleware belongs behind gzip and CORS, so that refusals have their headers,
// and behind an http.TimeoutHandler, which returns while its own handler still
// works.
//
// A limit of Auto begins at ten for each route. If more work that takes seconds
// is in flight from the start, some of it is refused for about ten times its
// duration. A PerClass with another limit.Config.Initial begins higher.
//
// The limit takes 503, 504 and missed deadlines as signs of overload, and ignores
// other errors.
package httplimit

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/internal/pathshape"
	"github.com/weir-go/weir/internal/problem"
)

// Auto returns a limiter with the defaults of package inflight: it finds by itself how
// many requests may be in flight, and up to a thousand wait for up to half a second. It
// learns how long clients wait: a request that would end after its client has left is
// refused.
func Auto(class string) weir.Limiter { return admission.NewAuto(class) }

// Handler returns next behind a Middleware that limits the concurrency of each route
// by Auto:
//
//	http.ListenAndServe(addr, httplimit.Handler(mux))
func Handler(next http.Handler) *AutoHandler {
	m, err := New(Config{PerClass: Auto})
	if err != nil {
		panic(err) // the Config is valid
	}
	return &AutoHandler{m, m.Handler(next)}
}

// An AutoHandler is an http.Handler behind its Middleware, which has the Stats. It is made by
// Handler.
type AutoHandler struct {
	*Middleware
	limited http.Handler
}

// ServeHTTP serves a request within the limits of the Middleware, or refuses it.
func (h *AutoHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.limited.ServeHTTP(w, r) }

// A Middleware limits the requests to the handlers behind it. They share its
// limits. It is safe for concurrent use.
type Middleware struct {
	cfg      Config
	door     *admission.Door[*http.Request]
	classify bool // by pattern
	fields   fields
	answers  []*answers   // of each rule
	visits   sync.Pool    // of *visit
	buffered atomic.Int64 // bytes of bodies that were received first
	long     longlived.Crowd
	routes   routing
}

// New returns a Middleware, or an error that names the first invalid field.
func New(cfg Config) (*Middleware, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.BodyTimeout == 0 {
		cfg.BodyTimeout = DefaultBodyTimeout
	}
	m := &Middleware{
		cfg:      cfg,
		door:     admission.New(cfg.door()),
		classify: cfg.Class == nil && cfg.PerClass != nil,
	}
	m.long.SetMost(cfg.LongLived)
	m.long.OnStay = m.warnStay
	m.fields.init(cfg)
	for _, r := range cfg.Rules {
		m.answers = append(m.answers, newAnswers(r.rule.Name))
	}
	m.visits.New = func() any { return new(visit) }
	return m, nil
}

// Handler returns next behind the Middleware.
//
// The ResponseWriter that next gets supports Flush, Hijack and ReadFrom if the
// original does, and Hijack if the original unwraps to a writer that does (see
// http.ResponseController). It must not be used after next has returned.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	if next == nil {
		panic("httplimit: Handler of a nil handler")
	}
	mux, _ := next.(*http.ServeMux)
	return &limited{m, next, mux}
}

// limited is a handler behind a Middleware.
type limited struct {
	*Middleware
	next http.Handler
	mux  *http.ServeMux // next, if it is one
}

func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && l.door.Exempt(r.URL.Path) {
		l.next.ServeHTTP(w, r)
		return
	}
	original := r
	if l.cfg.Criticality != "" || l.cfg.Deadline != "" {
		var cancel context.CancelFunc
		r, cancel = l.heed(r)
		defer cancel()
	}
	v := l.visits.Get().(*visit)
	r, err := l.enter(w, r, v)
	if err != nil {
		l.refuse(w, r, v, err) // may panic
		v.recycle(l)
		return
	}
	v.serve(l, w, r, original)
}

// enter asks all limits, and returns the request for the handler.
func (l *limited) enter(w http.ResponseWriter, r *http.Request, v *visit) (*http.Request, error) {
	admitted := false
	defer func() {
		if !admitted { // also if a function of Config has panicked
			v.GiveBack()
			v.dropBody(l)
		}
	}()
	class := l.class(r)
	if err := l.door.Ask(r.Context(), r, class, &v.Visit); err != nil {
		return r, err
	}
	if l.learns(r) && v.Class() == "" {
		v.Unsure()
	}
	if !l.cfg.Shadow && v.Limited() && l.long.Fills(v.Limiter()) {
		v.Refuse(errLongLived)
		return r, errLongLived
	}
	if r.Body != nil && r.Body != http.NoBody && v.Limited() && !l.cfg.Shadow {
		var err error
		if r, err = v.receive(l.Middleware, w, r); err != nil {
			v.Refuse(err)
			return r, err
		}
	}
	err := v.Admit(l.routed(r, class, v))
	admitted = err == nil
	return r, err
}

// learns reports whether the class of a request is found by the routes of earlier ones.
func (l *limited) learns(r *http.Request) bool { return l.classify && l.mux == nil && r.Pattern == "" }

// class returns the class of a request.
func (l *limited) class(r *http.Request) string {
	switch {
	case l.cfg.Class != nil:
		return l.cfg.Class(r)
	case !l.classify:
		return ""
	}
	return l.pattern(r)
}

// pattern returns the pattern of a request, as far as it is known.
func (l *limited) pattern(r *http.Request) string {
	pattern := r.Pattern
	if l.mux != nil && pathshape.Several(pattern) {
		pattern = cmp.Or(find(l.mux, r), pattern)
	}
	if pathshape.Several(pattern) {
		pattern = cmp.Or(l.routes.of(r), pattern)
	}
	return pattern
}

// routed returns the context in which a request asks its limit. It has the route of the request if
// the limit has requests of several ones, unless an outer handler has set a route.
func (l *limited) routed(r *http.Request, class string, v *visit) context.Context {
	ctx, route := r.Context(), class
	switch {
	case !v.Limited():
		return ctx
	case l.cfg.Limiter != nil && l.cfg.Class == nil:
		route = l.pattern(r)
	case l.cfg.Limiter == nil && !pathshape.Several(class) && v.Class() == class:
		return ctx
	}
	c := weir.ClassOf(ctx)
	if c.Route != "" {
		return ctx
	}
	if c.Route = route; pathshape.Several(route) {
		c.Route = pathshape.Shape(r.Method, r.URL.Path)
	}
	return weir.WithClass(ctx, c)
}

// find returns the pattern that a request matches in a mux, or in a mux that this passes it to.
func find(mux *http.ServeMux, r *http.Request) string {
	h, pattern := mux.Handler(r)
	if inner, ok := h.(*http.ServeMux); ok {
		return cmp.Or(find(inner, r), pattern)
	}
	return pattern
}

// refuse answers a request that was refused.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	m.fields.write(w.Header(), v.Answers())
	rule, all := "", rejections
	rejection := admission.Rejection(err)
	var retry time.Duration
	if i := v.Refuser(); i >= 0 {
		rule, all = m.cfg.Rules[i].rule.Name, m.answers[i]
		retry = v.Answers()[i].RetryAfter // that of the rejection is rounded up
	} else if rejection != nil {
		retry = rejection.RetryAfter
	}
	if m.cfg.RetryJitter > 0 && retry < weir.Never-m.cfg.RetryJitter {
		retry += rand.N(m.cfg.RetryJitter)
	}
	answer := all.find(err, rejection)
	var again []string
	if rejection != nil {
		again = problem.RetryAfter(retry)
	}
	if m.cfg.Refuse != nil {
		answer.Explain(w.Header(), again)
		m.cfg.Refuse(w, r, answer.Status, rule, err)
		return
	}
	answer.Write(w, r, again)
}
