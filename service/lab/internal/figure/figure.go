// Package figure simulates scenario files. A Figure is a set of runs to compare: one
// table and, by package picture, one plot.
package figure

import (
	"cmp"
	"context"
	"encoding/json"
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

	"github.com/weir-go/weir/service/lab/internal/fleet"
	"github.com/weir-go/weir/service/lab/internal/scenario"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A Figure is a set of runs, either of Scenarios or of Fleets. Runs or FleetRuns has their
// results after Simulate.
type Figure struct {
	File      string         `json:"file"`
	Title     string         `json:"title"`
	Runs      []sim.Result   `json:"runs,omitempty"`
	FleetRuns []fleet.Result `json:"fleets,omitempty"`

	Name      string           `json:"-"` // for a file: that of the scenario file, numbered if it has several figures
	Scenarios []sim.Scenario   `json:"-"`
	Fleets    []fleet.Scenario `json:"-"`
}

// Len returns the number of runs.
func (f *Figure) Len() int { return len(f.Scenarios) + len(f.Fleets) }

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
		figures = append(figures, Of(path, file, variant, seed)...)
	}
	return figures, nil
}

// Of is Load for the content of one file, which is at path.
func Of(path string, file *scenario.File, variant string, seed *uint64) (figures []*Figure) {
	base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	for i, title := range file.Titles {
		f := &Figure{File: path, Title: title, Name: base}
		if len(file.Titles) > 1 {
			f.Name = fmt.Sprintf("%s-%d", base, i+1)
		}
		if file.Fleets != nil {
			f.selectFleets(file.Fleets[i], variant, seed)
		} else {
			f.selectScenarios(file.Figures[i], variant, seed)
		}
		if f.Len() > 0 {
			figures = append(figures, f)
		}
	}
	return figures
}

func (f *Figure) selectScenarios(all []sim.Scenario, variant string, seed *uint64) {
	for _, sc := range all {
		if seed != nil {
			sc.Seed = *seed
		}
		if strings.Contains(sc.Name, variant) {
			f.Scenarios = append(f.Scenarios, sc)
		}
	}
	f.Runs = make([]sim.Result, len(f.Scenarios))
}

func (f *Figure) selectFleets(all []fleet.Scenario, variant string, seed *uint64) {
	for _, sc := range all {
		if seed != nil {
			sc.Seed = *seed
		}
		if strings.Contains(sc.Name, variant) {
			f.Fleets = append(f.Fleets, sc)
		}
	}
	f.FleetRuns = make([]fleet.Result, len(f.Fleets))
}

// Duration returns the simulated time of all runs.
func Duration(figures []*Figure) (total time.Duration) {
	for _, f := range figures {
		for i := range f.Scenarios {
			total += min(f.Scenarios[i].Duration, math.MaxInt64-total)
		}
		for i := range f.Fleets {
			total += min(f.Fleets[i].Duration, math.MaxInt64-total)
		}
	}
	return total
}

// Simulate simulates all runs, as many at once as there are processors. It adds the
// simulated time to done. Record, if not nil, gets the records of all runs. Finished, if not nil, is called
// with the name of a fleet when its run has ended, by several goroutines.
func Simulate(ctx context.Context, figures []*Figure, record func(trace.Record), done *atomic.Int64, finished func(name string)) error {
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
		for i, sc := range f.Fleets {
			workers.Go(func() (err error) {
				if f.FleetRuns[i], err = fleet.Run(ctx, sc, progress); ctx.Err() != nil {
					return ErrInterrupted
				}
				if err == nil && finished != nil {
					finished(cmp.Or(sc.Name, f.Title))
				}
				return err
			})
		}
	}
	return workers.Wait()
}

// Table writes the title and the results as text.
func (f *Figure) Table(w io.Writer) error {
	seed, duration := f.First()
	_, err := fmt.Fprintf(w, "%s (%s, seed %d, %v)\n\n", f.Title, f.File, seed, duration)
	if f.Fleets != nil {
		return cmp.Or(err, fleet.Table(w, f.FleetRuns))
	}
	return cmp.Or(err, sim.Table(w, f.Runs))
}

// PrintJSON writes figures with their results as JSON.
func PrintJSON(w io.Writer, figures []*Figure) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(figures)
}

// First returns the seed and the duration of the first run.
func (f *Figure) First() (seed uint64, duration time.Duration) {
	if f.Fleets != nil {
		return f.Fleets[0].Seed, f.Fleets[0].Duration
	}
	return f.Scenarios[0].Seed, f.Scenarios[0].Duration
}
