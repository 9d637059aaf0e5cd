// Package httplimit limits the requests that an HTTP server takes in.
//
// In front of handlers stands a [Middleware]. With nothing to configure it keeps
// the work of each route at what it can bear, and refuses the rest early:
//
//	http.ListenAndServe(addr, httplimit.Handler(mux))
//
// Or it limits how often each client may ask, and tells it so (RateLimit,
// RateLimit-Policy, Retry-After):
//
//	perClient, err := keyed.New[netip.Addr](gcra.Per(100, time.Minute, 20), keyed.Config{})
//	...
//	m, err := httplimit.New(httplimit.Config{
//		Rules:    []httplimit.Rule{httplimit.PerKey("per-client", perClient, httplimit.Address())},
//		PerClass: httplimit.Auto, // and the work, too
//	})
//	...
//	http.ListenAndServe(addr, m.Handler(mux))
//
// The client side, which heeds these fields, is package httpclient.
//
// # What a request holds
//
// Tokens of rules are spent; a unit of a limiter is held until the handler has
// ended, panics included. That is right where the handler works, and wrong where
// it waits for its client, or for events. So if a response goes on after its
// header, the limiter learns how long the work took until the header, and the
// request leaves the limit
//
//   - at once, if the response is an event stream, or if the handler has taken
//     over the connection, as for a WebSocket;
//   - after as long as ordinary work takes (twice the 99th percentile of
//     successes), if the handler has flushed the response, or written more than
//     32 KiB of it, which a client can take slowly.
//
// There may be Config.LongLived such requests; more keep their units. Clients that
// send a large body slowly can still hold all units of its route: bound the time
// with the http.Server's ReadTimeout, or put a proxy that buffers in front.
//
// An http.TimeoutHandler ends while its handler works on: behind a Middleware, it
// gives the unit back too early. It belongs in front, as do gzip, and CORS, whose
// headers refusals should have.
//
// A limit that finds itself begins at ten for each route. Where more work of
// seconds, rather than milliseconds, is in flight from the start, it refuses some
// of it until it has learnt better, which takes some ten times as long as the
// work; a PerClass with another limit.AutoConfig.Initial begins higher.
//
// What the handler answered tells the limiter about load: 503, 504 and missed
// deadlines are signs of overload, other errors say nothing.
package httplimit

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/internal/problem"
)

// Auto returns a limiter that finds by itself how many requests may be in
// flight (limit.Auto): what Config.PerClass does unless told otherwise. Three
// times as many may wait, first come, first served, so that a wait is about three
// times as long as the work, whatever that takes; or as many as will be done in
// 100 ms, if that is more. Nobody waits for more than three seconds. All others are
// refused at once.
func Auto(class string) weir.Limiter { return admission.NewAuto(class) }

// Handler is the Middleware of the zero Config around a handler:
//
//	http.ListenAndServe(addr, httplimit.Handler(mux))
func Handler(next http.Handler) http.Handler {
	m, err := New(Config{})
	if err != nil {
		panic(err) // the zero Config is valid
	}
	return m.Handler(next)
}

// A Middleware lets requests in to handlers, as its limits allow. All handlers
// that it is put around share them. It is safe for concurrent use.
type Middleware struct {
	cfg      Config
	door     *admission.Door[*http.Request]
	classify bool
	exempt   paths
	trusted  caller.Networks
	fields   fields
	answers  []*answers   // of each rule
	visits   sync.Pool    // of *visit
	bodies   atomic.Int64 // bytes of bodies that were received first
	long     longlived.Class
}

// New returns a Middleware, or the error of cfg.Validate.
func New(cfg Config) (*Middleware, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.BodyTimeout == 0 {
		cfg.BodyTimeout = DefaultBodyTimeout
	}
	if cfg.BodyFirst == 0 {
		cfg.BodyFirst = DefaultBodyFirst
	}
	m := &Middleware{
		cfg:      cfg,
		door:     admission.New(cfg.door()),
		classify: cfg.Class == nil && (cfg.PerClass != nil || cfg.auto()),
	}
	m.long.SetMost(cfg.LongLived)
	m.trusted = caller.Trust(cfg.Trusted)
	m.fields.init(cfg)
	for _, r := range cfg.Rules {
		m.answers = append(m.answers, newAnswers(r.rule.Name))
	}
	if cfg.Exempt == nil {
		m.exempt = newPaths(DefaultExempt)
	} else {
		m.exempt = newPaths(cfg.Exempt)
	}
	m.visits.New = func() any { return new(visit) }
	return m, nil
}

// Handler returns next behind the Middleware.
//
// The ResponseWriter that next gets is as capable as the one it hides: it
// flushes, can be hijacked, and copies from files as that does. It must not be
// used after next's return.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	if next == nil {
		panic("httplimit: Handler of no handler")
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
	if l.exempt.has(r) {
		l.door.Exempt()
		l.next.ServeHTTP(w, r)
		return
	}
	came := r
	if l.cfg.Criticality != "" || l.cfg.Deadline != "" {
		var cancel context.CancelFunc
		r, cancel = l.heed(r)
		defer cancel()
	}
	v := l.visits.Get().(*visit)
	r, err := l.enter(w, r, v)
	if err != nil {
		v.drop(l)
		l.refuse(w, r, v, err) // may panic
		v.forget(l)
		return
	}
	v.serve(l, w, r, came)
}

// enter asks all limits, and returns the request as the handler is to see it.
func (l *limited) enter(w http.ResponseWriter, r *http.Request, v *visit) (*http.Request, error) {
	if err := l.door.Ask(r.Context(), r, l.class(r), &v.Visit); err != nil {
		return r, err
	}
	if r.Body != nil && r.Body != http.NoBody && v.Limited() && !l.cfg.Shadow {
		var err error
		if r, err = v.receive(l.Middleware, w, r); err != nil {
			v.Refuse(err)
			return r, err
		}
	}
	return r, v.Admit(r.Context())
}

// class is the class of a request.
func (l *limited) class(r *http.Request) string {
	switch {
	case l.cfg.Class != nil:
		return l.cfg.Class(r)
	case !l.classify:
		return ""
	case r.Pattern == "" && l.mux != nil:
		_, pattern := l.mux.Handler(r)
		return pattern
	}
	return r.Pattern
}

// refuse answers a request that was not let in.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	m.fields.write(w.Header(), r, &v.Visit)
	why, all := Refusal{Err: err}, rejections
	rejection := rejectionOf(err)
	var retry time.Duration
	if i := v.Refuser(); i >= 0 {
		why.Rule, all = m.cfg.Rules[i].rule.Name, m.answers[i]
		retry = v.Answers()[i].RetryAfter // exact, what is shared is not
	} else if rejection != nil {
		retry = rejection.RetryAfter
	}
	if m.cfg.RetryJitter > 0 && retry < weir.Never-m.cfg.RetryJitter {
		retry += rand.N(m.cfg.RetryJitter)
	}
	answer := all.of(err, rejection)
	var again []string
	if rejection != nil {
		again = problem.RetryAfter(retry)
	}
	if m.cfg.Refuse != nil {
		why.Status = answer.Status
		answer.Explain(w.Header(), again)
		m.cfg.Refuse(w, r, why)
		return
	}
	answer.Write(w, r, again)
}

// Stats is what a Middleware has done since New.
type (
	Stats      = admission.Stats
	RuleStats  = admission.RuleStats
	ClassStats = admission.ClassStats
)

// Stats returns the counts. They are read one after the other.
func (m *Middleware) Stats() Stats {
	s := m.door.Stats()
	s.LongLived = m.long.Now()
	return s
}
