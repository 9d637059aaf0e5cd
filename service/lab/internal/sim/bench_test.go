package sim_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

func overload(limit sim.Limit) sim.Scenario {
	queue := 1000
	return sim.Scenario{
		Name: "overload", Duration: 100 * time.Second, Seed: 1,
		Layers: []sim.Layer{{
			Name: "service", Workers: 10, Queue: &queue,
			ServiceTime: dist.ServiceTime{Mean: time.Millisecond, Distribution: "exponential"},
			Guard:       &sim.Guard{Limit: limit, Queue: 100, MaxWait: 50 * time.Millisecond},
		}},
		Clients: []sim.Client{{Name: "users", Rate: "9000", Timeout: 100 * time.Millisecond}},
	}
}

// The speed of the simulator, in requests per second of the real clock.
func BenchmarkSim(b *testing.B) {
	for _, bb := range []struct {
		name  string
		limit sim.Limit
		rate  string
	}{
		{"below capacity, fixed", sim.Limit{Name: "fixed", N: 20}, "9000"},
		{"below capacity, aimd", sim.Limit{Name: "aimd"}, "9000"},
		{"overload, fixed", sim.Limit{Name: "fixed", N: 20}, "20000"},
		{"overload, aimd", sim.Limit{Name: "aimd"}, "20000"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			sc := overload(bb.limit)
			sc.Clients[0].Rate = bb.rate
			calls := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				r, err := sim.Run(b.Context(), sc, nil, nil)
				if err != nil {
					b.Fatal(err)
				}
				calls += r.Totals.Calls
			}
			b.ReportMetric(float64(calls)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
