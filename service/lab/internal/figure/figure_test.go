package figure_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/figure"
)

const fleetFile = `name: A fleet
duration: 4s
fleet: {leaves: 4, ttl: 1s}
keys: [{name: api, rate: 1000, burst: 100}]
demand: [{rate: 2000}]
variants: [{name: leaf mode}, {name: static, set: {fleet.policy: static}}]
`

func TestFleetInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	testrig.Must(t, os.WriteFile(file, []byte(fleetFile), 0o600))
	seed := uint64(9)
	figures, err := figure.Load([]string{file}, "static", &seed)
	if err != nil || figures[0].Fleets[0].Seed != 9 {
		t.Fatal(figures, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := figure.Simulate(ctx, figures, nil, new(atomic.Int64), nil); err != figure.ErrInterrupted {
		t.Errorf("%v: want ErrInterrupted", err)
	}
}
