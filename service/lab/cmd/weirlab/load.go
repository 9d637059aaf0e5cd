package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/inputfile"
	"github.com/weir-go/weir/service/internal/terminal"
	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

type loadCmd struct {
	Target string `arg:"" optional:"" placeholder:"URL" help:"Target of the requests, such as http://127.0.0.1:8000. Its scheme is the protocol: http, https, grpc, grpcs, redis, rediss, tcp or udp."`

	Rate           string         `placeholder:"RPS" help:"Requests per second. 5..50@30s is a ramp from 5 to 50 within 30 s; 5@10s,20@30s,5 are steps (5; with --workers 0, which is as fast as the answers come)."`
	Arrivals       string         `default:"constant" enum:"constant,poisson" placeholder:"KIND" group:"pace" help:"Arrivals of requests: constant (evenly spaced) or poisson (${default})."`
	Seed           uint64         `default:"1" placeholder:"N" group:"pace" help:"Seed of poisson arrivals (${default})."`
	Duration       *time.Duration `placeholder:"TIME" help:"How long to send requests; 0: until --requests are sent, or Ctrl-C (with times in --rate, those; 10s at a rate without a time; with --requests, 0s)."`
	Workers        int            `short:"c" default:"0" placeholder:"N" help:"Closed loop: the number of clients, each of which waits for its answer before it sends again. 0: open loop, which sends at --rate regardless of the answers (${default})."`
	Requests       int            `short:"n" default:"0" placeholder:"N" help:"Number of requests to send; 0: no bound (${default})."`
	Timeout        time.Duration  `least:"1ms" default:"10s" placeholder:"TIME" help:"Maximum time to wait for an answer (${default})."`
	IOwnThisTarget bool           `name:"i-own-this-target" help:"Allow a target that is not this machine. Use this only for your own services."`

	MaxInflight int      `least:"1" default:"10000" placeholder:"N" group:"pace" help:"Open loop: maximum requests in flight; further ones are not sent, and are counted as unsent (${default})."`
	Method      string   `short:"X" placeholder:"NAME" group:"request" help:"Method of HTTP requests (GET, or POST with a body)."`
	Header      []string `short:"H" sep:"none" placeholder:"NAME:VALUE" group:"request" help:"Header field of HTTP requests, or metadata of gRPC; can be repeated."`
	Body        string   `short:"d" placeholder:"TEXT" group:"request" help:"Body of HTTP requests, the command for redis, or the line for tcp and udp. @FILE is the content of a file, @- of the standard input; @@ begins a text with @."`
	Targets     string   `placeholder:"FILE" group:"request" help:"Send the HTTP requests of this file in turn; - is the standard input. See above."`
	HTTP2       bool     `name:"http2" env:"WEIR_HTTP2" group:"request" help:"Send HTTP requests over HTTP/2: negotiated for https, with prior knowledge for http (h2c)."`
	NoKeepAlive bool     `group:"request" help:"Make a connection for each HTTP request."`
	loadTLS     `group:"tls"`

	loadThresholds `group:"thresholds"`
	loadOutput     `group:"output"`
}

const loadDetail = `Targets:

  http://HOST/PATH, https://…    HTTP requests
  grpc://HOST:PORT/DOMAIN?KEY=VALUE&KEY2=VALUE2, grpcs://…
                                 a descriptor to Envoy's rate limit service
  redis://:SECRET@HOST:PORT, rediss://…
                                 the command in --body, such as
                                 "CL.THROTTLE user:{n} 15 30 60"
  tcp://HOST:PORT, udp://…       --body as a line, without an answer

{n} in --body, and in the path or the query of the target, is replaced by the number of the request.

--targets has requests with empty lines between them, or a JSON object in each line, as vegeta:

  POST http://127.0.0.1:8000/orders/{n}
  Content-Type: application/json
  @order.json

  {"method": "POST", "url": "/orders", "header": {"A": ["b"]}, "text": "{}"}

URLs such as /orders are relative to URL.

The exit status is 1 if a threshold (--max-…, --min-goodput) is not kept, or no request succeeded; --max-failed=100% allows that.`

// config returns the requests of the flags.
func (c *loadCmd) config() (cfg load.Config, err error) {
	rate := c.Rate
	switch {
	case rate == "" && c.Workers == 0:
		rate = "5"
	case rate == "":
		rate = "0"
	}
	cfg = load.Config{
		Target: c.Target, Method: c.Method, Header: http.Header{}, HTTP2: c.HTTP2, NoKeepAlive: c.NoKeepAlive,
		Poisson: c.Arrivals == "poisson", Seed: c.Seed, Requests: c.Requests,
		Workers: c.Workers, Timeout: c.Timeout, Duration: c.duration(), MaxInflight: c.MaxInflight,
	}
	if cfg.Profile, err = pace.Parse(rate); err != nil {
		return cfg, cli.Usagef("--rate: %s", strings.TrimPrefix(err.Error(), "pace: "))
	}
	if c.Target == "" && c.Targets == "" {
		return cfg, cli.Usagef(`expected "<target>", a URL, or --targets=FILE`)
	}
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return cfg, cli.Usagef("--header=%s: want NAME:VALUE", h)
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return cfg, cli.Usagef("--header=%q: has a character that a header field cannot have", h)
		}
		cfg.Header.Add(name, strings.TrimSpace(value))
	}
	if cfg.Body, err = body(c.Body); err != nil {
		return cfg, err
	}
	if cfg.Targets, err = readTargets(c.Targets); err != nil {
		return cfg, err
	}
	if cfg.TLS, err = c.tls(); err != nil {
		return cfg, err
	}
	if !cfg.Profile.Offers() && c.Workers == 0 {
		return cfg, cli.Usagef("--rate=%s sends nothing: give a rate, or --workers, which send as fast as the answers come", rate)
	}
	if err := cfg.Validate(); err != nil {
		return cfg, cli.Usagef("%s", strings.TrimPrefix(err.Error(), "load: "))
	}
	return cfg, nil
}

// duration returns how long to send requests.
func (c *loadCmd) duration() time.Duration {
	switch {
	case c.Duration != nil:
		return *c.Duration
	case c.Requests > 0:
		return 0
	}
	profile, err := pace.Parse(c.Rate)
	end, ends := profile.End()
	switch {
	case err != nil || end == 0:
		return untimed
	case !ends && !strings.Contains(c.Rate[strings.LastIndexByte(c.Rate, ',')+1:], "@"):
		return end + untimed
	}
	return end
}

// untimed is how long to send at a rate without a time, unless --duration or --requests says it.
const untimed = 10 * time.Second

// maxBody bounds a file with a body, or with targets, in bytes.
const maxBody = 64 << 20

// body returns a text, or the content of a file.
func body(text string) (string, error) {
	name, isFile := strings.CutPrefix(text, "@")
	if !isFile || strings.HasPrefix(name, "@") {
		return strings.TrimPrefix(text, "@"), nil
	}
	content, err := readInput(name)
	if err != nil {
		return "", cli.Usagef("--body=%s: %v", text, err)
	}
	return content, nil
}

// readTargets reads the file of --targets. Bodies that several targets share are read
// once.
func readTargets(name string) ([]load.Target, error) {
	if name == "" {
		return nil, nil
	}
	text, err := readInput(name)
	if err != nil {
		return nil, cli.Usagef("--targets=%s: %v", name, err)
	}
	bodies, total := map[string]string{}, 0
	targets, err := load.ReadTargets(strings.NewReader(text), func(name string) (string, error) {
		content, known := bodies[name]
		if known {
			return content, nil
		}
		content, err := readInput(name)
		if total += len(content); err == nil && total > maxBody {
			err = fmt.Errorf("the bodies have more than %d bytes", maxBody)
		}
		bodies[name] = content
		return content, err
	})
	if err != nil {
		return nil, cli.Usagef("--targets=%s: %v", name, strings.TrimPrefix(err.Error(), "load: targets: "))
	}
	return targets, nil
}

// readInput reads a file, or the standard input if its name is -.
func readInput(name string) (string, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(os.Stdin, maxBody+1))
	} else {
		text, err = inputfile.Read(name, maxBody+1)
	}
	if err == nil && len(text) > maxBody {
		err = fmt.Errorf("it has more than %d bytes", maxBody)
	}
	return string(text), err
}

// Run sends requests until the duration is over or ctx ends, and prints the results.
func (c *loadCmd) Run(ctx context.Context, std cli.Streams) (err error) {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if !c.IOwnThisTarget {
		switch err := cfg.Loopback(ctx); {
		case errors.As(err, new(*net.DNSError)):
			return cli.Usagef("%s", strings.TrimPrefix(err.Error(), "load: "))
		case err != nil:
			return cli.Usagef("%s; give --i-own-this-target if you may load it", strings.TrimPrefix(err.Error(), "load: "))
		}
	}
	out, err := c.open(c.Timeout, std.Err)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, out.close()) }()
	failure := make(chan error, 1)
	cfg.OnFailure = func(err error) { failure <- err }
	cfg.Record, cfg.Counters = out.record, &out.counters
	stop := func() {}
	if !c.Quiet {
		stop = terminal.Progress(std.Err, func(elapsed time.Duration) string { return c.progress(elapsed, out) })
	}
	began := time.Now()
	offered, err := load.Run(ctx, cfg)
	stop()
	if err != nil {
		return err
	}
	select {
	case err := <-failure:
		fmt.Fprintf(std.Err, "weirlab load: the first request that failed: %v\n", err)
	default:
	}
	r := out.collector.Report(offered)
	r.Target, r.Load, r.Began, r.Traffic = cfg.Name(), cfg.String(), began, out.traffic()
	return c.finish(std, out, r)
}

// progress describes how far the run is.
func (c *loadCmd) progress(elapsed time.Duration, out *loadOutputs) string {
	done := 0.0
	if whole := c.duration(); whole > 0 {
		done = elapsed.Seconds() / whole.Seconds()
	}
	if c.Requests > 0 {
		done = max(done, float64(out.counters.Ended.Load())/float64(c.Requests))
	}
	line := out.collector.Live(elapsed)
	if done > 0 {
		line = fmt.Sprintf("%3.0f %% %s", 100*min(done, 1), line)
	}
	return line
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

// compareReport returns the run of a file.
func compareReport(name string) (run report.Run, err error) {
	data, err := inputfile.Read(name, report.MaxBytes+1)
	if err == nil {
		run.Report, err = report.Parse(data)
	}
	if err != nil {
		return run, cli.Usagef("%s: %v", name, err)
	}
	run.Name = name
	return run, nil
}
