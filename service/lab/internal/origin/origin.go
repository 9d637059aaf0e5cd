// Package origin is a service for overload experiments: a number of workers, a queue,
// and a service time. Like most real services, it continues to process requests after
// their clients have left.
package origin

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/lab/internal/dist"
)

// Config sets up an Origin.
type Config struct {
	// Workers is the number of requests that are processed at once, >= 1.
	Workers int
	// ServiceTime is the time to process a request.
	ServiceTime ServiceTime
	// Queue bounds the requests that wait for a worker; further ones get status 503.
	// If zero, no request waits.
	Queue int
	// CancelAbandoned stops the work for a client that has left. If false, the work
	// continues, as in most real services.
	CancelAbandoned bool
	// FailureRate is the share of requests, in [0, 1], that fail with status 500
	// after the work.
	FailureRate float64
	// Seed is the seed of the service times and the failures.
	Seed uint64
	// Observe, if not nil, is called for every request that has ended, before its
	// answer is written. It must be safe for concurrent use.
	Observe func(Done)
}

// Validate returns a *FieldError for the first field that is out of range, or
// nil.
func (c Config) Validate() error {
	switch {
	case c.Workers < 1 || c.Workers > maxUnits:
		return &FieldError{Field: "workers", Value: c.Workers, Rule: fmt.Sprintf("must be in [1, %d]", maxUnits)}
	case c.Queue < 0 || c.Queue > maxUnits:
		return &FieldError{Field: "queue", Value: c.Queue, Rule: fmt.Sprintf("must be in [0, %d]", maxUnits)}
	case !(c.FailureRate >= 0 && c.FailureRate <= 1):
		return &FieldError{Field: "failure_rate", Value: c.FailureRate, Rule: "must be in [0, 1]"}
	}
	if e, wrong := errors.AsType[*dist.FieldError](c.ServiceTime.Validate()); wrong {
		if e.Field == "mean" {
			e.Field = "service_time"
		}
		return e
	}
	return nil
}

// ServiceTime is a distribution of service times.
type ServiceTime = dist.ServiceTime

// A FieldError reports a setting that is out of range. Field is as /-/set spells it.
type FieldError = dist.FieldError

// maxUnits bounds workers and queue: each is a goroutine while it is in use.
const maxUnits = 100_000

// Done is a request that has ended at the origin. Instants are since New.
type Done struct {
	Start, End time.Duration // arrived; finished or refused
	Status     int           // of the answer; 499 if the work was stopped because the client had left
	Abandoned  bool          // its client had left before the end
}

// An Origin is an http.Handler with a fixed number of workers. It is safe for
// concurrent use.
type Origin struct {
	epoch   time.Time
	workers *inflight.Limiter // a permit is a worker
	metrics *metrics
	admin   *http.ServeMux
	observe func(Done)

	mu        sync.Mutex // guards what follows
	cfg       Config
	rng       *rand.Rand
	ended     map[int]uint64 // requests by status
	abandoned uint64
}

// New returns an Origin. An error wraps that of cfg.Validate.
func New(cfg Config) (*Origin, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("origin: %w", err)
	}
	workers, err := inflight.New(inflight.Config{
		Algorithm: limit.Fixed(cfg.Workers), Queue: settings.OrNone(cfg.Queue), MaxWait: -1,
		Discipline: inflight.FIFO, WaitOnly: true, // like most services: first come, first served, however long the queue
	})
	if err != nil {
		return nil, err
	}
	o := &Origin{
		epoch: time.Now(), workers: workers, observe: cfg.Observe,
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0)), ended: map[int]uint64{},
	}
	o.metrics = newMetrics(o)
	o.admin = http.NewServeMux()
	o.admin.Handle("/-/set", settings.Handler(func() any { return o.Settings() }, o.Set))
	o.admin.HandleFunc("GET /-/health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "healthy\n") })
	o.admin.Handle("GET /metrics", promhttp.HandlerFor(o.metrics.registry, promhttp.HandlerOpts{}))
	return o, nil
}

// ServeHTTP serves /-/set, /-/health, /metrics, and work on every other path.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Only the origin's own paths go through the mux, because it would redirect
	// paths such as //a.
	if r.URL.Path == "/metrics" || strings.HasPrefix(r.URL.Path, "/-/") {
		o.admin.ServeHTTP(w, r)
		return
	}
	o.serveWork(w, r)
}

// Stats is the state of the origin and its counts since New.
type Stats struct {
	Workers  int
	Inflight int // requests in progress; more than Workers for a while after Workers was lowered
	Waiting  int // requests that wait for a worker

	// Ended are the requests that have ended, by status: 200 after the work; 500 after
	// the work, which failed; 503 without a worker and room in the queue; 499 if the
	// client had left; 400 and 413 for a body that broke off or was too long.
	Ended     map[int]uint64
	Abandoned uint64 // requests of any status that the client left before the end
}

// Stats returns the present state and the counts since New.
func (o *Origin) Stats() Stats {
	s := o.workers.Stats()
	o.mu.Lock()
	defer o.mu.Unlock()
	return Stats{
		Workers: s.Limit, Inflight: s.Inflight, Waiting: s.Waiting, Ended: maps.Clone(o.ended), Abandoned: o.abandoned,
	}
}
