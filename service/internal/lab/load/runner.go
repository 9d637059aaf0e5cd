package load

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-go/weir/service/internal/lab/pace"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// A runner is one run.
type runner struct {
	ctx      context.Context
	cfg      Config
	client   *http.Client
	epoch    time.Time
	requests sync.WaitGroup
	inflight atomic.Int64

	mu       sync.Mutex // guards arrivals and due
	arrivals *pace.Arrivals
	due      time.Duration // the next arrival
	more     bool          // there is one

	recording sync.Mutex // one call of cfg.Record at a time
}

func newRunner(ctx context.Context, cfg Config) *runner {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxInflight = cmp.Or(cfg.MaxInflight, DefaultMaxInflight)
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: cfg.Timeout}).DialContext,
			MaxIdleConnsPerHost: max(cfg.Workers, cfg.MaxInflight),
			DisableCompression:  true,
		}
	}
	arrivals := pace.Even(cfg.Profile)
	if cfg.Poisson {
		arrivals = pace.Poisson(cfg.Profile, rand.New(rand.NewPCG(cfg.Seed, 0)))
	}
	return &runner{ctx: ctx, cfg: cfg, epoch: time.Now(), arrivals: arrivals, client: &http.Client{
		Transport:     cfg.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (r *runner) now() time.Duration { return time.Since(r.epoch) }

// openLoop sends every request when it is due.
func (r *runner) openLoop() {
	for {
		at, ok := r.arrivals.Next()
		if !ok || !r.sleepUntil(at) {
			return
		}
		if r.inflight.Load() >= int64(r.cfg.MaxInflight) {
			now := r.now()
			r.record(trace.Record{Intended: at, Start: now, End: now, Reason: trace.Unsent})
			continue
		}
		r.inflight.Add(1)
		r.requests.Go(func() {
			defer r.inflight.Add(-1)
			r.request(at)
		})
	}
}

// closedLoop runs the workers. Each takes the next arrival, waits for it, and
// sends.
func (r *runner) closedLoop() {
	r.due, r.more = r.arrivals.Next()
	for range r.cfg.Workers {
		r.requests.Go(func() {
			for {
				at, ok := r.take()
				if !ok || !r.sleepUntil(at) {
					return
				}
				r.request(at)
			}
		})
	}
	r.requests.Wait()
}

// take returns the time at which a free worker sends next: the next arrival, or now,
// if arrivals have passed while all workers were busy.
func (r *runner) take() (at time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	at, ok = r.due, r.more
	for {
		r.due, r.more = r.arrivals.Next()
		if !r.more || r.due > now {
			return max(at, now), ok
		}
	}
}

// sleepUntil returns at the instant, or false if the run ends before.
func (r *runner) sleepUntil(at time.Duration) bool {
	if r.cfg.Duration > 0 && at >= r.cfg.Duration {
		r.pause(r.cfg.Duration - r.now())
		return false
	}
	return r.pause(at - r.now())
}

func (r *runner) pause(d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.ctx.Done():
		}
	}
	return r.ctx.Err() == nil
}

// request sends one request and records the outcome.
func (r *runner) request(intended time.Duration) {
	start := r.now()
	status, reason, err := r.exchange()
	if err != nil {
		reason = r.reasonOf(err)
	}
	r.record(trace.Record{Intended: intended, Start: start, End: r.now(), Status: status, Reason: reason})
}

// reasonHeader is the field with which a weir proxy explains its own answers.
const reasonHeader = "Weir-Reason"

func (r *runner) exchange() (status int, reason string, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.cfg.Method, r.cfg.Target, strings.NewReader(r.cfg.Body))
	if err != nil {
		return 0, "", err
	}
	maps.Copy(req.Header, r.cfg.Header)
	if host := r.cfg.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, "", err
	}
	return resp.StatusCode, resp.Header.Get(reasonHeader), nil
}

func (r *runner) reasonOf(err error) string {
	t, isNet := errors.AsType[net.Error](err)
	switch {
	case r.ctx.Err() != nil:
		return trace.Canceled
	case isNet && t.Timeout():
		return trace.Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return trace.Refused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return trace.Reset
	default:
		return trace.Failed
	}
}

func (r *runner) record(rec trace.Record) {
	r.recording.Lock()
	defer r.recording.Unlock()
	r.cfg.Record(rec)
}
