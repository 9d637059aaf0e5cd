package httplimit

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/shape"
)

// Config configures a Middleware. The zero value limits nothing. Several goroutines
// call the functions at once.
type Config struct {
	// Rules are limits of clients: of their rates, and of their requests in flight. They are asked
	// in order. If one of them, or the concurrency limit after them, refuses a request, the others
	// get back what they gave. If empty, there is none.
	Rules []Rule
	// Limiter is a concurrency limit for all classes. Each request takes a unit. The
	// limiter is told the route of each request (weir.Class), which is its class, or
	// the pattern of its route, or the shape of its path. If nil, there is none.
	Limiter weir.Limiter
	// PerClass returns the concurrency limit of a class when its first request
	// comes, for example Auto, also behind a pressure.Guard, or an inflight.Limiter with
	// limit.NewSlowStart. If it is nil or returns nil, the class has no
	// separate limit. It must be nil if Limiter is not.
	PerClass func(class string) weir.Limiter

	// Class returns the class of a request. Requests of one class share the limit
	// that PerClass returns, and are counted together. If nil, it is the pattern of
	// the route if PerClass is set, or else "": http.Request.Pattern or, if the
	// Handler is an http.ServeMux, the pattern that it will set. Behind another
	// handler, it is found by the routes of earlier requests (see Routes and
	// Route): the first request of a route has the limit of the class "", and is
	// counted in its own. In a class of several routes, that is "" if no handler tells
	// them, and one with a pattern such as "/v1/", the limit is told the routes by the
	// paths of requests (weir.Class). Classes beyond the first 1000 share one.
	Class func(r *http.Request) string
	// Units returns how many units of its limit a request takes, >= 0. If nil, one.
	Units func(r *http.Request) int

	// Exempt holds paths: GET and HEAD requests to them are admitted without a
	// decision. A path that ends with a slash stands for everything below it. If
	// nil, DefaultExempt; if empty, none.
	Exempt []string
	// Criticality names the request header with the request's priority:
	// "sheddable", "sheddable_plus", "critical" or "critical_plus". Under overload
	// the least important requests are refused first. If empty, none. From a peer
	// that is not Trusted, critical_plus counts as critical.
	Criticality string
	// Deadline names the request header with the time that the client waits, in
	// milliseconds, as in 250, or with a unit, as in 1.5s. It becomes the deadline
	// of the request's context. If empty, none.
	Deadline string
	// Trusted holds the networks of peers that may send critical_plus. A network with 127.0.0.1 or ::1
	// contains the peers at Unix sockets, too. If empty, none may.
	Trusted []netip.Prefix

	// Bandwidth returns limits for the body of a request and of its response, in
	// bytes: for example limiters of package rate, or buckets of a keyed.Limiter.
	// If it is nil, or for a limiter that is nil, there is no limit.
	Bandwidth func(r *http.Request) (upload, download shape.Limiter)

	// BodyTimeout bounds the time in which a client sends the body of a request
	// (see BodyFirst). Each KiB that arrives gives a second back. Afterwards the
	// handler's Read fails with os.ErrDeadlineExceeded. There is no bound once the handler
	// has flushed its response or called EnableFullDuplex of an http.ResponseController:
	// such a handler reads a stream. A ReadTimeout of the http.Server replaces it. If
	// zero, DefaultBodyTimeout; if negative, no bound.
	BodyTimeout time.Duration

	// LongLived bounds the requests that have left their limit while their
	// response goes on, or while their handler waits for a large body. Further
	// ones hold their units until they end, or another one has. A service with more event
	// streams or WebSockets than that needs a higher bound. If zero, 1000; if negative, none.
	LongLived int

	// Log gets a warning if the routes of requests are not known, and one when LongLived is
	// used up for the first time. If nil, slog.Default.
	Log *slog.Logger

	// Shadow admits every request, without a wait, and counts the ones that it would
	// have refused. Responses do not tell the limits. A request that would have
	// waited in a queue counts as refused by the limiter. Rules count exactly.
	Shadow bool

	// Recorder, if not nil, receives a record of each request that is not Exempt, with
	// its class. A request that is admitted is added when it leaves its limit. The work of
	// a response that goes on after its header ends with the header. Inflight counts the
	// units of the class. The Limiter needs no Recorder then.
	Recorder *recording.Recorder

	// Fields selects the response headers that tell clients their limits. If
	// zero, FieldsDraft.
	Fields Fields
	// RetryJitter is the longest random addition to a Retry-After, so that clients
	// that were refused together do not come back together. If zero, none.
	RetryJitter time.Duration
	// Refuse answers a request that was refused. If nil, Reject does, with the status.
	// The error is a *weir.Rejection or that of the request's context. The rule is
	// the one that refused; it is empty if the limiter did. RateLimit,
	// RateLimit-Policy, Retry-After, Weir-Reason and Cache-Control are set already.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, rule string, err error)
}

// DefaultBodyTimeout is Config.BodyTimeout if that is zero.
const DefaultBodyTimeout = 20 * time.Second

// BodyFirst is the length in bytes up to which a body of known length is received
// before the request takes a unit, so that a slow client holds none. While MaxBodyFirst
// bytes are buffered, other requests take their unit first.
const (
	BodyFirst    = 64 << 10
	MaxBodyFirst = 64 << 20
)

// DefaultExempt holds the customary paths of probes and metrics.
var DefaultExempt = []string{"/healthz", "/livez", "/readyz", "/health", "/ready", "/live", "/metrics"}

// validate returns an error that names the first invalid field.
func (c *Config) validate() error {
	if err := c.door().Validate(); err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	if err := c.Fields.validate(); err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}

// door returns the part of the configuration that decides.
func (c *Config) door() admission.Config[*http.Request] {
	d := admission.Config[*http.Request]{
		Limiter: c.Limiter, PerClass: c.PerClass, Units: c.Units,
		Exempt: c.Exempt, Trusted: c.Trusted, RetryJitter: c.RetryJitter, Shadow: c.Shadow, Recorder: c.Recorder,
	}
	for _, r := range c.Rules {
		d.Rules = append(d.Rules, r.rule)
	}
	if d.Exempt == nil {
		d.Exempt = DefaultExempt
	}
	return d
}
