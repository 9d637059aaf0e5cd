package scenario_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/fleet"
	"github.com/weir-go/weir/service/lab/internal/scenario"
)

const fleetFile = `name: fleet
duration: 10s
fleet: {leaves: 10, watch: [3]}
keys:
  - {name: api, count: 2, rate: 1_000, burst: 100}
demand:
  - name: users
    key: api
    rate: 5e3
    leaf_skew: 0.8
    every: 2
    changes: [{at: 5s, factor: 15, first: 3, leaves: 1}]
network:
  delay: {mean: 5ms, distribution: lognormal, cv: 1}
  loss: 0.01
faults:
  - {kind: partition, at: 3s, for: 2s, leaves: 4}
variants:
  - {name: leaf}
  - {name: static, set: {fleet.policy: static, demand.users.rate: 10, keys.api.burst: 7}}
`

func TestFleet(t *testing.T) {
	f, err := scenario.Parse("a.yaml", []byte(fleetFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Figures) != 0 || len(f.Fleets) != 1 || len(f.Fleets[0]) != 2 || f.Titles[0] != "fleet" {
		t.Fatalf("%+v", f)
	}
	one, two := f.Fleets[0][0], f.Fleets[0][1]
	d := one.Demand[0]
	if one.Name != "leaf" || one.Fleet.Leaves != 10 || d.Rate != 5000 || d.Every != 2 || d.Changes[0].Group != (fleet.Group{First: 3, Leaves: 1}) ||
		one.Network.Delay.Mean != 5*time.Millisecond || one.Faults[0].Leaves != 4 {
		t.Errorf("%+v", one)
	}
	if two.Fleet.Policy != "static" || two.Demand[0].Rate != 10 || two.Keys[0].Burst != 7 {
		t.Errorf("%+v", two)
	}
}

func TestFleetErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"leaf_skew", "leaf_skw", "a.yaml:10:5: demand[0].leaf_skw: unknown field; known are"},
		{"leaves: 10,", "leaves: 0,", "a.yaml:3:17: fleet.leaves = 0: must be in [1, 100000]"},
		{"watch: [3]", "watch: [10]", "a.yaml:3:29: fleet.watch[0] = 10: must be in [0, leaves = 10)"},
		{"rate: 1_000", "rate: 0", "keys[0].rate = 0: must be in [1, 100000000]"},
		{"burst: 100", "burst: 0.5", "a.yaml:5:47: keys[0].burst = 0.5: want a whole number"},
		{"name: api,", "name: 'a*',", `keys[0].name = "a*": must be of letters and digits`},
		{"key: api", "key: other", `a.yaml:8:10: demand[0].key = "other": there is no such key`},
		{"5e3", "0", "demand[0].rate = 0: must be > 0"},
		{"every: 2", "on: 2s", "demand[0].off = 0s: must be > 0 with on"},
		{"first: 3", "first: 10", "demand[0].changes[0].first = 10: must be in [0, leaves = 10)"},
		{"loss: 0.01", "loss: 1", "a.yaml:15:9: network.loss = 1: must be in [0, 1)"},
		{"cv: 1}", "cv: 11}", "network.delay.cv = 11: must be in (0, 10]"},
		{"kind: partition", "kind: fire", `a.yaml:17:12: faults[0].kind = "fire": must be one of partition, upstream, restart, stop, start`},
		{"kind: partition,", "", `faults[0].kind = "": must be given`},
		{"at: 3s", "at: -3s", "faults[0].at = -3s: must be in [0, 1000h0m0s]"},
		{"fleet.policy: static", "fleet.policy: magic", `fleet.policy = "magic": must be one of leaf, exact, static, optimistic, doorman, ideal (in the variant "static")`},
		{"duration: 10s", "duration: 1ms", "a.yaml:2:11: duration = 1ms: must be at least 10ms"},
		{"name: fleet", "seed: 3", "name: must be given"},
	} {
		text := strings.Replace(fleetFile, c.old, c.new, 1)
		if text == fleetFile {
			t.Fatalf("%q is not in the file", c.old)
		}
		if _, err := scenario.Parse("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.new, err, c.want)
		}
	}
}
