package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/lab/internal/origin"
)

type originCmd struct {
	Listen string `default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address for clients, and for /-/set, /-/health and /metrics, or unix:PATH for a Unix socket (${default})."`

	Workers         int           `default:"7" placeholder:"N" help:"Number of requests processed at once (${default})."`
	ServiceTime     time.Duration `default:"1s" placeholder:"TIME" help:"Mean time to process a request (${default})."`
	Distribution    string        `default:"constant" choices:"constant,normal,half-normal,exponential,lognormal" placeholder:"NAME" help:"Distribution of the service times: constant, normal, half-normal, exponential or lognormal (${default})."`
	CV              float64       `name:"cv" default:"0" placeholder:"X" help:"Coefficient of variation (standard deviation / mean) of a normal, half-normal or lognormal distribution (${default})."`
	Queue           int           `default:"100" placeholder:"N" help:"Requests that may wait for a worker; further ones get status 503 (${default})."`
	CancelAbandoned bool          `help:"Stop processing requests whose clients have left. Most real services continue."`
	FailureRate     float64       `default:"0" placeholder:"X" help:"Share of requests that fail with status 500 after they were processed (${default})."`
	Seed            uint64        `default:"1" placeholder:"N" help:"Seed of the random numbers (${default})."`
	Grace           time.Duration `least:"0s" default:"10s" placeholder:"TIME" help:"After SIGTERM or Ctrl-C: how long to wait for requests in flight (${default})."`
	cli.Listeners   `embed:""`
}

// Run serves until ctx ends, and then drains.
func (c *originCmd) Run(ctx context.Context, std cli.Streams) error {
	cfg := origin.Config{
		Workers:     c.Workers,
		ServiceTime: origin.ServiceTime{Mean: c.ServiceTime, Distribution: c.Distribution, CV: c.CV},
		Queue:       c.Queue, CancelAbandoned: c.CancelAbandoned, FailureRate: c.FailureRate, Seed: c.Seed,
	}
	if err := originUsage(cfg.Validate()); err != nil {
		return err
	}
	o, err := origin.New(cfg)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(std.Err, nil))
	ln, err := c.Open("--listen", c.Listen, log)
	if err != nil {
		return err
	}
	log.Info("weirlab origin", "listen", httpserve.URL("http", ln.Addr()), "workers", c.Workers,
		"service_time", c.ServiceTime, "distribution", c.Distribution, "cv", c.CV, "queue", c.Queue,
		"cancel_abandoned", c.CancelAbandoned, "failure_rate", c.FailureRate, "seed", c.Seed,
		"most_rps", float64(c.Workers)/c.ServiceTime.Seconds())
	return httpserve.Serve(ctx, httpserve.New(o, log), ln, c.Grace, nil)
}

// originUsage turns the error of a setting into one of its flag.
func originUsage(err error) error {
	if e, ok := errors.AsType[*origin.FieldError](err); ok {
		return cli.Usagef("--%s=%v: %s", strings.ReplaceAll(e.Field, "_", "-"), e.Value, e.Rule)
	}
	return err
}
