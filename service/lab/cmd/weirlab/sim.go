package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/terminal"
	"github.com/weir-go/weir/service/lab/internal/figure"
	"github.com/weir-go/weir/service/lab/internal/picture"
	"github.com/weir-go/weir/service/lab/internal/scenario"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

type simCmd struct {
	Files []string `arg:"" optional:"" name:"file" placeholder:"FILE" help:"Scenario files in YAML (docs/sim.md), such as service/lab/scenarios/*.yaml."`

	Seed    *uint64 `placeholder:"N" help:"Seed of the random numbers, instead of the seeds in the files."`
	Variant string  `placeholder:"NAME" help:"Run only the variants whose names contain this text."`
	Out     string  `placeholder:"DIR" help:"Draw a plot of each scenario into this directory."`
	Format  string  `default:"svg" enum:"svg,png" placeholder:"KIND" help:"Format of the plots: svg or png (${default})."`
	Trace   string  `placeholder:"FILE" help:"Write a CSV line for each call. Needs a single run: select it with --variant."`
	JSON    bool    `name:"json" help:"Print the results as JSON, including their time series."`

	Reference bool `help:"Explain each field of scenario files, and end."`
	Schema    bool `help:"Print a JSON schema of scenario files, for editors, and end."`
}

// Run simulates the files and prints a table for each, or prints what a file may have.
func (c *simCmd) Run(ctx context.Context, std cli.Streams) error {
	switch ends := c.Schema || c.Reference; {
	case c.Schema && c.Reference, ends && len(c.Files) > 0:
		return cli.Usagef("give scenario files, --reference or --schema: each by itself")
	case !ends && len(c.Files) == 0:
		return cli.Usagef(`expected "<file> ...": scenario files, such as service/lab/scenarios/capacity.yaml; --reference explains them`)
	case c.Schema:
		return cli.PrintJSON(std.Out, scenario.Schema())
	case c.Reference:
		_, err := io.WriteString(std.Out, scenario.Lines())
		return err
	}
	var figures []*figure.Figure
	loaded := make(chan error, 1)
	go func() {
		var err error
		figures, err = figure.Load(c.Files, c.Variant, c.Seed)
		loaded <- cmp.Or(err, c.check(figures))
	}()
	select {
	case err := <-loaded:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return figure.ErrInterrupted // the process ends, and Load with it
	}
	if err := c.simulate(ctx, std.Err, figures); err != nil {
		return err
	}
	for _, f := range figures {
		draw := func(w io.Writer) error { return picture.Draw(w, f, c.Format) }
		if c.Out == "" {
			break
		}
		if err := writeFile(std.Err, c.Out, f.Name+"."+c.Format, draw); err != nil {
			return err
		}
	}
	if c.JSON {
		return figure.PrintJSON(std.Out, figures)
	}
	for i, f := range figures {
		if i > 0 {
			fmt.Fprintln(std.Out)
		}
		if err := f.Table(std.Out); err != nil {
			return err
		}
	}
	return nil
}

// check checks the flags that depend on the files.
func (c *simCmd) check(figures []*figure.Figure) error {
	runs, files := 0, map[string]string{} // by the name of the plot
	for _, f := range figures {
		runs += f.Len()
		if f.Fleets != nil && c.Trace != "" {
			return cli.Usagef("--trace: %s is about a fleet, which has no calls to trace", f.File)
		}
		if other, taken := files[f.Name]; taken && c.Out != "" {
			return cli.Usagef("--out: %s and %s would both be drawn as %s.%s", other, f.File, f.Name, c.Format)
		}
		files[f.Name] = f.File
	}
	switch {
	case runs == 0:
		return cli.Usagef("--variant=%s: no file has a variant with this text in its name", c.Variant)
	case c.Trace != "" && runs > 1:
		return cli.Usagef("--trace: there are %d runs: select one with --variant", runs)
	}
	return nil
}

func (c *simCmd) simulate(ctx context.Context, stderr io.Writer, figures []*figure.Figure) (err error) {
	var record func(trace.Record)
	if c.Trace != "" {
		var finish func() error
		if record, finish, err = createTrace(c.Trace); err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, finish()) }()
	}
	var done atomic.Int64
	stop := terminal.TerminalProgress(stderr, "simulated", figure.Duration(figures), &done)
	defer stop()
	return figure.Simulate(ctx, figures, record, &done, finishedFleets(stderr, figures))
}

// finishedFleets returns a function that prints that the run of a fleet has ended, if there are several,
// which may take minutes. It is nil on a terminal, which shows the progress.
func finishedFleets(stderr io.Writer, figures []*figure.Figure) func(name string) {
	all := 0
	for _, f := range figures {
		all += len(f.Fleets)
	}
	if all < 2 || terminal.Is(stderr) {
		return nil
	}
	var mu sync.Mutex // guards n, and the order of the lines
	n, began := 0, time.Now()
	return func(name string) {
		mu.Lock()
		defer mu.Unlock()
		n++
		fmt.Fprintf(stderr, "simulated: %s, %d of %d, after %v\n", name, n, all, time.Since(began).Round(time.Second))
	}
}
