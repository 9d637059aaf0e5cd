package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/lab/origin"
)

type originCmd struct {
	Listen string `default:"127.0.0.1:8000" placeholder:"ADDR" help:"Where clients come in; /-/set, /-/health and /metrics are there too (${default})."`

	Workers         int           `default:"7" placeholder:"N" help:"Requests worked on at once (${default})."`
	ServiceTime     time.Duration `default:"1s" placeholder:"TIME" help:"How long one takes, on average (${default})."`
	Distribution    string        `default:"constant" placeholder:"NAME" help:"Of the service times: constant, normal, exponential or lognormal (${default})."`
	CV              float64       `name:"cv" default:"0" placeholder:"X" help:"Coefficient of variation (standard deviation / mean) of a normal or lognormal (${default})."`
	Queue           int           `default:"100" placeholder:"N" help:"Requests that may wait for a worker; beyond them, 503 (${default})."`
	CancelAbandoned bool          `help:"Stop working for clients that have left. Most real services work on."`
	FailureRate     float64       `default:"0" placeholder:"X" help:"Share of requests that end with 500, after the work (${default})."`
	Seed            uint64        `default:"1" placeholder:"N" help:"Of all that is random (${default})."`
	Grace           time.Duration `default:"10s" placeholder:"TIME" help:"How long to finish what is in flight after SIGTERM or Ctrl-C (${default})."`
}

// Run serves until ctx ends, and then drains.
func (c *originCmd) Run(ctx context.Context, std streams) error {
	cfg := origin.Config{
		Workers:     c.Workers,
		ServiceTime: origin.ServiceTime{Mean: c.ServiceTime, Distribution: c.Distribution, CV: c.CV},
		Queue:       c.Queue, CancelAbandoned: c.CancelAbandoned, FailureRate: c.FailureRate, Seed: c.Seed,
	}
	if err := cmp.Or(atLeast(0, "--grace", c.Grace), originUsage(cfg.Validate())); err != nil {
		return err
	}
	o, err := origin.New(cfg)
	if err != nil {
		return err
	}
	ln, err := listen("--listen", c.Listen)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(std.Err, nil))
	log.Info("weir origin", "listen", "http://"+ln.Addr().String(), "workers", c.Workers,
		"service_time", c.ServiceTime, "distribution", c.Distribution, "cv", c.CV, "queue", c.Queue,
		"cancel_abandoned", c.CancelAbandoned, "failure_rate", c.FailureRate, "seed", c.Seed,
		"most_rps", float64(c.Workers)/c.ServiceTime.Seconds())
	return httpserve.Serve(ctx, httpserve.New(o, log), ln, c.Grace)
}

// originUsage turns the error of a setting into that of its flag.
func originUsage(err error) error {
	if e, ok := errors.AsType[*origin.FieldError](err); ok {
		return usagef("--%s=%v: %s", strings.ReplaceAll(e.Field, "_", "-"), e.Value, e.Rule)
	}
	return err
}
