package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/lab/load"
	"github.com/weir-go/weir/service/internal/lab/pace"
	"github.com/weir-go/weir/service/internal/lab/trace"
	"github.com/weir-go/weir/service/internal/terminal"
)

type loadCmd struct {
	Target string `arg:"" placeholder:"URL" help:"Target of the requests, such as http://127.0.0.1:8000. Its scheme is the protocol: http, https, grpc, grpcs, redis, rediss, tcp or udp."`

	Rate     string        `default:"5" placeholder:"RPS" help:"Requests per second. 5..50@30s is a ramp from 5 to 50 within 30 s; 5@10s,20@30s,5 are steps (${default})."`
	Arrivals string        `default:"constant" enum:"constant,poisson" placeholder:"KIND" help:"Arrivals of requests: constant (evenly spaced) or poisson (${default})."`
	Seed     uint64        `default:"1" placeholder:"N" help:"Seed of poisson arrivals (${default})."`
	Workers  int           `default:"0" placeholder:"N" help:"Closed loop: the number of clients, each of which waits for its answer before it sends again. 0: open loop, which sends at --rate regardless of the answers (${default})."`
	Timeout  time.Duration `least:"1ms" default:"10s" placeholder:"TIME" help:"Maximum time to wait for an answer (${default})."`
	Duration time.Duration `default:"0s" placeholder:"TIME" help:"How long to send requests; 0: until Ctrl-C (${default})."`

	MaxInflight int      `least:"1" default:"10000" placeholder:"N" help:"Open loop: maximum requests in flight; further ones are not sent, and are counted as unsent (${default})."`
	Method      string   `placeholder:"NAME" help:"Method of HTTP requests (GET)."`
	Header      []string `sep:"none" placeholder:"NAME:VALUE" help:"Header field of HTTP requests, or metadata of gRPC; can be repeated."`
	Body        string   `placeholder:"TEXT" help:"Body of HTTP requests, the command for redis, or the line for tcp and udp."`

	Trace          string `placeholder:"FILE" help:"Write a CSV line for each request."`
	JSON           bool   `name:"json" help:"Print the result as JSON."`
	Quiet          bool   `help:"Do not show progress."`
	IOwnThisTarget bool   `name:"i-own-this-target" help:"Allow a target that is not this machine. Use this only for your own services."`
}

// Help returns what --help says besides the flags.
func (*loadCmd) Help() string {
	return `Targets:

  http://HOST/PATH, https://…    HTTP requests
  grpc://HOST:PORT/DOMAIN?KEY=VALUE&KEY2=VALUE2, grpcs://…
                                 ShouldRateLimit of Envoy's rate limit service, with one descriptor
  redis://:SECRET@HOST:PORT, rediss://…
                                 the command in --body, such as "CL.THROTTLE user:{n} 15 30 60"
  tcp://HOST:PORT, udp://…       --body as a line, without an answer

{n} in --body, and in the path or the query of the target, is replaced by the number of the request.`
}

func (c *loadCmd) config() (load.Config, error) {
	profile, err := pace.Parse(c.Rate)
	if err != nil {
		return load.Config{}, usagef("--rate: %v", err)
	}
	header := http.Header{}
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return load.Config{}, usagef("--header=%s: want NAME:VALUE", h)
		}
		header.Add(name, strings.TrimSpace(value))
	}
	cfg := load.Config{
		Target: c.Target, Method: c.Method, Header: header, Body: c.Body,
		Profile: profile, Poisson: c.Arrivals == "poisson", Seed: c.Seed,
		Workers: c.Workers, Timeout: c.Timeout, Duration: c.Duration, MaxInflight: c.MaxInflight,
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef("%v", err)
	}
	return cfg, nil
}

// Run sends requests until the duration is over or ctx ends, and prints the results.
func (c *loadCmd) Run(ctx context.Context, std streams) (err error) {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if !c.IOwnThisTarget {
		if err := load.Loopback(ctx, c.Target); err != nil {
			return usagef("%v; give --i-own-this-target if you may load it", err)
		}
	}
	collector := load.NewCollector(c.Timeout)
	cfg.Record = collector.Add
	failure := make(chan error, 1)
	cfg.OnFailure = func(err error) { failure <- err }
	if c.Trace != "" {
		records, finish, err := createTrace(c.Trace)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, finish()) }()
		cfg.Record = func(r trace.Record) { collector.Add(r); records(r) }
	}
	stop := func() {}
	if !c.Quiet {
		stop = terminal.Progress(std.Err, func(elapsed time.Duration) string { return liveLine(collector.Report(elapsed)) })
	}
	offered, err := load.Run(ctx, cfg)
	stop()
	if err != nil {
		return err
	}
	select {
	case err := <-failure:
		fmt.Fprintf(std.Err, "weir load: the first request that failed: %v\n", err)
	default:
	}
	report := collector.Report(offered)
	if c.JSON {
		return printJSON(std.Out, report)
	}
	return report.Table(std.Out)
}

func liveLine(r load.Report) string {
	p99 := "–"
	if l := r.Latency.Successes; l != nil {
		p99 = fmt.Sprintf("%.3f s", l.P99)
	}
	return fmt.Sprintf("%4.0f s  offered %.1f rps, goodput %.1f rps, p99 of successes %s", r.Elapsed, r.Offered, r.Goodput, p99)
}

// createTrace creates a trace file. It returns a function that writes a record, and
// one that closes the file and returns the first error.
func createTrace(name string) (write func(trace.Record), finish func() error, err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, nil, fmt.Errorf("--trace: %w", err)
	}
	t := trace.NewWriter(f)
	write = func(r trace.Record) { _ = t.Write(r) } // Flush returns the error
	finish = func() error {
		if err := errors.Join(t.Flush(), f.Close()); err != nil {
			return fmt.Errorf("--trace: %w", err)
		}
		return nil
	}
	return write, finish, nil
}
