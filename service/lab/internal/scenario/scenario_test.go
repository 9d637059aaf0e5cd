package scenario_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/fleet"
	"github.com/weir-go/weir/service/lab/internal/scenario"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

const base = `# A comment.
name: base
duration: 10s
layers:
  - name: service
    workers: 7
    service_time: {mean: 2s, distribution: lognormal, cv: 0.5}
    changes:
      - {at: 5s, slowdown: 2}
clients:
  - name: users
    rate: 5
    timeout: 2.5s
    priority: sheddable
`

func TestParse(t *testing.T) {
	f, err := scenario.Parse("a.yaml", []byte(base))
	testrig.Must(t, err)
	sc := f.Figures[0][0]
	l, c := sc.Layers[0], sc.Clients[0]
	if sc.Name != "" || f.Scenario.Name != "base" || sc.Duration != 10*time.Second || l.Workers != 7 || l.ServiceTime.CV != 0.5 ||
		*l.Changes[0].Slowdown != 2 || c.Rate != "5" || c.Timeout != 2500*time.Millisecond || c.Priority != -2 || l.Guard != nil {
		t.Errorf("%+v", sc)
	}
}

func TestLimits(t *testing.T) {
	for in, want := range map[string]string{"7": "fixed", "none": "none", "aimd": "aimd", "{name: aimd, initial: 5}": "aimd",
		"{name: fixed, n: 3}": "fixed", "{name: vegas, window: true}": "vegas", "auto": "auto", "gradient2": "gradient2",
		"{name: fixed, n: 7, slow_start: 2m}": "fixed", "{name: auto, slow_start: {idle: 2m, initial: 1}}": "auto"} {
		f, err := scenario.Parse("a.yaml", []byte(base+"variants: [{name: x, set: {layers.service.guard.limit: "+in+"}}]\n"))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got := f.Figures[0][0].Layers[0].Guard.Limit
		if got.Name != want || want == "fixed" && !strings.Contains(in, strconv.Itoa(got.N)) || got.Name == "aimd" && got.AIMD.Initial != 5*strings.Count(in, "5") ||
			got.Window != (got.Name == "vegas") || strings.Contains(in, "slow_start") != (got.SlowStart != nil && got.SlowStart.Idle == 2*time.Minute) ||
			strings.Contains(in, "initial: 1") != (got.SlowStart != nil && got.SlowStart.Initial == 1) {
			t.Errorf("%s: %+v: want %s", in, got, want)
		}
	}
}

// A variant changes some fields, and leaves the base alone.
func TestVariants(t *testing.T) {
	f, err := scenario.Parse("a.yaml", []byte(base+`variants:
  - name: plain
  - name: limited
    set:
      layers.service.guard.limit: 5
      layers.service.guard.queue: 9
      clients.users.rate: 1..2@5s
      duration: 20s
      layers.service.changes: []
`))
	testrig.Must(t, err)
	plain, limited := f.Figures[0][0], f.Figures[0][1]
	if plain.Name != "plain" || plain.Layers[0].Guard != nil || plain.Clients[0].Rate != "5" || len(plain.Layers[0].Changes) != 1 {
		t.Errorf("%+v", plain)
	}
	g := limited.Layers[0].Guard
	if g == nil || g.Limit.N != 5 || g.Queue != 9 || limited.Clients[0].Rate != "1..2@5s" || limited.Duration != 20*time.Second ||
		len(limited.Layers[0].Changes) != 0 {
		t.Errorf("%+v", limited)
	}
}

// A matrix is a figure for each combination of all lists but the last.
func TestMatrix(t *testing.T) {
	f, err := scenario.Parse("a.yaml", []byte(base+`matrix:
  - [{name: slow, set: {clients.users.rate: 1}}, {name: fast, set: {clients.users.rate: 9}}]
  - [{name: few, set: {layers.service.workers: 1}}, {name: many, set: {layers.service.workers: 9}}]
`))
	testrig.Must(t, err)
	if len(f.Figures) != 2 || f.Titles[1] != "base, fast" || f.Figures[1][0].Name != "few" ||
		f.Figures[1][0].Clients[0].Rate != "9" || f.Figures[1][1].Layers[0].Workers != 9 || f.Figures[0][1].Clients[0].Rate != "1" {
		t.Errorf("%q %+v", f.Titles, f.Figures)
	}
}

// What is wrong is said with its place and what would be right.
func TestErrors(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{
		{"an unknown field", strings.Replace(base, "workers:", "wrokers:", 1), "a.yaml:6:5: layers[0].wrokers: unknown field; known are attempts, bad_pods, calls"},
		{"a duration without a unit", strings.Replace(base, "10s", "10", 1), "a.yaml:3:11: duration = 10: want a duration with its unit"},
		{"a word for a number", strings.Replace(base, "workers: 7", "workers: many", 1), "a.yaml:6:14: layers[0].workers = many: want a whole number"},
		{"a field given twice", base + "name: again\n", "a.yaml:15:"},
		{"a value out of range", strings.Replace(base, "cv: 0.5", "cv: 50", 1), "a.yaml:7:59: layers[0].service_time.cv = 50: must be in (0, 10]"},
		{"what is missing is said of what holds it", strings.Replace(base, "    rate: 5\n", "", 1), "a.yaml:11:"},
		{"a bad rate", strings.Replace(base, "rate: 5", "rate: fast", 1), `a.yaml:12:11: clients[0].rate = "fast"`},
		{"an unknown priority", strings.Replace(base, "sheddable", "vip", 1), `a.yaml:14:15: clients[0].priority = "vip": must be sheddable`},
		{"an unknown limit", base + "variants: [{name: x, set: {layers.service.guard.limit: magic}}]\n", "must be a whole number or one of none, fixed, aimd"},
		{"a field of another limit", base + "variants: [{name: x, set: {layers.service.guard.limit: {name: aimd, probe: 1}}}]\n", `limit.probe: unknown field of the limit "aimd"`},
		{"a variant of nothing", base + "variants: [{name: x, set: {layers.database.workers: 1}}]\n", `a.yaml:15:28: set layers.database.workers: there is no "database"`},
		{"a variant that is out of range says so", base + "variants: [{name: x, set: {layers.service.workers: -1}}]\n", `a.yaml:15:52: layers[0].workers = -1: must be in [0, 1000000]; 0 is as many as come (in the variant "x")`},
		{"a variant without a name", base + "variants: [{set: {duration: 1s}}]\n", "variants[0].name: must be given"},
		{"variants that are no list", base + "variants: all\n", "variants: want a list of variants"},
		{"a list where fields belong", "name: x\nlayers: {a: b}\n", "layers: want a list"},
		{"fields where a list belongs", strings.Replace(base, "{mean: 2s, distribution: lognormal, cv: 0.5}", "[2s]", 1), "layers[0].service_time: want fields"},
		{"not YAML", "name: [", "a.yaml:1:"},
		{"instances that are no number", base + "variants: [{name: x, set: {layers.service.guard: {limit: auto, instances: many}}}]\n", "guard.instances = many: want a whole number"},
		{"less than no instances", base + "variants: [{name: x, set: {layers.service.guard: {limit: auto, instances: -1}}}]\n", "guard.instances[0].count = -1: must be in [0, 1000]"},
		{"no such discipline", base + "variants: [{name: x, set: {layers.service.guard: {limit: auto, discipline: lifo}}}]\n", "guard.discipline = lifo: must be one of [\"fifo\""},
		{"an instance of another class", base + "variants: [{name: x, set: {layers.service.guard: {limit: auto, instances: [{classes: [b]}]}}}]\n", "instances[0].classes = \"b\": no client has calls of this class"},
		{"a time that is none", strings.Replace(base, "workers: 7", "refuse_after: soon", 1), "a.yaml:6:19: layers[0].refuse_after = soon: want a duration with its unit"},
		{"more than all hang", strings.Replace(base, "workers: 7", "hang_rate: 1.5", 1), "a.yaml:6:16: layers[0].hang_rate = 1.5: must be in [0, 1]"},
		{"nothing", "", "a.yaml:1:1: want one scenario"},
		{"an empty element", strings.Replace(base, "      - {at: 5s, slowdown: 2}", "      - ", 1), "a.yaml:9:8: layers[0].changes[0]: must not be empty"},
		{"an empty layer", "name: x\nduration: 1s\nlayers: [null]\n", "a.yaml:3:10: layers[0]: must not be empty"},
		{"a name given twice", base + "  - {name: users, rate: 1}\n", `clients[1].name = "users": is given twice`},
		{"a variant given twice", base + "variants: [{name: x}, {name: x}]\n", `variants[1].name = "x": is given twice`},
		{"an alias of nothing", strings.Replace(base, "name: base", "name: *zz", 1), "a.yaml:2:7: *zz: there is no &zz before it"},
		{"an alias of nothing in a variant", base + "variants: [{name: *zz}]\n", "*zz: there is no &zz before it"},
		{"an alias of itself", strings.Replace(base, "name: base", "name: &a *a", 1), "a.yaml:2:"},
		{"an alias within itself", strings.Replace(base, "{mean: 2s, distribution: lognormal, cv: 0.5}", "&a {mean: *a}", 1), "*a: is inside of &a"},
		{"too large", base + strings.Repeat("# comment\n", 110_000), "a.yaml:1:1: the file is larger than 1048576 bytes"},
		{"brackets too deep", strings.Repeat("[", 400_000), "a.yaml:1:100: more than 100 levels deep"},
		{"braces too deep", strings.Repeat("{a: ", 200_000), "more than 100 levels deep"},
		{"lists too deep", strings.Repeat("- ", 200_000), "more than 100 levels deep"},
		{"indented too deep", deep(200), "more than 100 levels deep"},
		{"too many runs", base + "matrix:\n" + strings.Repeat("  - [{name: a}, {name: b}, {name: c}]\n", 9), "more than 10000 runs"},
		{"too much out of little", "name: x\nlayers:\n  - &l {changes: [" + strings.Repeat("{at: 1s},", 10_000) + "]}\n" + strings.Repeat("  - *l\n", 1000), "more than 1000000 values"},
		{"no name", strings.Replace(base, "name: base\n", "", 1), "name: must be given"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, err := scenario.Parse("a.yaml", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: want %q", err, tt.want)
			}
		})
	}
}

// deep is a mapping in a mapping, and so on.
func deep(levels int) string {
	var text strings.Builder
	for n := range levels {
		text.WriteString(strings.Repeat(" ", n) + "a:\n")
	}
	return text.String()
}

// Every file that ships is right, and says first what it shows.
func TestShippedScenarios(t *testing.T) {
	files, err := filepath.Glob("../../scenarios/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		f, err := scenario.Read(name)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, runs := range f.Figures {
			for _, sc := range runs {
				sc.Duration, sc.Warmup = min(sc.Duration, time.Second), 0
				if _, err := sim.Run(t.Context(), sc, nil, nil); err != nil {
					t.Errorf("%s, %s: %v", name, sc.Name, err)
				}
			}
		}
		for _, runs := range f.Fleets {
			for _, sc := range runs {
				sc.Duration, sc.Warmup, sc.Step = 200*time.Millisecond, 0, 0
				if _, err := fleet.Run(t.Context(), sc, nil); err != nil {
					t.Errorf("%s, %s: %v", name, sc.Name, err)
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(base)
	f.Add(fleetFile)
	f.Add("name: &a x\nlayers: *a")
	f.Add("variants: [{name: x, set: {layers.service.guard.limit: 5}}]")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := scenario.Parse("a.yaml", []byte(text))
		if err == nil && len(file.Figures)+len(file.Fleets) != len(file.Titles) {
			t.Errorf("%d figures, %d titles", len(file.Figures), len(file.Titles))
		}
	})
}

// Instances are a number, or groups.
func TestInstances(t *testing.T) {
	for in, want := range map[string]sim.Instances{
		"8": {{Count: 8}},
		"[{count: 4, weight: 2, classes: [''], limit: 30, epoch: 3h, skew: -50ms, skew_spread: 20ms, start_every: 5s}, {name: b, start: 10s}]": {
			{Count: 4, Weight: 2, Classes: []string{""}, Limit: &sim.Limit{Name: "fixed", N: 30}, Epoch: 3 * time.Hour, Skew: -50 * time.Millisecond,
				SkewSpread: 20 * time.Millisecond, StartEvery: 5 * time.Second},
			{Name: "b", Start: 10 * time.Second}},
	} {
		text := base + "variants: [{name: x, set: {layers.service.guard: {limit: auto, instances: " + in + "}}}]\n"
		f, err := scenario.Parse("a.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := f.Figures[0][0].Layers[0].Guard.Instances; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v: want %+v", in, got, want)
		}
	}
}

// Faults, classes and times have a short form.
func TestFaults(t *testing.T) {
	text := strings.Replace(base, "    changes:\n", `    classes: {fast: 10ms, events: {mean: 60s, distribution: exponential, stream: true}}
    refuse_rate: 0.1
    refuse_after: 500ms
    fail_after: {mean: 10ms, distribution: lognormal, cv: 2}
    hang_rate: 0.05
    hang_for: 30s
    fail_works: true
    flap: {first: 1s, every: 20s, for: 10s}
    failing_classes: [fast]
    pods: 8
    bad_pods: 1
    changes:
      - {at: 1s, down: true, refuse_after: 1ms, hang_rate: 0, hang_for: 1s, bad_pods: 2}
`, 1) + "    mix: [{class: fast, share: 1}, {class: events, share: 0.005}]\n"
	f, err := scenario.Parse("a.yaml", []byte(text))
	testrig.Must(t, err)
	l := f.Figures[0][0].Layers[0]
	constant := func(d time.Duration) dist.ServiceTime { return dist.ServiceTime{Mean: d} }
	if want := map[string]sim.Class{"fast": {ServiceTime: constant(10 * time.Millisecond)},
		"events": {ServiceTime: dist.ServiceTime{Mean: time.Minute, Distribution: "exponential"}, Stream: true}}; !reflect.DeepEqual(l.Classes, want) {
		t.Errorf("%+v: want %+v", l.Classes, want)
	}
	if l.RefuseRate != 0.1 || l.RefuseAfter != constant(500*time.Millisecond) || l.FailAfter.CV != 2 || l.HangRate != 0.05 || l.HangFor != 30*time.Second ||
		!l.FailWorks || l.Flap != (sim.Flap{First: time.Second, Every: 20 * time.Second, For: 10 * time.Second}) ||
		!slices.Equal(l.FailingClasses, []string{"fast"}) || l.Pods != 8 || l.BadPods != 1 {
		t.Errorf("%+v", l)
	}
	if c := l.Changes[0]; !*c.Down || *c.RefuseAfter != constant(time.Millisecond) || *c.HangRate != 0 || *c.HangFor != time.Second || *c.BadPods != 2 {
		t.Errorf("%+v", c)
	}
}
