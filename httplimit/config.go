package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/caller"
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
	// is no limit. If PerClass is nil, Auto; but no limit, if there are Rules,
	// Upload or Download. Have a Limiter or PerClass, not both.
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
	// if that holds a unit: so long, and for each KiB that comes a second is given
	// back. Then the handler's Read fails with os.ErrDeadlineExceeded. A ReadTimeout of
	// the http.Server stands in its place. If zero, DefaultBodyTimeout; if
	// negative, there is no bound.
	BodyTimeout time.Duration
	// BodyFirst is the length, in bytes, up to which a body is received before the
	// request takes a unit, so that a slow client holds none; for that, it must
	// have said the length. If MaxBodyFirst bytes of such bodies are there, the
	// others take the unit first. If zero, DefaultBodyFirst; if negative, none.
	BodyFirst int64

	// LongLived bounds the requests that go on after the header of their response
	// without a unit of their limiter. Beyond it, they hold their units until they
	// end. If zero, 1000; if negative, none.
	LongLived int

	// Shadow lets every request in, at once, and counts what would have been
	// refused. Clients are told nothing. Nobody waits in a queue, so what would have
	// waited counts as refused by a limiter, too: a limit in Shadow seems to refuse
	// more than it would. Rules count exactly.
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
	// Refuse, if not nil, answers a request that was refused. The headers that say
	// why, and for how long, are set already: RateLimit, RateLimit-Policy,
	// Retry-After, Weir-Reason, Cache-Control. If nil, Reject.
	Refuse func(w http.ResponseWriter, r *http.Request, why Refusal)
}

// A Refusal is why a request was not let in.
type Refusal struct {
	Err    error  // a *weir.Rejection, or what the request's context said
	Rule   string // the name of the rule that denied; empty if it was a limiter
	Status int    // that Reject would answer with
}

// Defaults where Config leaves things open.
const (
	DefaultBodyTimeout = 20 * time.Second
	DefaultBodyFirst   = 64 << 10
)

// MaxBodyFirst bounds the memory for bodies that are received before their
// requests take a unit, in bytes that have come.
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
	if i := caller.Networks(c.Trusted).Invalid(); i >= 0 {
		return fmt.Errorf("httplimit: Trusted[%d]: is no network", i)
	}
	for i, path := range c.Exempt {
		if path == "" || path[0] != '/' {
			return fmt.Errorf("httplimit: Exempt[%d] = %q: must begin with a slash", i, path)
		}
	}
	return nil
}

// auto reports whether nobody has said what is to be limited.
func (c Config) auto() bool {
	return c.Limiter == nil && len(c.Rules) == 0 && c.Upload == nil && c.Download == nil
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
	} else if d.Limiter == nil && c.auto() {
		d.Limiter = Auto
	}
	return d
}
