package main

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

const unit = time.Millisecond

func TestServerKeepsItsSchedule(t *testing.T) {
	s := server{services: []time.Duration{2 * unit, 3 * unit, 4 * unit}}
	ended := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	check := func(at time.Duration, jobs []<-chan struct{}, want ...bool) {
		t.Helper()
		s.tick(at)
		for i, c := range jobs {
			if ended(c) != want[i] {
				t.Errorf("at %v: job %d has ended: %v: want %v", at, i, !want[i], want[i])
			}
		}
	}
	s.tick(5 * unit)
	jobs := []<-chan struct{}{s.join(10 * unit), s.join(10 * unit)} // 10 to 12, 12 to 15
	check(12*unit-1, jobs, false, false)
	check(14*unit, jobs, true, false) // two late
	check(15*unit-1, jobs, true, false)
	check(15*unit, jobs, true, true) // which are made good
	jobs = append(jobs, s.join(20*unit))
	check(24*unit-1, jobs, true, true, false)
	check(24*unit, jobs, true, true, true)
}

func TestBest(t *testing.T) {
	s := script{
		length:   10 * unit,
		arrivals: []time.Duration{0, 1 * unit, 7 * unit, 8 * unit},
		services: []time.Duration{2 * unit, 2 * unit, 3 * unit, 1 * unit}, // until 2, 4, 10, 11
	}
	if got := s.best(); got != 3 {
		t.Errorf("done at the end: %d: want 3", got)
	}
	if got := (script{length: unit}).best(); got != 0 {
		t.Errorf("done of nothing: %d", got)
	}
}

func TestScript(t *testing.T) {
	const seconds = 100
	s := newScript(pair{1000, 500}, seconds*time.Second, rand.New(rand.NewPCG(1, 2)))
	if n := len(s.arrivals); n < 98_000 || n > 102_000 || n != len(s.services) {
		t.Errorf("%d arrivals, %d services in %d s: want about 100,000", n, len(s.services), seconds)
	}
	if !slices.IsSorted(s.arrivals) || s.arrivals[len(s.arrivals)-1] >= s.length {
		t.Error("arrivals not in order, or beyond the end")
	}
	if best := s.best(); best < 49_000 || best > 51_000 {
		t.Errorf("at best %d done in %d s: want about 50,000", best, seconds)
	}
}

func TestFigures(t *testing.T) {
	s := script{length: 2 * time.Second, arrivals: make([]time.Duration, 4), services: make([]time.Duration, 4)}
	var y tally
	y.end(0, 10*unit, s.length, true)
	y.end(0, 30*unit, s.length, true)
	y.end(100*unit, 1101*unit, s.length, true)           // too late for the caller
	y.end(1990*unit, s.length+5*unit, s.length, true)    // after the end
	y.end(0, 7*unit, s.length, false)                    // rejected
	want := figures{2.5, 1.5, 50, 15, 1001, 1001, 20, 7} // done after 10, 15, 30, 1001 ms; 4 at best
	if got := y.figures(s); got != want {
		t.Errorf("%v: want %v", got, want)
	}
	if got := new(tally).figures(script{length: time.Second}); got != (figures{}) {
		t.Errorf("of nothing: %v", got)
	}
}

func TestMedians(t *testing.T) {
	got := medians([]figures{{3, 10}, {1, 30}, {2, 20}})
	if want := (figures{2, 20}); got != want {
		t.Errorf("%v: want %v", got, want)
	}
}

func TestParsePairs(t *testing.T) {
	for _, c := range []struct {
		list string
		want []pair
	}{
		{"", sources},
		{"1000/500", []pair{{1000, 500}}},
		{"1/2,3/4", []pair{{1, 2}, {3, 4}}},
		{"1000", nil}, {"1/0", nil}, {"-1/5", nil}, {"1/5001", nil}, {"1/2/3", nil}, {"1/2,", nil}, {"1/2x", nil},
	} {
		got, err := parsePairs(c.list)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v, %v: want %v", c.list, got, err, c.want)
		}
	}
}

// inBubble plays a script in virtual time: the clock stands still until all
// goroutines wait.
func inBubble(t *testing.T, s script) (all []figures) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tallies, lag, err := play(s, func() { time.Sleep(50 * time.Microsecond) })
		testrig.Must(t, err)
		if len(lag) != len(s.arrivals) || lag[len(lag)-1] > 50*time.Microsecond {
			t.Errorf("%d of %d requests, up to %v late", len(lag), len(s.arrivals), lag[len(lag)-1])
		}
		for i, y := range tallies {
			if n := len(y.done) + len(y.rejected); n != len(s.arrivals) {
				t.Errorf("%s: the fate of %d of %d requests is known", contenders[i].name, n, len(s.arrivals))
			}
			if y.good > y.served || y.served > len(y.done) || y.served > s.best() {
				t.Errorf("%s: %d good of %d done in time, of %d done; at best %d", contenders[i].name,
					y.good, y.served, len(y.done), s.best())
			}
			all = append(all, y.figures(s))
		}
	})
	return all
}

var all = flag.Bool("all", false, "TestRows plays all rows of the source")

// inVirtualTime returns the medians of a row over three seeds, by contender.
func inVirtualTime(t *testing.T, p pair) map[string]figures {
	t.Helper()
	runs := make([][]figures, len(contenders))
	for seed := range uint64(3) {
		s := newScript(p, 10*time.Second, rand.New(rand.NewPCG(1, seed)))
		for i, f := range inBubble(t, s) {
			runs[i] = append(runs[i], f)
		}
	}
	row := map[string]figures{}
	for i, c := range contenders {
		row[c.name] = medians(runs[i])
		t.Logf("%d/%d %-16s %6.1f", p.in, p.out, c.name, row[c.name])
	}
	return row
}

// In virtual time the table of the source is free of a machine's noise. In the
// published row the drop-in is at least as fast as the source's lock in the same
// run, and as what the source published, at the same target and interval. So is
// inflight at half the interval. In no row is the drop-in more than 12 % behind.
func TestRows(t *testing.T) {
	const goodput, p50, p95, p99 = 2, 3, 4, 5
	pairs := []pair{{1000, 500}}
	if *all {
		pairs = sources
	}
	for _, p := range pairs {
		row := inVirtualTime(t, p)
		peer := row["bohde/codel"]
		for _, i := range []int{p50, p95, p99} {
			if mine := row["weir/codel"][i]; mine > 1.12*peer[i] {
				t.Errorf("%v, %s: %.1f: the peer's is %.1f", p, headings[i], mine, peer[i])
			}
		}
		if mine := row["weir/codel"][goodput]; mine < peer[goodput]-1 {
			t.Errorf("%v: goodput %.1f: the peer's is %.1f", p, mine, peer[goodput])
		}
		if p != (pair{1000, 500}) {
			continue
		}
		for _, name := range []string{"weir/codel", "weir, 10, I/2"} {
			weir := row[name]
			if weir[goodput] < 98 || weir[p50] > 28 || weir[p95] > 44 || weir[p99] > 63 {
				t.Errorf("%s: goodput and latencies are %v: want at least 98 %%, and 28, 44 and 63 ms at most", name, weir)
			}
			for _, i := range []int{p50, p95, p99} {
				if weir[i] > peer[i] {
					t.Errorf("%s, %s: %.1f: the peer's is %.1f", name, headings[i], weir[i], peer[i])
				}
			}
		}
	}
}

func TestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		rest := func() { time.Sleep(50 * time.Microsecond) }
		testrig.Must(t, table(&out, []pair{{1000, 500}}, time.Second, 2, 1, rest))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2+len(contenders) || !strings.HasPrefix(lines[0], "1000/500, 1s, runs: 2;") {
			t.Errorf("want a line of its own, the headings, and one for each contender:\n%s", out.String())
		}
	})
}
