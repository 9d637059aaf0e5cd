// Package origin is a service to break: so many workers, a queue, and a
// service time. It stands for the services that people run, and does what they
// do under overload: it works on for clients that have long left.
package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// Config sets up an Origin.
type Config struct {
	// Workers is how many requests are worked on at once, >= 1.
	Workers int
	// ServiceTime is how long one takes.
	ServiceTime ServiceTime
	// Queue bounds the requests that wait for a worker; beyond it, 503. Zero:
	// none waits.
	Queue int
	// CancelAbandoned stops the work for a client that has left. If false, the
	// work goes on, as in most real services.
	CancelAbandoned bool
	// FailureRate is the share of requests, in [0, 1], that end with 500 after
	// the work was done.
	FailureRate float64
	// Seed is that of the service times and the failures.
	Seed uint64
	// Observe, if not nil, is told of every request that has ended. It must be
	// safe for concurrent use.
	Observe func(Done)
}

// Validate says which field is out of range, or returns nil.
func (c Config) Validate() error {
	switch {
	case c.Workers < 1 || c.Workers > maxUnits:
		return fmt.Errorf("origin: workers = %d: must be in [1, %d]", c.Workers, maxUnits)
	case c.Queue < 0 || c.Queue > maxUnits:
		return fmt.Errorf("origin: queue = %d: must be in [0, %d]", c.Queue, maxUnits)
	case !(c.FailureRate >= 0 && c.FailureRate <= 1):
		return fmt.Errorf("origin: failure_rate = %v: must be in [0, 1]", c.FailureRate)
	}
	return c.ServiceTime.Validate()
}

// maxUnits bounds workers and queue: each is a goroutine while it is in use.
const maxUnits = 100_000

// Done is a request that has ended at the origin. Instants are since New.
type Done struct {
	Start, End time.Duration // arrived; finished or refused
	Status     int           // 499 if it was stopped because its client had left
	Abandoned  bool          // its client had left before the end
}

// An Origin is an http.Handler with a fixed number of workers. It is safe for
// concurrent use.
type Origin struct {
	epoch   time.Time
	workers *inflight.Limiter // a permit is a worker
	metrics *metrics
	mux     *http.ServeMux
	observe func(Done)

	mu  sync.Mutex // guards what follows
	cfg Config
	rng *rand.Rand
}

// New returns an Origin, or the error of cfg.Validate.
func New(cfg Config) (*Origin, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	workers, err := inflight.New(inflight.Config{
		Algorithm: limit.Fixed(cfg.Workers), Queue: orNone(cfg.Queue), MaxWait: -1,
	})
	if err != nil {
		return nil, err
	}
	o := &Origin{
		epoch: time.Now(), workers: workers, metrics: newMetrics(), observe: cfg.Observe,
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0)),
	}
	o.metrics.watch(o)
	o.mux = o.routes()
	return o, nil
}

// orNone turns zero, which means no queue here, into that of inflight.
func orNone(queue int) int {
	if queue == 0 {
		return -1
	}
	return queue
}

// ServeHTTP serves /-/set, /-/health, /metrics, and work on every other path.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) { o.mux.ServeHTTP(w, r) }

// maxBody bounds what is read of a request's body, in bytes.
const maxBody = 10 << 20

func (o *Origin) serveWork(w http.ResponseWriter, r *http.Request) {
	start := time.Since(o.epoch)
	// Once the body is read, net/http sees when the client leaves.
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status := o.work(r.Context())
	d := Done{Start: start, End: time.Since(o.epoch), Status: status, Abandoned: r.Context().Err() != nil}
	o.metrics.observe(d)
	if o.observe != nil {
		o.observe(d)
	}
	switch status {
	case http.StatusOK:
		_, _ = io.WriteString(w, "ok\n")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
		fallthrough
	default:
		http.Error(w, strconv.Itoa(status)+" from the origin", status)
	}
}

// work waits for a worker, works, and returns the status.
func (o *Origin) work(client context.Context) int {
	ctx, duration, fails := o.job(client)
	permit, err := o.workers.Acquire(ctx, 1)
	if err != nil {
		if errors.Is(err, weir.ErrRejected) {
			return http.StatusServiceUnavailable
		}
		return statusClientGone
	}
	defer permit.Release(weir.Success)
	working := time.NewTimer(duration)
	defer working.Stop()
	select {
	case <-working.C:
	case <-ctx.Done():
		return statusClientGone
	}
	if fails {
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

const statusClientGone = 499

// job draws what a request costs, under the settings of its arrival.
func (o *Origin) job(client context.Context) (ctx context.Context, d time.Duration, fails bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx = client
	if !o.cfg.CancelAbandoned {
		ctx = context.WithoutCancel(client)
	}
	return ctx, o.cfg.ServiceTime.draw(o.rng), o.rng.Float64() < o.cfg.FailureRate
}

// Stats is what the origin is doing.
type Stats struct {
	Workers  int
	Inflight int // requests that a worker is busy with
	Waiting  int // requests that wait for one
}

// Stats returns the present state.
func (o *Origin) Stats() Stats {
	s := o.workers.Stats()
	return Stats{Workers: s.Limit, Inflight: s.Inflight, Waiting: s.Waiting}
}
