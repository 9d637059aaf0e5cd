// Package httplimit limits what comes in by HTTP, and what goes out.
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
// Behind a client stands a [Transport], which heeds what servers say.
//
// # What a request holds
//
// Tokens of rules are spent; a unit of a limiter is held until the handler has
// ended: also if it has taken over the connection, streams, or panics. So a
// handler that copies a large file to a slow client holds its unit for as long
// as that takes; give such routes a limiter of their own, or none (PerClass).
//
// What the handler answered tells the limiter about load: 429, 502, 503, 504 and
// missed deadlines are signs of overload, other errors say nothing.
package httplimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gate"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/shape"
)

// Config is what a Middleware is made of. The zero value keeps the work of each
// route at what it can bear: see Auto.
//
// The functions are called by several goroutines at once.
type Config struct {
	// Rules say how often each client, or all of them, may ask. They are asked
	// in order, and all must allow: if one, or the Limiter after them, refuses,
	// the others get their tokens back.
	Rules []Rule
	// Limiter, if not nil, is asked for one unit for each request, whatever its
	// class.
	Limiter weir.Limiter
	// PerClass returns the limiter of a class when its first request comes; nil
	// is no limit. If PerClass is nil, Auto, but if there are Rules or a Limiter,
	// no limit. It must be nil if Limiter is not.
	PerClass func(class string) weir.Limiter

	// Class returns the class of a request: those of one share the limiter that
	// PerClass returns, and are counted together. If nil, the pattern of its
	// route: http.Request.Pattern or, if the Handler is an http.ServeMux, what it
	// will be.
	Class func(r *http.Request) string
	// MaxClasses bounds the classes; what comes beyond shares one. If zero, 100.
	MaxClasses int
	// Units is how many units of its limiter a request takes, >= 0. If nil, one.
	Units func(r *http.Request) int

	// Exempt are the paths of requests that are let in unasked, by GET or HEAD.
	// One that ends with a slash stands for all below it. If nil, DefaultExempt;
	// empty for none.
	Exempt []string
	// Criticality names the request header that says who is shed first:
	// "sheddable", "sheddable_plus", "critical" or "critical_plus". If empty,
	// none. From a peer that is not in Trusted, the last counts as critical.
	Criticality string
	// Deadline names the request header that says how long the client waits: in
	// milliseconds, as in 250; or with a unit, as in 1.5s. It becomes the deadline
	// of the request's context. If empty, none.
	Deadline string
	// Trusted are the networks of peers that may say critical_plus.
	Trusted []netip.Prefix

	// Upload and Download, if not nil, return what paces the body of a request
	// and of its response, in bytes: any limiter of package rate, or one for each
	// client, see Pace. A nil limiter leaves the body alone.
	Upload, Download func(r *http.Request) shape.Limiter

	// BodyTimeout bounds the time in which a client sends the body of its request,
	// if that holds a unit: so long, and a second more for each KiB that has come.
	// Then the handler's Read fails with os.ErrDeadlineExceeded. A ReadTimeout of
	// the http.Server stands in its place. If zero, DefaultBodyTimeout; if
	// negative, there is no bound.
	BodyTimeout time.Duration
	// BodyFirst is the length, in bytes, up to which a body is received before the
	// request takes a unit, so that a slow client holds none; for that, it must
	// have said the length. All of these together are at most MaxBodyFirst. If
	// zero, DefaultBodyFirst; if negative, none.
	BodyFirst int64

	// Shadow lets every request in, at once, and counts what would have been
	// refused.
	Shadow bool

	// NoFields leaves RateLimit and RateLimit-Policy out of the responses.
	NoFields bool
	// Legacy adds X-RateLimit-Limit, -Remaining and -Reset, of the rule with the
	// least left.
	Legacy Legacy
	// RetryJitter adds up to so much to each Retry-After, at random, so that the
	// clients who were refused together do not come back together. If zero,
	// nothing.
	RetryJitter time.Duration
	// Refuse, if not nil, answers a request that was refused; the headers that
	// say why are set already. If nil, Reject.
	Refuse func(w http.ResponseWriter, r *http.Request, why Refusal)
}

// A Refusal is why a request was not let in.
type Refusal struct {
	Err  error  // a *weir.Rejection, or what the request's context said
	Rule string // the name of the rule that denied; empty if it was a limiter
}

// Defaults where Config leaves things open.
const (
	DefaultBodyTimeout = 20 * time.Second
	DefaultBodyFirst   = 64 << 10
)

// MaxBodyFirst bounds the memory for bodies that are received before their
// requests take a unit, in bytes. What comes beyond that takes the unit first.
const MaxBodyFirst = 64 << 20

// DefaultExempt are the paths of probes and metrics, by custom.
var DefaultExempt = []string{"/healthz", "/livez", "/readyz", "/health", "/ready", "/live", "/metrics"}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	if err := c.door().Validate(); err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	switch {
	case c.Limiter != nil && c.PerClass != nil:
		return fmt.Errorf("httplimit: PerClass: must be nil, since Limiter is not")
	case c.Legacy > LegacyUnix:
		return fmt.Errorf("httplimit: Legacy = %d: must be LegacyOff, LegacyDelta or LegacyUnix", c.Legacy)
	case c.RetryJitter < 0:
		return fmt.Errorf("httplimit: RetryJitter = %v: must be >= 0", c.RetryJitter)
	}
	for i, path := range c.Exempt {
		if path == "" || path[0] != '/' {
			return fmt.Errorf("httplimit: Exempt[%d] = %q: must begin with a slash", i, path)
		}
	}
	return nil
}

func (c Config) door() admission.Config[*http.Request] {
	d := admission.Config[*http.Request]{
		Limiter:    c.PerClass,
		MaxClasses: c.MaxClasses,
		Units:      c.Units,
		Shadow:     c.Shadow,
	}
	for _, r := range c.Rules {
		d.Rules = append(d.Rules, r.rule)
	}
	if c.Limiter != nil {
		d.Limiter = func(string) weir.Limiter { return c.Limiter }
	} else if d.Limiter == nil && len(c.Rules) == 0 {
		d.Limiter = Auto
	}
	return d
}

// Auto returns a limiter that finds by itself how many requests may be in
// flight (limit.Auto): what Config.PerClass does unless told otherwise. Three
// times as many may wait, first come, first served, so that waiting takes about
// three times as long as the work, whatever that takes; half a second at most.
// All others are refused at once.
func Auto(string) weir.Limiter {
	l, err := inflight.New(inflight.Config{Discipline: gate.FIFO, Depth: 3})
	if err != nil {
		panic("httplimit: " + err.Error()) // that Config is valid
	}
	return l
}

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
	fields   fields
	answers  []*answers   // of each rule
	visits   sync.Pool    // of *visit
	bodies   atomic.Int64 // bytes of bodies that were received first
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
		classify: cfg.Class == nil && (cfg.PerClass != nil || cfg.Limiter == nil && len(cfg.Rules) == 0),
	}
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
	if l.cfg.Criticality != "" || l.cfg.Deadline != "" {
		var cancel context.CancelFunc
		r, cancel = l.heed(r)
		defer cancel()
	}
	v := l.visits.Get().(*visit)
	r, err := l.enter(w, r, v)
	if err != nil {
		l.refuse(w, r, v, err)
		v.forget(l)
		return
	}
	v.serve(l, w, r)
}

// enter asks all limits, and returns the request as the handler is to see it.
func (l *limited) enter(w http.ResponseWriter, r *http.Request, v *visit) (*http.Request, error) {
	if err := l.door.Ask(r.Context(), r, l.class(r), &v.Visit); err != nil {
		return r, err
	}
	if r.Body != nil && r.Body != http.NoBody && v.Limited() {
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
	if i := v.Refuser(); i >= 0 {
		why.Rule, all = m.cfg.Rules[i].rule.Name, m.answers[i]
	}
	if m.cfg.Refuse != nil {
		m.cfg.Refuse(w, r, why)
		return
	}
	var jitter time.Duration
	if m.cfg.RetryJitter > 0 {
		jitter = rand.N(m.cfg.RetryJitter)
	}
	all.reject(w, r, err, jitter)
}

// Stats is what a Middleware has done since New.
type Stats = admission.Stats

// Stats returns the counts. They are read one after the other.
func (m *Middleware) Stats() Stats { return m.door.Stats() }
