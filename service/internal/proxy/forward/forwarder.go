// Package forward sends admitted requests to the origins, and passes the answers on. A forward is one request at one origin:
// it holds units of the limits until the origin has sent its answer, also without its client, or goes on without them if
// it lasts long. A request whose origin fails can go to another one, as another forward.
package forward

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/proxy/clients"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

// Config configures a forwarder.
type Config struct {
	Origins       *origins.Set
	Trust         clients.Trust
	AbandonedHold time.Duration // not negative
	ClientTimeout time.Duration // negative: none
	LongLived     int           // places of forwards without a unit; not positive: none
	Epoch         time.Time     // instants are durations since then
	Log           *slog.Logger
	Observer      Observer
	Recorder      *recording.Recorder // nil: none
	// TraceID returns the ID of the trace of a request, or "" if that is not sampled. If nil, there are no traces.
	TraceID func(r *http.Request) string
}

// An Observer hears what becomes of forwards, for metrics. It must be safe for concurrent use.
type Observer interface {
	// OriginAnswered hears how long an origin took to answer or to fail, while the client waited.
	OriginAnswered(after time.Duration, traceID string)
	// OriginFailed hears why a client gets an error instead of the answer of an origin.
	OriginFailed(reason string, err error)
	// LimitLeft hears why a forward has left the limit, and goes on.
	LimitLeft(why string)
	// ForwardEnded hears why a forward would have left the limit, and was ended, because it found no place.
	ForwardEnded(why string)
}

// A Forwarder sends requests to the origins. It is safe for concurrent use.
type Forwarder struct {
	cfg       Config
	long      *connlimit.Limit // places of forwards without a unit; nil: none
	longFull  atomic.Uint64    // forwards that found no place
	stuckLog  atomic.Int64     // the instant from which a stuck one is logged again
	serving   atomic.Int64     // forwards with a running handler
	bodies    atomic.Int64     // bytes of bodies that are received first
	abandoned atomic.Int64     // forwards that go on after the client has left, or its request went to another origin
	signs     [loadsign.Count]atomic.Uint64
	recent    recentForwards
	work      *workMeter
	offset    time.Duration // of the epoch from that of the Recorder
}

// New returns a forwarder.
func New(cfg Config) *Forwarder {
	p := &Forwarder{cfg: cfg, work: newWorkMeter()}
	p.recent.now = p.now
	if cfg.Recorder != nil {
		p.offset = cfg.Epoch.Sub(cfg.Recorder.Epoch())
	}
	if cfg.LongLived > 0 {
		p.long = connlimit.NewLimit(connlimit.LongLived, int64(cfg.LongLived))
	}
	return p
}

// now returns the present instant. It costs half as much as time.Now.
func (p *Forwarder) now() time.Duration { return time.Since(p.cfg.Epoch) }

// Stats are the state of a forwarder, and its counts since the start.
type Stats struct {
	Serving   int    // forwards with a running handler
	Abandoned int    // forwards that go on after the client has left, or its request went to another origin
	LongLived int    // forwards that have left the limit
	LongMax   int    // places for them; 0: none
	LongFull  uint64 // forwards that found no place
	Signs     [loadsign.Count]uint64
}

// Stats returns the state and the counts.
func (p *Forwarder) Stats() Stats {
	s := Stats{Serving: int(p.serving.Load()), Abandoned: int(p.abandoned.Load()), LongFull: p.longFull.Load()}
	if p.long != nil {
		places, used, _ := p.long.Count()
		s.LongMax, s.LongLived = int(places), int(used)
	}
	for i := range p.signs {
		s.Signs[i] = p.signs[i].Load()
	}
	return s
}

// A Class has what the requests of a class have in common.
type Class struct {
	Name    string
	Route   string        // of all requests, unless a Request has one
	Timeout time.Duration // negative: none
	Cached  bool          // its responses go through a cache
	limits.Gate
}

// A Request has what is found out about the request of a client before it takes units.
type Request struct {
	Client clients.Client
	Class  *Class
	Route  string // empty if the limits of the class have requests of one route
	trace  string // the ID of its trace; empty if that is not sampled
}

// Forward sends a request to the origin within the limit of its class, or refuses it.
func (p *Forwarder) Forward(w http.ResponseWriter, r *http.Request, q *Request) {
	c := q.Class
	size, err := p.receiveBody(w, r)
	if size > 0 {
		defer p.bodies.Add(-size)
	}
	if err != nil {
		answerBrokenBody(w, r, err)
		return
	}
	came := p.arrive(r.Context(), q, p.now())
	var ps limits.Units
	if err := c.Acquire(r.Context(), q.Route, -1, &ps); err != nil {
		p.recordRefusal(came, err)
		p.refuseRequest(w, r, c, err)
		return
	}
	now := p.now()
	if p.cfg.TraceID != nil {
		q.trace = p.cfg.TraceID(r)
	}
	f := p.beginForward(w, r, q, came, &ps, now)
	c.Counts.CountAdmitted(now-came.at, q.trace)
	if failed := f.serve(w, r); failed != nil {
		f.sendElsewhere(w, r, failed)
	}
}

// serve forwards the request of a forward, and ends the forward. An error means that the request is to be sent to another
// origin.
func (f *forward) serve(w http.ResponseWriter, r *http.Request) (failed error) {
	defer f.endHandler()
	failed = f.forwardRequest(w, r)
	if failed == nil && f.handler == handlerRuns {
		f.handler = handlerDone
	}
	return failed
}

// refuseRequest answers a request that got no units, and gives back the tokens of its rules.
func (p *Forwarder) refuseRequest(w http.ResponseWriter, r *http.Request, c *Class, err error) {
	c.Counts.CountRejected(err)
	httplimit.Use(w, 0)
	answerRejection(w, r, err)
}
