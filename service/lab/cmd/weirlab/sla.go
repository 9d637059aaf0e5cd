package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/internal/terminal"
	"github.com/weir-go/weir/service/lab/internal/sla"
)

type slaCmd struct {
	Quick   bool `help:"Measure fewer rates for a shorter time: a minute instead of seven. Queues have less time to grow than in the whole run."`
	Article bool `help:"Measure with the upstream, the rates (400, 405, … 600) and the points (5 s, all of which count) of the article: 20 minutes."`
	Sim     bool `help:"Simulate in virtual time, within a second, instead of measuring over HTTP."`

	Rates     []string        `placeholder:"RPS" help:"Request rates to offer, instead of 25, 50, … 600. 400,425 or ranges: 400..600@25."`
	Only      []string        `placeholder:"NAME" help:"Measure only the rows whose names contain one of these texts: ${rows}."`
	Point     time.Duration   `placeholder:"TIME" help:"How long to measure each row at each rate; a third of that for rows that do not queue (4.5s; with --quick 1.5s, with --article 5s)."`
	Requests  int             `placeholder:"N" help:"Least number of requests that count at each point, which lasts longer if need be. A share of 99.99% needs 10000 or more."`
	Skip      *settings.Share `placeholder:"SHARE" help:"Share of each point, at its beginning, that does not count (20%; with --article 0%)."`
	Phase     time.Duration   `placeholder:"TIME" help:"Length of each of three phases: the upstream is normal, slow, and normal again (5s; with --quick 1.5s; with --article left out)."`
	Again     int             `default:"2" placeholder:"N" help:"Repeat a measurement up to N times if the machine was too busy to send requests within ${quiet} of their time. The least disturbed one counts (${default}; with --quick 0)."`
	Arrivals  string          `default:"constant" enum:"constant,poisson" placeholder:"KIND" help:"Arrivals of requests: constant (evenly spaced) or poisson (${default})."`
	Abandoned bool            `help:"Let the upstream continue to process requests whose callers have given up."`
	Seed      uint64          `default:"1" placeholder:"N" help:"Seed of the service times and of poisson arrivals (${default})."`

	slaSetting

	Out    string `placeholder:"DIR" group:"output" help:"Write the plots, and the table as CSV and Markdown, into this directory."`
	Format string `default:"svg" enum:"svg,png" placeholder:"KIND" group:"output" help:"Format of the plots: svg or png (${default})."`
	JSON   bool   `name:"json" group:"output" help:"Print the results as JSON."`
}

// Run measures until it is done or ctx ends, and prints the results so far.
func (c *slaCmd) Run(ctx context.Context, std cli.Streams) error {
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
		err = cli.PrintJSON(std.Out, result)
	default:
		err = c.print(std.Out, cfg, result)
	}
	if err != nil {
		return err
	}
	if c.Quick {
		fmt.Fprint(std.Err, quickCaveat)
	}
	if c.Out != "" {
		if err := c.write(std.Err, cfg.Setting, result); err != nil {
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
	switch {
	case c.Quick && c.Article:
		return cfg, cli.Usagef("--quick and --article exclude each other")
	case c.Quick:
		cfg = sla.Quick()
	case c.Article:
		cfg = sla.Article()
	}
	if err := c.apply(&cfg); err != nil {
		return cfg, err
	}
	if len(c.Rates) > 0 {
		var err error
		if cfg.Rates, err = parseRates(c.Rates); err != nil {
			return cfg, err
		}
	}
	cfg.Requests = c.Requests
	set(&cfg.Skip, (*float64)(c.Skip))
	cfg.Point, cfg.Phase = cmp.Or(c.Point, cfg.Point), cmp.Or(c.Phase, cfg.Phase)
	cfg.Poisson, cfg.Abandoned, cfg.Seed = c.Arrivals == "poisson", c.Abandoned, c.Seed
	cfg.Rows = named(cfg.Setting.Rows(), c.Only, func(row sla.Row) string { return row.Name })
	if len(cfg.Rows) == 0 {
		return cfg, cli.Usagef("--only=%s: must be part of one of %s", strings.Join(c.Only, ","), rowNames())
	}
	if err := cfg.Validate(); err != nil {
		return cfg, cli.Usagef("%v", err)
	}
	return cfg, nil
}

// parseRates reads numbers, and ranges such as 400..600@25.
func parseRates(texts []string) (rates []float64, err error) {
	for _, text := range texts {
		bad := cli.Usagef("--rates=%s: want a rate such as 425, or a range such as 400..600@25, of at most %d rates", text, sla.MaxRates)
		ends, by, stepped := strings.Cut(text, "@")
		from, to, ranged := strings.Cut(ends, "..")
		if stepped != ranged {
			return nil, bad
		}
		if !ranged {
			to, by = from, "1"
		}
		var bounds [3]float64
		for i, field := range []string{from, to, by} {
			if bounds[i], err = strconv.ParseFloat(field, 64); err != nil {
				return nil, bad
			}
		}
		first, step := bounds[0], bounds[2]
		steps := (bounds[1] - first) / step
		if !(step > 0 && steps >= 0 && steps < sla.MaxRates) {
			return nil, bad
		}
		for i := range int(steps+1e-9) + 1 { // the last step may be rounded down
			rates = append(rates, first+float64(i)*step)
		}
	}
	return rates, nil
}

// quickCaveat tells why the results of --quick differ from those of README.md and
// docs/sla.md.
const quickCaveat = `
--quick measures 1.5 s a point instead of 4.5 s. Beyond its capacity a service is worse the longer it is overloaded, so the rows
without a bound on their queue look better here than in README.md and docs/sla.md: at 600 requests a second, "no limit" answers
about 80 % of the requests of a short point, and about 12 % of those of a whole one. Compare rows within this run only.
`

func rowNames() string {
	return names(sla.Tuned().Rows(), func(row sla.Row) string { return strings.ReplaceAll(row.Name, ",", "") })
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
func (c *slaCmd) write(stderr io.Writer, setting sla.Setting, result sla.Result) error {
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
		{base + "." + c.Format, func(w io.Writer) error { return result.Draw(setting, w, c.Format) }},
		{base + "-slow." + c.Format, func(w io.Writer) error { return result.DrawSlow(setting, w, c.Format) }},
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
