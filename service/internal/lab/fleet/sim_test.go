package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/lab/dist"
	"github.com/weir-go/weir/service/internal/lab/fleet"
)

func TestTry(t *testing.T) {
	for _, p := range fleet.Policies {
		sc := fleet.Scenario{
			Duration: 30 * time.Second, Warmup: 10 * time.Second, Seed: 1,
			Fleet:   fleet.Fleet{Leaves: 100, Policy: p},
			Keys:    []fleet.Key{{Name: "api", Rate: 10000, Burst: 1000}},
			Demand:  []fleet.Demand{{Rate: 20000, LeafSkew: 1}},
			Network: fleet.Network{Delay: dist.ServiceTime{Mean: 2 * time.Millisecond}},
		}
		begin := time.Now()
		r, err := fleet.Run(t.Context(), sc, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Series = nil
		fmt.Printf("%s %v %+v\n", p, time.Since(begin), r)
	}
}
