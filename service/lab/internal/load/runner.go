package load

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A runner is one run.
type runner struct {
	ctx      context.Context
	cfg      Config
	client   client
	epoch    time.Time
	arrivals *pace.Arrivals
	requests sync.WaitGroup
	until    time.Duration // when the first request beyond Config.Requests was due, or Config.Profile ends

	recording sync.Mutex // one call of cfg.Record at a time
	failed    sync.Once  // calls cfg.OnFailure
}

func newRunner(ctx context.Context, cfg Config) (*runner, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxInflight = cmp.Or(cfg.MaxInflight, DefaultMaxInflight)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: cfg.Timeout}).DialContext
	}
	if cfg.Counters == nil {
		cfg.Counters = &Counters{}
	}
	cfg.Dial = cfg.Counters.dial(cfg.Dial)
	client, err := cfg.open(ctx)
	if err != nil {
		return nil, err
	}
	arrivals := pace.Even(cfg.Profile)
	if cfg.Poisson {
		arrivals = pace.Poisson(cfg.Profile, rand.New(rand.NewPCG(cfg.Seed, 0)))
	}
	return &runner{ctx: ctx, cfg: cfg, client: client, epoch: time.Now(), arrivals: arrivals}, nil
}

func (r *runner) now() time.Duration { return time.Since(r.epoch) }

// send sends every request when it is due and a place is free: one of Workers, which it
// waits for, or one of MaxInflight.
func (r *runner) send() {
	places := make(chan struct{}, cmp.Or(r.cfg.Workers, r.cfg.MaxInflight))
	n, unsent := 0, 0 // requests so far
	at, more := r.arrivals.Next()
	for more {
		if r.cfg.Requests > 0 && n+unsent == r.cfg.Requests {
			r.until = at
			return
		}
		if !r.sleepUntil(at) {
			return
		}
		skipped := time.Duration(-1) // arrivals up to this instant are skipped
		select {
		case places <- struct{}{}:
		default:
			if now := r.now(); r.cfg.Workers == 0 {
				unsent++
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
		n++
		due, number := at, n
		r.requests.Go(func() {
			defer func() { <-places }()
			r.request(due, number)
		})
		for at, more = r.arrivals.Next(); more && at <= skipped; {
			at, more = r.arrivals.Next()
		}
	}
	r.until, _ = r.cfg.Profile.End()
}

// sendUnpaced lets each worker send its next request as soon as it has the answer.
func (r *runner) sendUnpaced() {
	var n atomic.Int64
	for range r.cfg.Workers {
		r.requests.Go(func() {
			for r.ctx.Err() == nil {
				now := r.now()
				if r.cfg.Duration > 0 && now >= r.cfg.Duration {
					return
				}
				number := int(n.Add(1))
				if r.cfg.Requests > 0 && number > r.cfg.Requests {
					return
				}
				r.request(now, number)
			}
		})
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

// request sends request n and records the outcome.
func (r *runner) request(intended time.Duration, n int) {
	start := r.now()
	inflight := int(r.cfg.Counters.Started.Add(1) - r.cfg.Counters.Ended.Load())
	defer r.cfg.Counters.Ended.Add(1)
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timeout)
	defer cancel()
	status, reason, err := r.client.exchange(ctx, n)
	if err != nil {
		reason = r.reasonOf(err)
	}
	if err != nil && r.cfg.OnFailure != nil && slices.Contains(unexplained, reason) {
		r.failed.Do(func() { r.cfg.OnFailure(err) })
	}
	r.record(trace.Record{Intended: intended, Start: start, End: r.now(), Status: status, Inflight: inflight, Reason: reason})
}

// unexplained are the reasons of which OnFailure gets the error.
var unexplained = []string{trace.Failed, trace.Untrusted, trace.Unresolved, trace.Exhausted}

func (r *runner) reasonOf(err error) string {
	t, isNet := errors.AsType[net.Error](err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case r.ctx.Err() != nil:
		return trace.Canceled
	case isNet && t.Timeout():
		return trace.Timeout
	case isDNS:
		return trace.Unresolved
	case untrusted(err):
		return trace.Untrusted
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENOBUFS):
		return trace.Exhausted
	case errors.Is(err, syscall.ECONNREFUSED):
		return trace.Refused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return trace.Reset
	default:
		return trace.Failed
	}
}

// untrusted reports whether the TLS handshake has failed.
func untrusted(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return certificate || alert || record || errors.Is(err, http.ErrSchemeMismatch)
}

func (r *runner) record(rec trace.Record) {
	r.recording.Lock()
	defer r.recording.Unlock()
	r.cfg.Record(rec)
}
