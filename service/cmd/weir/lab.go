package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/lab/sla"
	"github.com/weir-go/weir/service/internal/terminal"
)

type labCmd struct {
	SLA slaCmd `cmd:"" name:"sla" help:"Does a service meet its service-level agreement without a limit, with three rate limits, and with Auto, at 25 to 600 requests a second?"`
}

type slaCmd struct {
	Quick bool `help:"Measure fewer rates for a shorter time: a minute instead of six."`
	Sim   bool `help:"Simulate in virtual time, within a second, instead of measuring over HTTP."`

	Rates     []float64     `placeholder:"RPS" help:"Request rates to offer, instead of 25, 50, … 600."`
	Only      []string      `placeholder:"NAME" help:"Measure only the rows whose names contain one of these texts: ${rows}."`
	Point     time.Duration `placeholder:"TIME" help:"How long to measure each row at each rate; a third of that for rows that do not queue (4.5s; with --quick 1.5s)."`
	Phase     time.Duration `placeholder:"TIME" help:"Length of each of three phases: the upstream is normal, slow, and normal again (5s; with --quick 2s)."`
	Again     int           `default:"2" placeholder:"N" help:"Repeat a measurement up to N times if the machine was too busy to send requests within ${quiet} of their time. The least disturbed one counts (${default}; with --quick 0)."`
	Arrivals  string        `default:"constant" enum:"constant,poisson" placeholder:"KIND" help:"Arrivals of requests: constant (evenly spaced) or poisson (${default})."`
	Abandoned bool          `help:"Let the upstream continue to process requests whose callers have given up."`
	Seed      uint64        `default:"1" placeholder:"N" help:"Seed of the service times and of poisson arrivals (${default})."`

	Out    string `placeholder:"DIR" help:"Write the plots, and the table as CSV and Markdown, into this directory."`
	Format string `default:"svg" enum:"svg,png" placeholder:"KIND" help:"Format of the plots: svg or png (${default})."`
	JSON   bool   `name:"json" help:"Print the results as JSON."`
}

// Run measures until it is done or ctx ends, and prints the results so far.
func (c *slaCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if c.Out != "" { // fail before the measurement rather than after it
		if err := os.MkdirAll(c.Out, 0o777); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	result, err := c.measure(ctx, std.Err, cfg)
	interrupted := errors.Is(err, context.Canceled)
	switch {
	case err != nil && !interrupted:
		return err
	case interrupted && len(result.Points) == 0:
		return errors.New("interrupted before the first point was measured")
	case c.JSON:
		err = printJSON(std.Out, result)
	default:
		err = c.print(std.Out, cfg, result)
	}
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := c.write(std.Err, result); err != nil {
			return err
		}
	}
	if interrupted {
		return fmt.Errorf("interrupted: %d of %d points were measured", len(result.Points), cfg.Points())
	}
	return nil
}

func (c *slaCmd) config() (sla.Config, error) {
	cfg := sla.Full()
	cfg.Again = c.Again
	if c.Quick {
		cfg = sla.Quick()
	}
	if len(c.Rates) > 0 {
		cfg.Rates = c.Rates
	}
	cfg.Point, cfg.Phase = cmp.Or(c.Point, cfg.Point), cmp.Or(c.Phase, cfg.Phase)
	cfg.Poisson, cfg.Abandoned, cfg.Seed = c.Arrivals == "poisson", c.Abandoned, c.Seed
	cfg.Rows = named(sla.Rows(), c.Only, func(row sla.Row) string { return row.Name })
	if len(cfg.Rows) == 0 {
		return cfg, usagef("--only=%s: must be part of one of %s", strings.Join(c.Only, ","), rowNames())
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef("%v", err)
	}
	return cfg, nil
}

func rowNames() string {
	return names(sla.Rows(), func(row sla.Row) string { return strings.ReplaceAll(row.Name, ",", "") })
}

func (c *slaCmd) measure(ctx context.Context, stderr io.Writer, cfg sla.Config) (sla.Result, error) {
	if c.Sim {
		return sla.Simulate(cfg)
	}
	total := cfg.Duration()
	var done atomic.Int64
	fmt.Fprintf(stderr, "%d points over HTTP: about %v\n", cfg.Points(), total.Round(time.Second))
	stop := terminal.TimeProgress(stderr, "measured", total, &done)
	defer stop()
	return sla.Run(ctx, cfg, func(d time.Duration) { done.Add(int64(d)) })
}

func (c *slaCmd) print(w io.Writer, cfg sla.Config, result sla.Result) error {
	if err := result.Table(w); err != nil || c.Sim {
		return err
	}
	simulated, err := sla.Simulate(cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(w, "\n", sla.Compare(result, simulated))
	return err
}

// write writes the plots and the tables.
func (c *slaCmd) write(stderr io.Writer, result sla.Result) error {
	base := "sla"
	if c.Sim {
		base = "sla-sim"
	}
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{base + ".csv", result.CSV},
		{base + "-table.md", result.Markdown},
		{base + "." + c.Format, func(w io.Writer) error { return result.Draw(w, c.Format) }},
		{base + "-slow." + c.Format, func(w io.Writer) error { return result.DrawSlow(w, c.Format) }},
	}
	if len(result.Slow) == 0 {
		files = files[:3]
	}
	for _, f := range files {
		if err := writeFile(stderr, c.Out, f.name, f.write); err != nil {
			return err
		}
	}
	return nil
}
