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
	arrivals *pace.Arrivals
	requests sync.WaitGroup

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

// send sends every request when it is due and a place is free: one of Workers, which it
// waits for, or one of MaxInflight.
func (r *runner) send() {
	places := make(chan struct{}, cmp.Or(r.cfg.Workers, r.cfg.MaxInflight))
	at, more := r.arrivals.Next()
	for more && r.sleepUntil(at) {
		skipped := time.Duration(-1) // arrivals up to this instant are skipped
		select {
		case places <- struct{}{}:
		default:
			if now := r.now(); r.cfg.Workers == 0 {
				r.record(trace.Record{Intended: at, Start: now, End: now, Reason: trace.Unsent})
				at, more = r.arrivals.Next()
				continue
			}
			select {
			case places <- struct{}{}:
			case <-r.ctx.Done():
				return
			}
			at = max(at, r.now())
			if skipped = at; !r.sleepUntil(at) {
				return
			}
		}
		due := at
		r.requests.Go(func() {
			defer func() { <-places }()
			r.request(due)
		})
		for at, more = r.arrivals.Next(); more && at <= skipped; {
			at, more = r.arrivals.Next()
		}
	}
}

// sleepUntil returns at the instant, or false if the run ends before.
func (r *runner) sleepUntil(at time.Duration) bool {
	if r.cfg.Duration > 0 && at >= r.cfg.Duration {
		_ = Sleep(r.ctx, r.cfg.Duration-r.now())
		return false
	}
	return Sleep(r.ctx, at-r.now()) == nil
}

// Sleep returns after d, or the error of ctx when that ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
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
