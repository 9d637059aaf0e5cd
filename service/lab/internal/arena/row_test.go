//go:build !race

package arena

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/sim"
)

var update = flag.Bool("update", false, "write Auto's guard into the scenario files")

// What every file must have: a line about itself, a place for the policies with
// the guard of inflight.Config{} there, and something to gain.
func TestRows(t *testing.T) {
	if *update {
		writeGuards(t)
	}
	for _, group := range Groups() {
		rows, err := Rows(group)
		testrig.Must(t, err)
		names, files := map[string]bool{}, []string{}
		for _, r := range rows {
			if names[r.Name] || r.Group != group {
				t.Errorf("%s, of the group %q: want each name once, in its group", r.Name, r.Group)
			}
			names[r.Name] = true
			file, _, variant := strings.Cut(r.Name, "/")
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
			checkRow(t, r)
			if path := filepath.Join("../../scenarios/arena", map[string]string{Production: Production, Street: Street, Search: Search}[group], file+".yaml"); variant != (group != Classic) {
				t.Errorf("%s: want variants in each group but the classic", r.Name)
			} else if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "# ") {
				t.Errorf("%s: %v: want a file that begins with what it shows", r.Name, err)
			}
		}
		if !slices.Equal(files, order[group]) {
			t.Errorf("%q: want the order to name each: %q", files, order[group])
		}
	}
	if rows, err := Rows(Classic); err != nil || len(rows) != len(order[Classic]) {
		t.Errorf("%d rows, %v: want the classic ones", len(rows), err)
	}
}

func checkRow(t *testing.T, r Row) {
	guards := 0
	for _, l := range r.scenario.Layers {
		if l.Guard == nil {
			continue
		}
		guards++
		want := sim.Auto()
		want.Blind, want.Instances, want.Library = true, l.Guard.Instances, l.Guard.Library
		want.Stalls = l.Guard.Stalls
		if !*update && !reflect.DeepEqual(l.Guard, want) {
			t.Errorf("%s: the guard is %+v: want that of inflight.Config{}, %+v: go test ./internal/arena -run TestRows -update", r.Name, *l.Guard, *want)
		}
	}
	if guards == 0 || r.knee < 1 || r.deadline == never || r.service <= 0 || r.Title == "" || r.scenario.Warmup != 0 {
		t.Errorf("%s: %+v", r.Name, r)
	}
	sc := r.with(Policies()[0], 1, false)
	sc.Duration = min(5*time.Second, 1000*r.service)
	if got, err := sim.Run(t.Context(), sc, nil, nil); err != nil || got.Oracle <= 0 {
		t.Errorf("%s: an oracle of %v, %v", r.Name, got.Oracle, err)
	}
}

func writeGuards(t *testing.T) {
	g := sim.Auto()
	line := fmt.Sprintf("guard: {limit: auto, queue: %d, max_wait: %v, discipline: %v, target: %v, interval: %v, blind: true}",
		g.Queue, g.MaxWait, g.Discipline, g.Target, g.Interval)
	files, err := filepath.Glob("../../scenarios/arena/*.yaml")
	testrig.Must(t, err)
	more, err := filepath.Glob("../../scenarios/arena/*/*.yaml")
	testrig.Must(t, err)
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		testrig.Must(t, err)
		text = regexp.MustCompile(`guard: \{.*\}`).ReplaceAll(text, []byte(line))
		testrig.Must(t, os.WriteFile(name, text, 0o666))
	}
}

// What follows from a file: where the knee is, when overload ends, how long a
// caller waits.
func TestDerived(t *testing.T) {
	rows, err := Rows(Classic)
	testrig.Must(t, err)
	for name, want := range map[string]struct {
		knee             int
		relief, deadline time.Duration
	}{
		"steady":        {20, never, 500 * ms},
		"overload":      {20, never, 500 * ms},
		"step-5x":       {20, 40 * time.Second, 500 * ms},
		"ramp":          {20, 40 * time.Second, 500 * ms},
		"bursts":        {20, never, 500 * ms},
		"retry-storm":   {20, 30 * time.Second, 2 * time.Second},
		"slowdown":      {20, 40 * time.Second, 500 * ms},
		"slowdown-full": {20, 40 * time.Second, 500 * ms},
		"failover":      {20, 40 * time.Second, 500 * ms},
		"gc-pause":      {20, never, 500 * ms},
		"mixed":         {20, never, time.Second},
		"contention":    {44, never, 500 * ms},
		"layers":        {26, 40 * time.Second, 500 * ms},
		"small":         {2, never, 500 * ms},
		"large":         {200, never, 500 * ms},
	} {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
		if r := rows[i]; r.knee != want.knee || r.relief != want.relief || r.deadline != want.deadline {
			t.Errorf("%s: knee %d, relief %v, deadline %v: want %+v", name, r.knee, r.relief, r.deadline, want)
		}
	}
}

// A policy stands wherever the file has a guard, and nowhere else.
func TestWith(t *testing.T) {
	rows, err := Rows(Classic)
	testrig.Must(t, err)
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == "layers" })
	for _, p := range Policies() {
		sc := rows[i].with(p, 7, false)
		for k, l := range sc.Layers {
			if (l.Guard != nil) != (k == 0 && p.Name != "none") || l.Guard != nil && !l.Guard.Blind {
				t.Errorf("%s: layer %d has the guard %+v", p.Name, k, l.Guard)
			}
		}
		if g := rows[i].with(p, 7, true).Layers[0].Guard; g != nil && g.Blind {
			t.Errorf("%s is blind, though guards are to see deadlines", p.Name)
		}
		if err := sc.Validate(); err != nil || sc.Seed != 7 {
			t.Errorf("%s: %v, seed %d", p.Name, err, sc.Seed)
		}
	}
	if rows, err = Rows(Search); err != nil || rows[0].scenario.Layers[0].Guard.Stalls == (sim.Stalls{}) {
		t.Fatalf("%v: want a guard that stalls", err)
	}
	for _, p := range Policies() {
		if g := rows[0].with(p, 7, false).Layers[0].Guard; g != nil && g.Stalls != rows[0].scenario.Layers[0].Guard.Stalls {
			t.Errorf("%s has the stalls %+v: want those of the file", p.Name, g.Stalls)
		}
	}
	for name, want := range map[string]int{"static-under": 13, "static-knee": 26, "static-over": 104, "codel": 10, "codel-knee": 26} {
		p := Policies()[slices.IndexFunc(Policies(), func(p Policy) bool { return p.Name == name })]
		if got := p.Guard(26).Limit.N; got != want {
			t.Errorf("%s: a limit of %d at a knee of 26: want %d", name, got, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	const good = "name: x\nduration: 1s\nlayers: [{name: a, workers: 1, service_time: {mean: 1ms}, guard: {limit: auto}}]\nclients: [{name: b, rate: 1, timeout: 1s}]\n"
	if rows, err := Read(fstest.MapFS{"x.yaml": {Data: []byte(good)}, "y.txt": {}}, Classic); err != nil || len(rows) != 1 || rows[0].Name != "x" {
		t.Errorf("%+v, %v", rows, err)
	}
	for was, now := range map[string]string{
		", guard: {limit: auto}": "",
		"workers":                "workres",
	} {
		_, err := Read(fstest.MapFS{"x.yaml": {Data: []byte(strings.Replace(good, was, now, 1))}}, Classic)
		if err == nil || !strings.Contains(err.Error(), "x.yaml") {
			t.Errorf("%q for %q: %v: want an error that names the file", now, was, err)
		}
	}
}
