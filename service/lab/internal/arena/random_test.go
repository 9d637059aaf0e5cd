//go:build !race

package arena

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/pace"
)

// The same seed gives the same scenario, another seed another one.
func TestRandomIsDeterministic(t *testing.T) {
	texts := map[string]bool{}
	for seed := range uint64(2 * len(kinds)) {
		name, text, err := RandomYAML(seed, "")
		again, textAgain, _ := RandomYAML(seed, "")
		if err != nil || name != again || text != textAgain {
			t.Errorf("%d: %v, %s and %s:\n%s%s", seed, err, name, again, text, textAgain)
		}
		if texts[text] {
			t.Errorf("%s: has been drawn before:\n%s", name, text)
		}
		texts[text] = true
		rows, err := Random(seed, "")
		rowsAgain, _ := Random(seed, "")
		if want := 2 + 2*int((3-seed%3)/3); err != nil || len(rows) != want || !reflect.DeepEqual(rows, rowsAgain) {
			t.Errorf("%s: %v, %d rows: want the same %d", name, err, len(rows), want)
		}
		ofKind, kindText, err := RandomYAML(seed, kinds[seed%uint64(len(kinds))].name)
		if err != nil || ofKind != name || kindText != text {
			t.Errorf("%v: %s by its kind:\n%s: want %s:\n%s", err, ofKind, kindText, name, text)
		}
	}
	if _, err := Random(1, "x"); err == nil || !strings.Contains(err.Error(), `"x": must be one of plain, `) {
		t.Errorf("%v: want an error that names the kinds", err)
	}
}

// What every random scenario is: a service of the given range, in both modes.
func TestRandomBounds(t *testing.T) {
	names := map[string]bool{}
	for seed := range uint64(8 * len(kinds)) {
		rows, err := Random(seed, "")
		testrig.Must(t, err)
		kind := kinds[seed%uint64(len(kinds))].name
		for i, r := range rows[:2] {
			mode := []string{Proxy, Library}[i]
			sc := r.scenario
			l, c := sc.Layers[0], sc.Clients[0]
			rate, err := pace.Parse(c.Rate)
			testrig.Must(t, err)
			calls := 0.0
			for at := range 1000 {
				calls += rate.Rate(time.Duration(at)*sc.Duration/1000) * sc.Duration.Seconds() / 1000
			}
			calls *= float64(max(c.Retry.Attempts, 1))
			load := rate.Rate(sc.Duration/2) * r.forecast.Works(0) / r.forecast.Capacity(0)
			if r.Name != fmt.Sprintf("%d-%s/%s", seed, kind, mode) || r.Group != mode || l.Guard.Library != (i == 1) || !l.Guard.Blind ||
				l.ServiceTime.Mean < 2*ms || l.ServiceTime.Mean > 3*time.Second || l.ServiceTime.CV < 0.2 || l.ServiceTime.CV > 2 ||
				l.Workers < 2 || l.Workers > 1600 || l.Workers > 400 && kind != "contention" ||
				c.Timeout < 3900*time.Microsecond*time.Duration(l.ServiceTime.Mean/ms) || c.Timeout > 17*l.ServiceTime.Mean && kind != "bimodal" ||
				calls > 1.02*mostCalls || sc.Duration < 2400*ms || load < 0.2 || load > 2.52 || kind != "bimodal" && kind != "two-stations" && load < 0.59 {
				t.Errorf("%s: %d calls in %v at a load of %.3g: %+v %+v", r.Name, int(calls), sc.Duration, load, l, c)
			}
			if names[r.Name] {
				t.Errorf("%s: twice", r.Name)
			}
			names[r.Name] = true
		}
	}
}

// What the scenarios of the extra kinds are.
func TestRandomExtraKinds(t *testing.T) {
	routes, pools := map[int]bool{}, map[int]bool{}
	for seed := range uint64(30) {
		all, err := Random(3*seed, "")
		if err != nil || len(all) != 4 {
			t.Fatalf("%d: %d rows, %v", 3*seed, len(all), err)
		}
		kind := extra[seed%uint64(len(extra))].name
		if seed < uint64(len(extra)) {
			alone, err := Random(3*seed, kind)
			if err != nil || !reflect.DeepEqual(all[2:], alone) {
				t.Errorf("%d: %v: want the same %s with others and alone", 3*seed, err, kind)
			}
		}
		for i, r := range all[2:] {
			sc := r.scenario
			g, c, rate := sc.Layers[0].Guard, sc.Clients[0], 0.0
			if _, err := fmt.Sscan(c.Rate, &rate); err != nil {
				t.Fatal(err)
			}
			load := rate * r.forecast.Works(0) / r.forecast.Capacity(0)
			ok := r.Group == kind && g.Library == (i == 1) && g.Blind && load > 0.49 && load < 3.02 && sc.Duration > 2*time.Second
			switch kind {
			case "patience":
				ok = ok && c.TimeoutCV >= 0.2 && c.TimeoutCV <= 2 && c.Timeout > sc.Layers[0].ServiceTime.Mean
			case "stalls":
				s := g.Stalls
				share := s.For.Seconds() / s.Every.Seconds()
				ok = ok && s.Random && s.For >= 5*ms && s.For <= 200*ms && share > 0.029 && share < 0.41
			case Street:
				routes[len(c.Mix)], pools[len(sc.Layers)-1] = true, true
				ok = ok && g.Instances.Count() == len(c.Mix) && c.Timeout >= 200*ms && c.Timeout <= 30*time.Second &&
					float64(sc.Duration) > 3.9*float64(c.Timeout)*min(1, 0.2*mostCalls/(rate*sc.Duration.Seconds())) && c.Retry.Attempts >= 1 && c.Retry.Attempts <= 3
			}
			if !ok {
				t.Errorf("%s: %v at a load of %.3g: %+v, %+v", r.Name, sc.Duration, load, *g, c)
			}
		}
	}
	if len(routes) > 5 || !routes[2] || !routes[6] || len(pools) > 3 || !pools[1] || !pools[3] {
		t.Errorf("streets of %v routes and %v pools: want 2 to 6, and 1 to 3", routes, pools)
	}
}

// Random rows are played as the others are.
func TestPlayRandom(t *testing.T) {
	rows, err := Random(7, "")
	testrig.Must(t, err)
	cfg := Config{Rows: rows, Seeds: 1}
	for _, p := range Policies() {
		if p.Name == "auto" || p.Name == "static-knee" {
			cfg.Policies = append(cfg.Policies, p)
		}
	}
	var tables [2]bytes.Buffer
	for i := range tables {
		r, err := Run(t.Context(), cfg, new(atomic.Int64))
		testrig.Must(t, err)
		testrig.Must(t, r.CompareTable(&tables[i], "auto"))
	}
	text := tables[0].String()
	for _, want := range []string{"7-failures/proxy", "7-failures/library", "auto / best", "below 0.8"} {
		if !strings.Contains(text, want) || text != tables[1].String() {
			t.Errorf("want %q, twice the same:\n%s\n%s", want, text, tables[1].String())
		}
	}
}

// A policy is compared with the best of the others, those outside included.
func TestCompare(t *testing.T) {
	line := func(row, group string, goodputs ...float64) Line {
		l := Line{Row: row, Group: group}
		for i, rps := range goodputs {
			l.Cells = append(l.Cells, Cell{Policy: []string{"mine", "other", "told"}[i], GoodputRPS: rps, Goodput: rps / 100})
		}
		return l
	}
	r := Result{policies: []Policy{{Name: "mine"}, {Name: "other"}, {Name: "told", Outside: true}}, Matrix: []Line{
		line("1/a", "a", 90, 100, 50), line("1/b", "b", 90, 45, 30), line("2/a", "a", 30, 20, 60), line("3/a", "a", 1, 0, 0)}}
	c := r.Compare("mine")
	if want := []Mode{{"a", 3, (0.9 + 0.5 + 1) / 3, 1, 0.5, "2/a"}, {"b", 1, 1, 0, 2, "1/b"}}; len(c.Modes) != 2 ||
		math.Abs(c.Modes[0].Share-want[0].Share) > 1e-9 || c.Modes[0].Below != 1 || c.Modes[0].In != "2/a" || c.Modes[1] != want[1] {
		t.Errorf("%+v: want %+v", c.Modes, want)
	}
	for i, want := range []Share{{"1/a", "a", 0.9, "other", 0.9}, {"2/a", "a", 0.5, "told", 0.3}, {"3/a", "a", 1, "", 0.01}, {"1/b", "b", 2, "other", 0.9}} {
		if c.Cells[i] != want {
			t.Errorf("%+v: want %+v", c.Cells[i], want)
		}
	}
	// Routes differ in cost.
	street := line("3/street", Street, 90, 100, 50)
	street.Cells[0].Work, street.Cells[1].Work = 0.8, 0.4
	r.Matrix = []Line{street}
	if got := r.Compare("mine").Cells[0]; got.Share != 2 || got.Best != "other" {
		t.Errorf("%+v: want a share of the work", got)
	}
}
