package sla

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/weir-go/weir/service/internal/lab/load"
	"github.com/weir-go/weir/service/internal/lab/pace"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// Run measures all points over HTTP on this machine, one row at a time. Done is called
// with each part of Duration that has passed. If ctx ends, Run returns the complete
// points and the error of ctx.
func Run(ctx context.Context, cfg Config, done func(time.Duration)) (Result, error) {
	r := Result{Seed: cfg.Seed}
	return r.measureAll(cfg, func(o offer) error { return cfg.serve(ctx, o) }, done)
}

// An offer is requests at a rate to a row.
type offer struct {
	row      Row
	rate     float64
	duration time.Duration
	slow     Slowdown                                    // of the upstream
	record   func(trace.Record)                          // each request, at the client
	answered func(began, took time.Duration, status int) // each request, at the server
}

// measureAll adds all points, and calls done with the time of each.
func (r Result) measureAll(cfg Config, run func(offer) error, done func(time.Duration)) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	defer r.compare()
	for _, rate := range cfg.Rates {
		for _, row := range cfg.rows() {
			p, err := cfg.measure(row, rate, run)
			if err != nil {
				return r, err
			}
			r.Points = append(r.Points, p)
			done(cfg.point(rate))
		}
	}
	for _, row := range cfg.slowRows() {
		d := &diary{phase: cfg.Phase}
		o := offer{row, AgreedRate, 3 * cfg.Phase, cfg.slowdown(), d.add, func(time.Duration, time.Duration, int) {}}
		if err := run(o); err != nil {
			return r, err
		}
		r.Slow = append(r.Slow, d.course(row.Name))
		done(o.duration)
	}
	return r, nil
}

// measure measures a point, again if the machine was disturbed, and returns the least
// disturbed result.
func (c Config) measure(row Row, rate float64, run func(offer) error) (best Point, err error) {
	for times := 1; ; times++ {
		t := c.newTally(rate)
		if err := run(offer{row, rate, t.to, Slowdown{}, t.add, t.answered}); err != nil {
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

// serve sends an offer over HTTP, with a new upstream.
func (c Config) serve(ctx context.Context, o offer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h, err := o.row.protect(ctx, service(NewUpstream(c.Seed, c.Abandoned, o.slow)))
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: timed(h, o.answered), ReadHeaderTimeout: 10 * time.Second}
	defer srv.Close()
	go func() { _ = srv.Serve(ln) }() // until Close
	if _, err := load.Run(ctx, load.Config{
		Target: "http://" + ln.Addr().String() + "/", Profile: pace.Constant(o.rate), Poisson: c.Poisson, Seed: c.Seed,
		Timeout: time.Minute, Duration: o.duration, Record: o.record,
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
