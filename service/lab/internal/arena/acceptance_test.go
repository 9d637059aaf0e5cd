//go:build !race

package arena

import (
	"bytes"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
)

// What weir promises of Auto, in some million calls. What runs at once in the
// arena is tested by TestSameSeedsSameBytes, under the race detector too.
func TestAcceptance(t *testing.T) { acceptance(t, 1) }

func acceptance(t *testing.T, seeds int) {
	r := matrix(t, seeds, nil, nil)
	auto := r.column("auto")
	if leader := r.leader(); leader != auto {
		t.Errorf("%s has the best mean score", r.policies[leader].Name)
	}
	for _, st := range r.Standings {
		if st.Policy != "auto" {
			continue
		}
		if st.Goodput < 0.95 || st.WorstShare < 0.85 {
			t.Errorf("goodput: %.3f of the oracle's on average, %.3f in %s: want 0.95 and 0.85", st.Goodput, st.WorstShare, st.ShareIn)
		}
	}
	for _, line := range r.Matrix {
		mine := line.Cells[auto]
		if best := line.Cells[r.best(line, auto)]; mine.Score < 0.9*best.Score {
			t.Errorf("%s: %.3f: want 90 %% of the %.3f of %s", line.Row, mine.Score, best.Score, best.Policy)
		}
		if mine.Recovers && (!mine.Recovered || mine.RecoveredIn > mine.InTime) {
			t.Errorf("%s: recovered %v in %v: want it within %v", line.Row, mine.Recovered, mine.RecoveredIn, mine.InTime)
		}
	}
	if t.Failed() {
		var table bytes.Buffer
		_ = r.Table(&table)
		t.Log("\n" + table.String())
	}
}

// TestAcceptanceStreet checks what weir promises of Auto where routes share a database and
// clients leave. Where several routes share it and clients, or a third of them, leave after
// half a second, of which the dearest needs two fifths, single runs fall through: they have half
// of the work, and count in the mean.
func TestAcceptanceStreet(t *testing.T) { acceptanceStreet(t, 1) }

func acceptanceStreet(t *testing.T, seeds int) {
	rows, err := Rows(Street)
	testrig.Must(t, err)
	cfg := Config{Seeds: seeds, Rows: rows}
	for _, p := range Policies() {
		if p.Name == "auto" {
			cfg.Policies = append(cfg.Policies, p)
		}
	}
	r, err := Run(t.Context(), cfg, new(atomic.Int64))
	testrig.Must(t, err)
	sum := 0.0
	for _, line := range r.Matrix {
		c := line.Cells[0]
		file, variant, _ := strings.Cut(line.Row, "/")
		hasty := strings.HasPrefix(variant, "500 ms") && file != "queries" && file != "mixture" || variant == "1 s/callers differ"
		least, even := 0.8, 0.6
		switch {
		case hasty:
			least, even = 0.5, 0
		case file == "idle": // a limit that drifts away has 0.95 at most
			least = 0.97
		}
		if sum += c.Goodput; c.WorstShare < least || c.Fairness < even {
			t.Errorf("%s: %.3f of the oracle's work, evenness of the routes %.3f: want %v and %v", line.Row, c.WorstShare, c.Fairness, least, even)
		}
	}
	if mean := sum / float64(len(rows)); len(rows) < 30 || mean < 0.95 {
		t.Errorf("%.3f of the oracle's work in %d rows: want 0.95 in 30 at least", mean, len(rows))
	}
}

// TestAcceptanceProduction checks what weir promises of Auto in production: faults that
// are not load, outages, a service with a queue, and several
// instances.
func TestAcceptanceProduction(t *testing.T) { acceptanceProduction(t, 1) }

func acceptanceProduction(t *testing.T, seeds int) {
	all, err := Rows(Production)
	testrig.Must(t, err)
	promises := []struct {
		rows    *regexp.Regexp
		goodput float64 // share of the oracle's, in the worst run
	}{
		{regexp.MustCompile(`^background/.*/(5|10|12\.5|20|30|50) %$`), 0.95},
		{regexp.MustCompile(`^outage/.*/refuses `), 0.95},
		{regexp.MustCompile(`^own-queue/`), 0.9},
		{regexp.MustCompile(`^instances/(lognormal|exponential)/500ms/8$`), 0.95},
	}
	var wants []float64
	cfg := Config{Seeds: seeds}
	for _, row := range all {
		for _, p := range promises {
			if p.rows.MatchString(row.Name) {
				cfg.Rows, wants = append(cfg.Rows, row), append(wants, p.goodput)
			}
		}
	}
	for _, p := range Policies() {
		if p.Name == "auto" {
			cfg.Policies = append(cfg.Policies, p)
		}
	}
	r, err := Run(t.Context(), cfg, new(atomic.Int64))
	testrig.Must(t, err)
	if len(r.Matrix) != 12+6+6+2 {
		t.Errorf("%d rows: a promise has lost its rows", len(r.Matrix))
	}
	for i, line := range r.Matrix {
		if got := line.Cells[0].WorstShare; got < wants[i] {
			t.Errorf("%s: goodput %.3f of the oracle's: want %v", line.Row, got, wants[i])
		}
	}
}
