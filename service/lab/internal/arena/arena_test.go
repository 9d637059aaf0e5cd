//go:build !race

package arena

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/sim"
)

func TestTables(t *testing.T) {
	r := matrix(t, 1, []string{"steady", "failover"}, []string{"none", "static-knee", "auto"})
	text := string(written(t, r))
	for _, want := range []string{"seed 1, guards do not see", "never in 1", "static-knee *", "* is told the knee", "Backend failover (failover, knee 20",
		"inflight.Config{}", "<svg", "Steady, 0.8×", "framed: the best of the row", `"leaderboard":[{"policy":"`} {
		if !strings.Contains(text, want) {
			t.Errorf("what was written lacks %q:\n%.3000s", want, text)
		}
	}
	if text := string(written(t, matrix(t, 1, []string{"low-traffic"}, []string{"none"}))); strings.Contains(text, "told the knee") || strings.Contains(text, "loses") {
		t.Errorf("one cell: %s", text)
	}
}

// The table says where the leader is beaten, and by what; a policy outside does
// not beat it.
func TestLosses(t *testing.T) {
	named := func(policy string, c Cell) Cell {
		c.Policy = policy
		c.Recovery, c.Reject, c.Fairness = 1, 1, 1
		c.total()
		return c
	}
	r := Result{Seeds: 1, policies: []Policy{{Name: "mine"}, {Name: "other"}, {Name: "told", Outside: true}}}
	for _, line := range []struct{ mine, other Cell }{
		{Cell{Goodput: 0.9, Latency: 1}, Cell{Goodput: 1, Latency: 0.9}},
		{Cell{Goodput: 1, Latency: 1}, Cell{}},
	} {
		r.Matrix = append(r.Matrix, Line{Row: "row", Cells: []Cell{named("mine", line.mine), named("other", line.other), named("told", Cell{Goodput: 1, Latency: 1})}})
	}
	r.Standings = r.standings()
	var table bytes.Buffer
	testrig.Must(t, r.Table(&table))
	_, losses, _ := strings.Cut(table.String(), "\nmine loses")
	losses, _, _ = strings.Cut(losses, "\n\n")
	if lines := strings.Split(losses, "\n"); len(lines) != 2 || strings.Join(strings.Fields(lines[1]), " ") != "row other 0.060 goodput 0.070" {
		t.Errorf("%q: want one loss\n%s", losses, table.String())
	}
}

// Cells that are played one by one, and gathered, equal the cells of Run.
func TestPlay(t *testing.T) {
	rows, err := Rows(Classic)
	testrig.Must(t, err)
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == "small" })
	cfg := Config{Rows: rows[i : i+1], Seeds: 2, Policies: []Policy{{Name: "mine", About: "three at a time", Guard: times(1.5)}}}
	want, err := Run(t.Context(), cfg, new(atomic.Int64))
	testrig.Must(t, err)
	cells := [][][]Cell{{make([]Cell, cfg.Seeds)}}
	for seed := range cfg.Seeds {
		if cells[0][0][seed], err = cfg.Play(0, 0, uint64(seed)+1, func(s *sim.Sim) error {
			s.Until(cfg.Rows[0].Duration())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := Gather(cfg, cells); !bytes.Equal(written(t, got), written(t, want)) {
		t.Errorf("%+v: want %+v", got, want)
	}
}

func TestRunErrors(t *testing.T) {
	rows, err := Rows(Classic)
	testrig.Must(t, err)
	full := Config{Policies: Policies(), Rows: rows, Seeds: 1}
	for what, change := range map[string]func(*Config){
		"Policies": func(c *Config) { c.Policies = nil },
		"Rows":     func(c *Config) { c.Rows = nil },
		"Seeds":    func(c *Config) { c.Seeds = 0 },
	} {
		cfg := full
		change(&cfg)
		if _, err := Run(t.Context(), cfg, new(atomic.Int64)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v: want an error that names it", what, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Run(ctx, full, new(atomic.Int64)); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
