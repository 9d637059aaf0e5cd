//go:build !race

package incident

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestTraining(t *testing.T) {
	seeds, _ := strconv.Atoi(os.Getenv("SEEDS"))
	type tally struct{ right, near, all int }
	sum := map[string]*tally{}
	first, _ := strconv.Atoi(os.Getenv("FIRST"))
	for seed := uint64(first); seed < uint64(first+max(seeds, 2)); seed++ {
		for _, tr := range trainings(seed) {
			f := tr.rec(t)
			begun := time.Now()
			var said []string
			debug = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
			got := Find(f)
			took := time.Since(begun)
			s := sum[tr.name]
			if s == nil {
				s = &tally{}
				sum[tr.name] = s
			}
			s.all++
			late := tr.lateness(got)
			right := got.Cause == tr.cause || slices.Contains(got.Also, tr.cause)
			near := tr.cause == None || late.Abs() <= 5*time.Second
			if right {
				s.right++
			}
			if right && near {
				s.near++
			}
			if !right || !near {
				t.Logf("%d %s: %s %v, %.1f s late; %d records, %v: workers %d %v %s cv %v limited %v callers %v timeout %v", seed, tr.name, got.Cause, got.Also, late.Seconds(), len(f.Records), took, tr.workers, tr.routes[0].mean, tr.routes[0].law, tr.routes[0].cv, tr.limited, tr.callers, tr.timeout)
				t.Logf("    %q", said)
			}
		}
	}
	for name, s := range sum {
		t.Logf("%-20s %d of %d, %d near", name, s.right, s.all, s.near)
	}
}
