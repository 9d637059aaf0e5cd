package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/inputfile"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// loadTLS are the flags for https, grpcs and rediss.
type loadTLS struct {
	Insecure bool   `short:"k" help:"Accept any certificate of the target."`
	CA       string `name:"ca" placeholder:"FILE" help:"Trust this authority, instead of those of the system."`
	Cert     string `placeholder:"FILE" help:"Show this certificate to the target."`
	Key      string `placeholder:"FILE" help:"The private key of --cert."`
}

// maxPEM bounds a file of certificates, in bytes.
const maxPEM = 4 << 20

// tls returns nil if no flag is given.
func (c *loadTLS) tls() (*tls.Config, error) {
	if *c == (loadTLS{}) {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure}
	switch {
	case c.Insecure && c.CA != "":
		return nil, cli.Usagef("--insecure and --ca exclude each other")
	case (c.Cert == "") != (c.Key == ""):
		return nil, cli.Usagef("--cert and --key: give both, or none")
	}
	if c.CA != "" {
		text, err := inputfile.Read(c.CA, maxPEM)
		if err != nil {
			return nil, cli.Usagef("--ca: %v", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, cli.Usagef("--ca: %s: there is no certificate in it", c.CA)
		}
	}
	if c.Cert != "" {
		cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, cli.Usagef("--cert, --key: %v", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// loadThresholds are the flags for what a run must keep.
type loadThresholds struct {
	MaxP50     *time.Duration  `name:"max-p50" env:"WEIR_MAX_P50" least:"0s" placeholder:"TIME" help:"The most that P50 may be, the median latency of the successes."`
	MaxP75     *time.Duration  `name:"max-p75" env:"WEIR_MAX_P75" least:"0s" placeholder:"TIME" help:"The most that P75 may be."`
	MaxP90     *time.Duration  `name:"max-p90" env:"WEIR_MAX_P90" least:"0s" placeholder:"TIME" help:"The most that P90 may be."`
	MaxP95     *time.Duration  `name:"max-p95" env:"WEIR_MAX_P95" least:"0s" placeholder:"TIME" help:"The most that P95 may be."`
	MaxP99     *time.Duration  `name:"max-p99" env:"WEIR_MAX_P99" least:"0s" placeholder:"TIME" help:"The most that P99 may be."`
	MaxP999    *time.Duration  `name:"max-p999" env:"WEIR_MAX_P999" least:"0s" placeholder:"TIME" help:"The most that P99.9 may be."`
	MaxP9999   *time.Duration  `name:"max-p9999" env:"WEIR_MAX_P9999" least:"0s" placeholder:"TIME" help:"The most that P99.99 may be."`
	MaxLatency *time.Duration  `least:"0s" placeholder:"TIME" help:"The most that the slowest success may take."`
	MaxFailed  *settings.Share `placeholder:"SHARE" help:"The most requests that may fail, such as 1%: all without success, rejections included (fewer than all)."`
	MinGoodput float64         `least:"0" default:"0" placeholder:"RPS" help:"The least successes per second, answered in time (${default})."`
}

// thresholds returns what the flags say; given reports whether there is any.
func (c *loadThresholds) thresholds() (t report.Thresholds, given bool) {
	t.Failed, t.Goodput = (*float64)(c.MaxFailed), c.MinGoodput
	for _, b := range []struct {
		percentile float64
		most       *time.Duration
	}{{50, c.MaxP50}, {75, c.MaxP75}, {90, c.MaxP90}, {95, c.MaxP95}, {99, c.MaxP99}, {99.9, c.MaxP999}, {99.99, c.MaxP9999}, {100, c.MaxLatency}} {
		if b.most != nil {
			t.Latency = append(t.Latency, report.Bound{Percentile: b.percentile, Most: *b.most})
		}
	}
	return t, t.Failed != nil || t.Goodput > 0 || len(t.Latency) > 0
}

// loadOutput are the flags for the results.
type loadOutput struct {
	Report  []string `sep:"none" placeholder:"FILE" help:"Write the result into this file, by its ending: .json (for weirlab load compare), .html (a page with plots) or .hgrm (percentiles as HdrHistogram plots them); can be repeated."`
	Trace   string   `placeholder:"FILE" help:"Write a CSV line for each request."`
	Record  string   `placeholder:"FILE" help:"Write a recording: 32 bytes for each request, for weirlab advise."`
	Metrics string   `placeholder:"ADDR" help:"Serve metrics for Prometheus at this address, under /metrics, during the run."`
	JSON    bool     `name:"json" help:"Print the result as JSON."`
	Quiet   bool     `help:"Do not show progress."`
}

// loadOutputs gets the records of a run.
type loadOutputs struct {
	collector *report.Collector
	counters  load.Counters
	record    func(trace.Record)
	reports   []*os.File
	closers   []func() error
}

// open opens all files and the listener before the run, so that an error comes early. After one, files that were there
// have what they had.
func (c *loadOutput) open(timeout time.Duration, stderr io.Writer) (o *loadOutputs, err error) {
	o = &loadOutputs{collector: report.NewCollector(timeout)}
	o.record = o.collector.Add
	defer func() {
		if err != nil {
			_ = o.close() // the first error is returned
		}
	}()
	if c.Metrics != "" {
		if err := o.serveMetrics(c.Metrics, stderr); err != nil {
			return o, err
		}
	}
	for _, name := range c.Report {
		if err := o.createReport(name); err != nil {
			return o, err
		}
	}
	if c.Trace != "" && c.Trace == c.Record {
		return o, cli.Usagef("--trace and --record: give two files")
	}
	if c.Trace != "" { // the last, because this empties the file
		write, finish, err := createTrace(c.Trace)
		if err != nil {
			return o, err
		}
		o.closers = append(o.closers, finish)
		o.also(write)
	}
	if c.Record != "" {
		write, finish, err := createRecording(c.Record, timeout)
		if err != nil {
			return o, err
		}
		o.closers = append(o.closers, finish)
		o.also(write)
	}
	return o, nil
}

// createRecording creates a recording of requests with a time-out. It returns a function that writes a record,
// and one that closes the file and returns the first error.
func createRecording(name string, timeout time.Duration) (write func(trace.Record), finish func() error, err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, nil, fmt.Errorf("--record: %w", err)
	}
	w := recording.NewWriter(f, time.Now())
	write = func(r trace.Record) {
		record := recorded.FromTrace(r)
		record.Deadline = r.Start + timeout
		_ = w.Write(record) // Flush returns the error
	}
	finish = func() error {
		if err := errors.Join(w.Flush(), f.Close()); err != nil {
			return fmt.Errorf("--record: %w", err)
		}
		return nil
	}
	return write, finish, nil
}

// also gives each record to another function.
func (o *loadOutputs) also(write func(trace.Record)) {
	first := o.record
	o.record = func(r trace.Record) { first(r); write(r) }
}

func (o *loadOutputs) createReport(name string) error {
	switch filepath.Ext(name) {
	case ".json", ".html", ".hgrm":
	default:
		return cli.Usagef("--report=%s: the name must end in .json, .html or .hgrm", name)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o666) // writeReport empties it
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	o.reports = append(o.reports, f)
	o.closers = append(o.closers, func() error {
		if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			return fmt.Errorf("--report: %w", err)
		}
		return nil
	})
	return nil
}

// serveMetrics serves them until close, and says where: the port can be 0.
func (o *loadOutputs) serveMetrics(addr string, stderr io.Writer) error {
	ln, err := cli.Listen("--metrics", addr)
	if err != nil {
		return err
	}
	m := report.NewMetrics(o.traffic, func() int64 { return o.counters.Started.Load() - o.counters.Ended.Load() })
	o.also(m.Add)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	go func() { _ = srv.Serve(ln) }() // until Close
	o.closers = append(o.closers, srv.Close)
	fmt.Fprintf(stderr, "metrics: http://%v/metrics\n", ln.Addr())
	return nil
}

// traffic returns what the connections have carried so far.
func (o *loadOutputs) traffic() report.Traffic {
	c := &o.counters
	return report.Traffic{Connections: c.Connections.Load(), Sent: c.Sent.Load(), Received: c.Received.Load()}
}

// close closes the files and the listener, and returns the first error.
func (o *loadOutputs) close() (first error) {
	for _, c := range o.closers {
		if err := c(); first == nil {
			first = err
		}
	}
	o.closers = nil
	return first
}

// finish prints the result, writes the reports, and returns an error if a threshold is not
// kept.
func (c *loadCmd) finish(std cli.Streams, out *loadOutputs, r report.Report) error {
	thresholds, given := c.thresholds()
	broken := thresholds.Check(r)
	print := r.Table
	if c.JSON {
		print = r.Write
	}
	if err := print(std.Out); err != nil {
		return err
	}
	for _, f := range out.reports {
		if err := writeReport(f, r, given, broken); err != nil {
			return fmt.Errorf("--report: %s: %w", f.Name(), err)
		}
	}
	if err := out.close(); err != nil {
		return err
	}
	for _, f := range out.reports {
		fmt.Fprintln(std.Err, "wrote", f.Name())
	}
	if len(broken) > 0 {
		return errors.New(strings.Join(broken, "; "))
	}
	return nil
}

func writeReport(f *os.File, r report.Report, checked bool, broken []string) error {
	if info, err := f.Stat(); err != nil {
		return err
	} else if info.Mode().IsRegular() { // and no pipe or device
		if err := f.Truncate(0); err != nil {
			return err
		}
	}
	switch filepath.Ext(f.Name()) {
	case ".json":
		return r.Write(f)
	case ".hgrm":
		return r.Percentiles(f)
	default:
		return r.Page(f, checked, broken)
	}
}

type loadCompareCmd struct {
	Before string `arg:"" name:"before" placeholder:"FILE" help:"The result of the first run: a file of weirlab load --report=FILE.json, or the output of --json."`
	After  string `arg:"" name:"after" placeholder:"FILE" help:"The result of the second run."`

	MaxWorse *settings.Share `placeholder:"SHARE" help:"Exit with status 1 if a figure of the second run is worse by more than this, and by more than the noise: 10% (no bound)."`
	Report   pageFile        `placeholder:"FILE" help:"Write a page with both curves into this .html file."`
	JSON     bool            `name:"json" help:"Print the comparison as JSON."`
}

// Run compares two runs.
func (c *loadCompareCmd) Run(_ context.Context, std cli.Streams) error {
	before, err := compareReport(c.Before)
	if err != nil {
		return err
	}
	after, err := compareReport(c.After)
	if err != nil {
		return err
	}
	compared := report.Compare(before, after)
	var worse []string
	if c.MaxWorse != nil {
		worse = compared.Regressions(float64(*c.MaxWorse))
	}
	if c.JSON {
		err = cli.PrintJSON(std.Out, compared)
	} else {
		err = compared.Table(std.Out)
	}
	if err == nil {
		err = c.Report.write(std.Err, func(w io.Writer) error { return compared.Page(w, c.MaxWorse != nil, worse) })
	}
	if err == nil && len(worse) > 0 {
		err = errors.New("worse: " + strings.Join(worse, "; "))
	}
	return err
}
