//go:build system

package contender

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/service/lab/internal/arena"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

var (
	full  = flag.Bool("full", false, "play all rows, with ten seeds, and print the table")
	group = flag.String("group", "", "of the rows: classic, production or all; with -full classic, else all, unless given")
	only  = flag.String("only", "", "play the rows whose names contain this, with -seeds seeds, and print the table")
	seeds = flag.Int("seeds", 1, "with -only")
)

// excerpt has the rows that are played by default.
var excerpt = []string{"low-traffic", "failover", "overload", "background/half load/20 %"}

// contenders play in a bubble, by the names of their columns.
var contenders = []struct {
	name, about string
	make        func() limiter
}{
	{"auto-shell", "inflight.Config{} as it is shipped: goroutines, timers and the clock of the bubble", newShell},
	{"failsafe", "failsafe-go v0.9.8, NewBuilder().WithQueueing(2, 3), as in its documentation", newFailsafe},
	{"failsafe-plain", "failsafe-go v0.9.8, NewWithDefaults(): nobody waits; begins at 20", newUnqueued(20)},
	{"plain-from-5", "the same, but it begins at 5", newUnqueued(5)},
	{"plain-from-80", "the same, but it begins at 80", newUnqueued(80)},
}

// matrix has the core of Auto, as `weirlab arena` plays it, and the contenders.
func matrix(t *testing.T) arena.Config {
	groups := []string{*group}
	switch {
	case *group == "" && *full:
		groups = []string{arena.Classic}
	case *group == "" || *group == "all":
		groups = arena.Groups()
	}
	rows, err := arena.Rows(groups...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := arena.Config{Rows: rows, Seeds: 10}
	switch {
	case *only != "":
		cfg.Seeds = *seeds
		cfg.Rows = slices.DeleteFunc(rows, func(r arena.Row) bool { return !strings.Contains(r.Name, *only) })
	case !*full:
		cfg.Seeds = 3
		cfg.Rows = slices.DeleteFunc(rows, func(r arena.Row) bool { return !slices.Contains(excerpt, r.Name) })
	}
	if len(cfg.Rows) == 0 {
		t.Fatalf("-only=%s: no row has such a name", *only)
	}
	all := arena.Policies()
	i := slices.IndexFunc(all, func(p arena.Policy) bool { return p.Name == "auto" })
	all[i].About += ": the pure core, as `weirlab arena` plays it"
	cfg.Policies = append(cfg.Policies, all[i])
	for _, c := range contenders {
		cfg.Policies = append(cfg.Policies, arena.Policy{Name: c.name, About: c.about})
	}
	return cfg
}

// play plays a cell. All that a contender does, from its birth, is inside the
// bubble.
func play(t *testing.T, cfg arena.Config, row, policy int, seed uint64) (cell arena.Cell) {
	var err error
	if policy == 0 {
		if cell, err = cfg.Play(row, policy, seed, func(s *sim.Sim) error {
			s.Until(cfg.Rows[row].Duration())
			return nil
		}); err != nil {
			t.Error(err)
		}
		return cell
	}
	c := contenders[policy-1]
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		h := newHost(ctx)
		cfg.Policies = slices.Clone(cfg.Policies)
		cfg.Policies[policy] = arena.Policy{Name: c.name, About: c.about, Guard: func(int) *sim.Guard {
			return &sim.Guard{Other: func() sim.Limiter { return h.replica(c.make()) }}
		}}
		if cell, err = cfg.Play(row, policy, seed, func(s *sim.Sim) error {
			h.play(s, cfg.Rows[row].Duration())
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	return cell
}

func TestArena(t *testing.T) {
	cfg := matrix(t)
	cells := make([][][]arena.Cell, len(cfg.Rows))
	t.Run("play", func(t *testing.T) {
		for i, row := range cfg.Rows {
			cells[i] = make([][]arena.Cell, len(cfg.Policies))
			for k, p := range cfg.Policies {
				cells[i][k] = make([]arena.Cell, cfg.Seeds)
				for seed := range cfg.Seeds {
					t.Run(fmt.Sprintf("%s/%s/%d", row.Name, p.Name, seed+1), func(t *testing.T) {
						t.Parallel()
						cells[i][k][seed] = play(t, cfg, i, k, uint64(seed)+1)
					})
				}
			}
		}
	})
	if t.Failed() {
		return
	}
	r := arena.Gather(cfg, cells)
	if *full || *only != "" {
		if err := r.Table(os.Stdout); err != nil {
			t.Error(err)
		}
		if err := r.Detail(os.Stdout); err != nil {
			t.Error(err)
		}
	}
	// What the arena says of the core is true of the shell. A few runs are not more
	// exact than near: goroutines share in any order what is one instant to the core,
	// and each run goes its own way from there. Several instances drift apart
	// altogether.
	near := 0.06
	if *full {
		near = 0.02
	}
	for i, line := range r.Matrix {
		if cfg.Rows[i].Instances() > 1 {
			continue
		}
		core, shell := line.Cells[0], line.Cells[1]
		if math.Abs(shell.Goodput-core.Goodput) > near || math.Abs(shell.Score-core.Score) > near {
			t.Errorf("%s: the shell gets %.3f of the oracle's goodput and a score of %.3f: want the %.3f and %.3f of the core, within %v",
				line.Row, shell.Goodput, shell.Score, core.Goodput, core.Score, near)
		}
	}
}
