package sla

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/service/internal/lab/load"
	"github.com/weir-go/weir/service/internal/lab/pace"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// Run measures all points over HTTP on this machine, one row at a time. Done, if not
// nil, is called with the part of Duration that has passed. If ctx ends, Run returns
// the complete points and the error of ctx.
func Run(ctx context.Context, cfg Config, done func(time.Duration)) (Result, error) {
	r := Result{Seed: cfg.Seed}
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	passed := time.Duration(0)
	pass := func(d time.Duration) {
		if passed += d; done != nil {
			done(passed)
		}
	}
	defer r.compare()
	for _, rate := range cfg.Rates {
		whole, warmup := cfg.point(rate)
		for _, row := range cfg.rows() {
			p, err := cfg.measure(ctx, row, rate, whole, warmup)
			if err != nil {
				return r, err
			}
			r.Points = append(r.Points, p)
			pass(whole)
		}
	}
	for _, row := range cfg.slowRows() {
		d := cfg.newDiary(row.Name)
		err := cfg.offer(ctx, row, AgreedRate, 3*cfg.Phase, cfg.slowdown(), d.add, func(time.Duration, time.Duration, int) {})
		if err != nil {
			return r, err
		}
		r.Slow = append(r.Slow, d.course)
		pass(3 * cfg.Phase)
	}
	return r, nil
}

// measure measures a point, again if the machine was disturbed, and returns the least
// disturbed result.
func (c Config) measure(ctx context.Context, row Row, rate float64, whole, warmup time.Duration) (best Point, err error) {
	for times := 1; ; times++ {
		t := newTally(warmup, whole)
		if err := c.offer(ctx, row, rate, whole, Slowdown{}, t.add, t.answered); err != nil {
			return best, err
		}
		if p := t.point(row.Name, rate); times == 1 || p.Sending.P99 < best.Sending.P99 {
			best = p
		}
		if best.Times = times; best.Sending.P99 <= Quiet || times > c.Again {
			return best, nil
		}
	}
}

// offer offers a rate to a row with a new upstream.
func (c Config) offer(ctx context.Context, row Row, rate float64, whole time.Duration, slow Slowdown,
	record func(trace.Record), answered func(began, took time.Duration, status int)) error {
	profile, err := pace.Parse(strconv.FormatFloat(rate, 'g', -1, 64))
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h, stop, err := row.protect(service(NewUpstream(c.Seed, c.Abandoned, slow)))
	if err != nil {
		_ = ln.Close()
		return err
	}
	defer stop()
	srv := &http.Server{Handler: timed(h, answered), ReadHeaderTimeout: 10 * time.Second}
	defer srv.Close()
	go func() { _ = srv.Serve(ln) }() // until Close

	transport := &http.Transport{MaxIdleConnsPerHost: load.DefaultMaxInflight, DisableCompression: true}
	defer transport.CloseIdleConnections()
	if _, err := load.Run(ctx, load.Config{
		Target: "http://" + ln.Addr().String() + "/", Profile: profile, Poisson: c.Poisson, Seed: c.Seed,
		Timeout: time.Minute, Duration: whole, Record: record, Transport: transport,
	}); err != nil {
		return err
	}
	return ctx.Err()
}

// timed calls answered for every request with its arrival, its duration, and the
// status of the answer.
func timed(next http.Handler, answered func(began, took time.Duration, status int)) http.Handler {
	epoch := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Since(epoch)
		s := &statusWriter{w, http.StatusOK}
		next.ServeHTTP(s, r)
		answered(began, time.Since(epoch)-began, s.status)
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}
