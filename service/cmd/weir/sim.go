package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/lab/plot"
	"github.com/weir-go/weir/service/internal/lab/scenario"
	"github.com/weir-go/weir/service/internal/lab/sim"
	"github.com/weir-go/weir/service/internal/lab/trace"
	"github.com/weir-go/weir/service/internal/terminal"
)

type simCmd struct {
	Files []string `arg:"" name:"file" placeholder:"FILE" help:"Scenario files, such as service/scenarios/*.yaml."`

	Seed    *uint64 `placeholder:"N" help:"Of all that is random, instead of the files' own."`
	Variant string  `placeholder:"NAME" help:"Run only the variants whose names contain this."`
	Out     string  `placeholder:"DIR" help:"Draw a picture of each scenario into this directory."`
	Format  string  `default:"svg" enum:"svg,png" placeholder:"KIND" help:"Of the pictures: svg or png (${default})."`
	Trace   string  `placeholder:"FILE" help:"Write a CSV line for each call. For a single run: choose it with --variant."`
	JSON    bool    `name:"json" help:"Print the results as JSON, the series over time included."`
}

// A simRun is one run of a scenario file.
type simRun struct {
	scenario sim.Scenario
	result   sim.Result
}

// A simFigure is what belongs together: a table and a picture.
type simFigure struct {
	File  string       `json:"file"`
	Title string       `json:"title"`
	Runs  []sim.Result `json:"runs"`

	runs []*simRun
	name string // of the picture
}

var errInterrupted = errors.New("interrupted: half a run shows nothing")

// Run simulates the files and prints a table for each.
func (c *simCmd) Run(ctx context.Context, std streams) error {
	var figures []*simFigure
	loaded := make(chan error, 1)
	go func() {
		var err error
		figures, err = c.load()
		loaded <- err
	}()
	select {
	case err := <-loaded:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return errInterrupted // the process ends, and load with it
	}
	if err := c.simulate(ctx, std.Err, figures); err != nil {
		return err
	}
	for _, f := range figures {
		for _, r := range f.runs {
			f.Runs = append(f.Runs, r.result)
		}
	}
	if c.Out != "" {
		if err := c.draw(std.Err, figures); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(std.Out, figures)
	}
	for i, f := range figures {
		if i > 0 {
			fmt.Fprintln(std.Out)
		}
		fmt.Fprintf(std.Out, "%s (%s, seed %d, %v)\n\n", f.Title, f.File, f.runs[0].scenario.Seed, f.runs[0].scenario.Duration)
		if err := sim.Table(std.Out, f.Runs); err != nil {
			return err
		}
	}
	return nil
}

// load reads the files, and leaves out the variants that are not asked for.
func (c *simCmd) load() (figures []*simFigure, err error) {
	runs, pictures := 0, map[string]string{} // by name: whose
	for _, path := range c.Files {
		file, err := scenario.Read(path)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		for i, scenarios := range file.Figures {
			f := &simFigure{File: path, Title: file.Titles[i], name: base}
			if len(file.Figures) > 1 {
				f.name = fmt.Sprintf("%s-%d", base, i+1)
			}
			for _, sc := range scenarios {
				if c.Seed != nil {
					sc.Seed = *c.Seed
				}
				if strings.Contains(sc.Name, c.Variant) {
					f.runs = append(f.runs, &simRun{scenario: sc})
				}
			}
			if len(f.runs) == 0 {
				continue
			}
			if c.Out != "" {
				if other, taken := pictures[f.name]; taken {
					return nil, usagef("--out: %s and %s would both be drawn as %s.%s", other, path, f.name, c.Format)
				}
				pictures[f.name] = path
			}
			figures = append(figures, f)
			runs += len(f.runs)
		}
	}
	switch {
	case runs == 0:
		return nil, usagef("--variant=%s: no file has a variant of such a name", c.Variant)
	case c.Trace != "" && runs > 1:
		return nil, usagef("--trace: these are %d runs: choose one with --variant", runs)
	}
	return figures, nil
}

// simulate runs all, as many at once as there are processors.
func (c *simCmd) simulate(ctx context.Context, stderr io.Writer, figures []*simFigure) error {
	var all []*simRun
	total := time.Duration(0)
	for _, f := range figures {
		for _, r := range f.runs {
			all = append(all, r)
			total += min(r.scenario.Duration, math.MaxInt64-total)
		}
	}
	var done atomic.Int64
	stop := terminal.Bar(stderr, "simulated", total, &done)
	defer stop()
	failed := make([]error, len(all))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				failed[i] = c.one(ctx, all[i], &done)
			}
		})
	}
	workers.Wait()
	return cmp.Or(failed...)
}

// one runs one scenario, and tells done of the simulated time.
func (c *simCmd) one(ctx context.Context, r *simRun, done *atomic.Int64) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	var record func(trace.Record)
	finish := func() error { return nil }
	if c.Trace != "" {
		var err error
		if record, finish, err = createTrace(c.Trace); err != nil {
			return err
		}
	}
	s, err := sim.New(r.scenario, record)
	if err != nil {
		return errors.Join(err, finish())
	}
	const events = 10_000 // a few milliseconds of work
	for arrived := false; !arrived; {
		if ctx.Err() != nil {
			_ = finish()
			return errInterrupted
		}
		before := s.Now()
		arrived = s.Advance(r.scenario.Duration, events)
		done.Add(int64(s.Now() - before))
	}
	r.result = s.Result()
	return finish()
}

// draw writes the pictures.
func (c *simCmd) draw(stderr io.Writer, figures []*simFigure) error {
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, f := range figures {
		name := filepath.Join(c.Out, f.name+"."+c.Format)
		if err := drawFile(name, f, c.Format); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		fmt.Fprintln(stderr, "wrote", name)
	}
	return nil
}

func drawFile(name string, f *simFigure, format string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	picture := plot.Figure{Title: f.Title, Note: fmt.Sprintf("weir sim %s · seed %d", f.File, f.runs[0].scenario.Seed)}
	for _, r := range f.runs {
		picture.Runs = append(picture.Runs, plot.Run{Scenario: r.scenario, Result: r.result})
	}
	if len(picture.Runs) == 1 && picture.Runs[0].Scenario.Name != "" {
		picture.Title += ": " + picture.Runs[0].Scenario.Name
	}
	if err := plot.Draw(file, picture, format); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
