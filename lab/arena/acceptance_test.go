//go:build !race

package arena

import (
	"bytes"
	"testing"
)

// What weir promises of Auto, in some million calls. What runs at once in the
// arena is tested by TestSameSeedsSameBytes, under the race detector too.
func TestAcceptance(t *testing.T) {
	r := matrix(t, 3, nil, nil)
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
