package arena

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Config says what is run.
type Config struct {
	Policies []Policy
	Rows     []Row
	Seeds    int // runs of each cell, with the seeds 1, 2, …; >= 1
	// Deadlines lets the guards see the callers' deadlines. Most servers do
	// not know them.
	Deadlines bool
}

// Validate returns what is wrong with c, if anything is.
func (c Config) Validate() error {
	switch {
	case len(c.Policies) == 0:
		return errors.New("arena: Policies: there must be one")
	case len(c.Rows) == 0:
		return errors.New("arena: Rows: there must be one")
	case c.Seeds < 1:
		return fmt.Errorf("arena: Seeds = %d: must be >= 1", c.Seeds)
	}
	return nil
}

// Duration is how much time there is to be simulated.
func (c Config) Duration() (total time.Duration) {
	for _, r := range c.Rows {
		total += r.scenario.Duration * time.Duration(len(c.Policies)*c.Seeds)
	}
	return total
}

// A Result is the matrix, and what it says about the policies.
type Result struct {
	Seeds     int        `json:"seeds"`
	Deadlines bool       `json:"deadlines"` // the guards saw the callers' deadlines
	Standings []Standing `json:"leaderboard"`
	Matrix    []Line     `json:"matrix"`

	policies []Policy
}

// A Line of the matrix has a cell for each policy, in the order of Config.
type Line struct {
	Row   string `json:"scenario"`
	Group string `json:"group"`
	Title string `json:"title"`
	Knee  int    `json:"knee"`
	Cells []Cell `json:"cells"`
}

// A Standing is how a policy did in all.
type Standing struct {
	Policy      string        `json:"policy"`
	Outside     bool          `json:"outside,omitempty"` // knows what cannot be known
	Score       float64       `json:"score"`             // mean over the scenarios
	Worst       float64       `json:"worst_score"`
	WorstIn     string        `json:"worst_score_in"`
	Goodput     float64       `json:"goodput"` // mean share of the oracle's
	WorstShare  float64       `json:"worst_goodput"`
	ShareIn     string        `json:"worst_goodput_in"`
	P99Share    float64       `json:"p99"`              // mean of the p99 of successes / the deadline
	Slowest     time.Duration `json:"slowest_recovery"` // over all scenarios and seeds
	SlowestIn   string        `json:"slowest_recovery_in,omitempty"`
	Unrecovered int           `json:"not_recovered"` // scenarios from which it did not recover
}

// Run runs all cells, as many at once as there are processors, and tells done
// of the simulated time. The same Config gives the same Result.
func Run(ctx context.Context, cfg Config, done *atomic.Int64) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	progress := func(d time.Duration) { done.Add(int64(d)) }
	cells := make([][][]Cell, len(cfg.Rows))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range cfg.Rows {
		cells[i] = make([][]Cell, len(cfg.Policies))
		for k := range cfg.Policies {
			cells[i][k] = make([]Cell, cfg.Seeds)
			for seed := range cfg.Seeds {
				workers.Go(func() (err error) {
					if err := ctx.Err(); err != nil {
						return err // a cell takes time before its first event
					}
					cells[i][k][seed], err = cfg.Play(i, k, uint64(seed)+1, func(s *sim.Sim) error { return s.Play(ctx, progress) })
					return err
				})
			}
		}
	}
	if err := workers.Wait(); err != nil {
		return Result{}, err
	}
	return Gather(cfg, cells), nil
}

// Gather returns the result of all cells, which are ordered by row, policy and seed.
func Gather(cfg Config, cells [][][]Cell) Result {
	r := Result{Seeds: cfg.Seeds, Deadlines: cfg.Deadlines, policies: cfg.Policies}
	for i, row := range cfg.Rows {
		line := Line{Row: row.Name, Group: row.Group, Title: row.Title, Knee: row.knee}
		for k, p := range cfg.Policies {
			line.Cells = append(line.Cells, mean(p.Name, cells[i][k]))
		}
		r.Matrix = append(r.Matrix, line)
	}
	r.Standings = r.standings()
	return r
}

// Play runs one cell: play is to bring the simulation to its end.
func (c Config) Play(row, policy int, seed uint64, play func(*sim.Sim) error) (Cell, error) {
	r, p := &c.Rows[row], c.Policies[policy]
	var refused []time.Duration
	s, err := sim.New(r.with(p, seed, c.Deadlines), func(r trace.Record) {
		if !r.Success() {
			refused = append(refused, r.Latency())
		}
	})
	if err == nil {
		err = play(s)
	}
	if err != nil {
		return Cell{}, fmt.Errorf("arena: %s, %s: %w", r.Name, p.Name, err)
	}
	return r.score(s.Result(), refused), nil
}

// standings are in order of the score, equals as in the matrix.
func (r Result) standings() []Standing {
	var all []Standing
	for k, p := range r.policies {
		st := Standing{Policy: p.Name, Outside: p.Outside, Worst: 2, WorstShare: 2}
		n := float64(len(r.Matrix))
		for _, line := range r.Matrix {
			c := line.Cells[k]
			st.Score += c.Score / n
			st.Goodput += c.Goodput / n
			st.P99Share += c.P99Share() / n
			if c.Score < st.Worst {
				st.Worst, st.WorstIn = c.Score, line.Row
			}
			if c.WorstShare < st.WorstShare {
				st.WorstShare, st.ShareIn = c.WorstShare, line.Row
			}
			if !c.Recovers {
				continue
			}
			if !c.Recovered {
				st.Unrecovered++
			}
			if c.RecoveredIn > st.Slowest {
				st.Slowest, st.SlowestIn = c.RecoveredIn, line.Row
			}
		}
		all = append(all, st)
	}
	slices.SortStableFunc(all, func(a, b Standing) int { return cmp.Compare(b.Score, a.Score) })
	return all
}
