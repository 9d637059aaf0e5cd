package picture_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/figure"
	"github.com/weir-go/weir/service/lab/internal/picture"
)

const fleetFile = `name: A fleet
duration: 4s
warmup: 1s
seed: 5
fleet: {leaves: 4, ttl: 1s, away: share, watch: [1, 2]}
keys: [{name: api, rate: 1000, burst: 100}]
demand:
  - {rate: 2000, changes: [{at: 2s, factor: 15, first: 1, leaves: 1}]}
faults: [{kind: partition, name: two cut off, at: 3s, for: 500ms, leaves: 2}]
variants: [{name: leaf mode}, {name: static, set: {fleet.policy: static}}]
`

func TestFleet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	testrig.Must(t, os.WriteFile(file, []byte(fleetFile), 0o600))
	for variant, want := range map[string][]string{
		"":     {"A fleet", "seed 5", "4 leaves, 1 key, a limit of 1,000 a second", ">static<", "Allowed, of the limit", "two cut off", "Leaf 1: allowed", "fair share"},
		"leaf": {"A fleet: leaf mode", "Decisions by step", ">assigned<", ">leaf 2<", "reports of keys"},
	} {
		figures, err := figure.Load([]string{file}, variant, nil)
		if err != nil || len(figures) != 1 {
			t.Fatalf("%v, %v", figures, err)
		}
		f := figures[0]
		var done atomic.Int64
		testrig.Must(t, figure.Simulate(t.Context(), figures, nil, &done, nil))
		if runs := f.Len(); figure.Duration(figures) != time.Duration(runs)*4*time.Second || done.Load() != int64(runs)*int64(4*time.Second) {
			t.Errorf("%q: %d runs, %v of %v", variant, runs, time.Duration(done.Load()), figure.Duration(figures))
		}
		var svg, table bytes.Buffer
		testrig.Must(t, picture.Draw(&svg, f, "svg"))
		for _, text := range want {
			if !strings.Contains(svg.String(), text) {
				t.Errorf("%q: the picture lacks %q", variant, text)
			}
		}
		testrig.Must(t, f.Table(&table))
		for _, text := range []string{"A fleet (" + file + ", seed 5, 4s)", "leaf mode", "worst leaf", "served after", "partition"} {
			if !strings.Contains(table.String(), text) {
				t.Errorf("%q: the table lacks %q:\n%s", variant, text, table.String())
			}
		}
	}
}
