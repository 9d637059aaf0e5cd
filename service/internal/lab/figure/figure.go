// Package figure simulates scenario files. A Figure is a set of runs to compare: one
// table and one plot.
package figure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-go/weir/service/internal/lab/plot"
	"github.com/weir-go/weir/service/internal/lab/scenario"
	"github.com/weir-go/weir/service/internal/lab/sim"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// A Figure is a set of runs. Runs has their results after Simulate.
type Figure struct {
	File  string       `json:"file"`
	Title string       `json:"title"`
	Runs  []sim.Result `json:"runs"`

	Name      string         `json:"-"` // for a file: that of the scenario file, numbered if it has several figures
	Scenarios []sim.Scenario `json:"-"`
}

// ErrInterrupted reports that the context ended before the simulation.
var ErrInterrupted = errors.New("interrupted: there are no results")

// Load reads scenario files, and selects the runs with variant in their names. If seed
// is not nil, it replaces the seeds of the files.
func Load(paths []string, variant string, seed *uint64) (figures []*Figure, err error) {
	for _, path := range paths {
		file, err := scenario.Read(path)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		for i, scenarios := range file.Figures {
			f := &Figure{File: path, Title: file.Titles[i], Name: base}
			if len(file.Figures) > 1 {
				f.Name = fmt.Sprintf("%s-%d", base, i+1)
			}
			for _, sc := range scenarios {
				if seed != nil {
					sc.Seed = *seed
				}
				if strings.Contains(sc.Name, variant) {
					f.Scenarios = append(f.Scenarios, sc)
				}
			}
			if len(f.Scenarios) > 0 {
				f.Runs = make([]sim.Result, len(f.Scenarios))
				figures = append(figures, f)
			}
		}
	}
	return figures, nil
}

// Duration returns the simulated time of all runs.
func Duration(figures []*Figure) (total time.Duration) {
	for _, f := range figures {
		for i := range f.Scenarios {
			total += min(f.Scenarios[i].Duration, math.MaxInt64-total)
		}
	}
	return total
}

// Simulate simulates all runs, as many at once as there are processors. It adds the
// simulated time to done. Record, if not nil, gets the records of all runs.
func Simulate(ctx context.Context, figures []*Figure, record func(trace.Record), done *atomic.Int64) error {
	progress := func(d time.Duration) { done.Add(int64(d)) }
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range figures {
		for i, sc := range f.Scenarios {
			workers.Go(func() (err error) {
				if f.Runs[i], err = sim.Run(ctx, sc, record, progress); ctx.Err() != nil {
					return ErrInterrupted
				}
				return err
			})
		}
	}
	return workers.Wait()
}

// Table writes the title and the results as text.
func (f *Figure) Table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s (%s, seed %d, %v)\n\n", f.Title, f.File, f.Scenarios[0].Seed, f.Scenarios[0].Duration)
	return cmp.Or(err, sim.Table(w, f.Runs))
}

// Draw writes a plot in one of plot.Formats.
func (f *Figure) Draw(w io.Writer, format string) error {
	sheet := plot.Sheet{
		Title: f.Title, Notes: []string{fmt.Sprintf("weir sim %s · seed %d", f.File, f.Scenarios[0].Seed)},
		Across: "simulated time", Time: true, Wide: true,
	}
	var runs []run
	for i, sc := range f.Scenarios {
		runs = append(runs, run{sc, f.Runs[i]})
		sheet.Keys = append(sheet.Keys, plot.Key{Label: sc.Name, Style: plot.Stroke(plot.Colour(i), 3, nil)})
	}
	if len(runs) > 1 {
		sheet.Panels = comparison(runs)
		return plot.DrawSheet(w, sheet, format)
	}
	sheet.Keys, sheet.Panels = nil, runs[0].panels()
	if name := runs[0].Name; name != "" {
		sheet.Title += ": " + name
	}
	return plot.DrawSheet(w, sheet, format)
}
