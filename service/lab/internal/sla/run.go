package sla

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Run measures all points over HTTP on this machine, one row at a time. Done is called
// with each part of Duration that has passed. If ctx ends, Run returns the complete
// points and the error of ctx.
func Run(ctx context.Context, cfg Config, done func(time.Duration)) (Result, error) {
	r := Result{Agreed: cfg.Agreed, Seed: cfg.Seed}
	return r.measureAll(cfg, func(o offer) (answers, error) { return cfg.serve(ctx, o) }, done)
}

// An offer is requests at a rate to a row.
type offer struct {
	row      Row
	rate     float64
	duration time.Duration
	skip     float64  // share of the duration, at its beginning, that does not count
	slow     Slowdown // of the upstream
}

// measureAll adds all points, and calls done with the time of each.
func (r Result) measureAll(cfg Config, run func(offer) (answers, error), done func(time.Duration)) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	defer r.compare()
	for _, rate := range cfg.Rates {
		for _, row := range cfg.Rows {
			p, err := cfg.measure(offer{row: row, rate: rate, duration: cfg.point(rate), skip: cfg.Skip}, run)
			if err != nil {
				return r, err
			}
			p.Verdict = cfg.Agreed.judge(p)
			r.Points = append(r.Points, p)
			done(cfg.point(rate))
		}
	}
	for _, o := range cfg.slowOffers() {
		a, err := run(o)
		if err != nil {
			return r, err
		}
		r.Slow = append(r.Slow, course(o, a.client))
		done(o.duration)
	}
	return r, nil
}

// measure measures a point, again if the machine was disturbed, and returns the least
// disturbed result.
func (c Config) measure(o offer, run func(offer) (answers, error)) (best Point, err error) {
	for times := 1; ; times++ {
		a, err := run(o)
		if err != nil {
			return best, err
		}
		if p := a.point(o); times == 1 || p.Sending.P99 < best.Sending.P99 {
			best = p
		}
		if best.Times = times; best.Sending.P99 <= Quiet || times > c.Again {
			return best, nil
		}
	}
}

// serve sends an offer over HTTP, with a new upstream.
func (c Config) serve(ctx context.Context, o offer) (a answers, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h := o.row.protect(ctx, service(c.upstream(o.slow)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return a, err
	}
	epoch := time.Now()
	var mu sync.Mutex // guards a.server
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, began := &statusWriter{w, http.StatusOK}, time.Since(epoch)
		h.ServeHTTP(s, r)
		mu.Lock()
		defer mu.Unlock()
		a.server = append(a.server, trace.Record{Start: began, End: time.Since(epoch), Status: s.status})
	})}
	defer srv.Close()
	go func() { _ = srv.Serve(ln) }() // until Close
	_, err = load.Run(ctx, load.Config{
		Target: "http://" + ln.Addr().String() + "/", Profile: pace.Constant(o.rate), Poisson: c.Poisson, Seed: c.Seed,
		Timeout: time.Minute, Duration: o.duration, Record: func(r trace.Record) { a.client = append(a.client, r) },
	})
	mu.Lock()
	defer mu.Unlock() // a handler may still run after its client has left
	return a, cmp.Or(err, ctx.Err())
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}
