//go:build !race

package advise

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A setting is a service of which the knee is known.
type setting struct {
	name     string
	layers   []sim.Layer
	mix      []sim.Share
	knee     float64
	capacity float64 // requests a second
	stairs   bool    // clients that wait for their answers make the load: more of them in each step
}

func workers(n int, mean time.Duration, distribution string, cv float64) sim.Layer {
	return sim.Layer{Name: "service", Workers: n, ServiceTime: dist.ServiceTime{Mean: mean, Distribution: distribution, CV: cv}}
}

// universal returns the throughput of n busy workers.
func universal(l sim.Layer, n float64) float64 {
	return n / (l.ServiceTime.Mean.Seconds() * (1 + l.Contention.Sigma*(n-1) + l.Contention.Kappa*n*(n-1)))
}

// one returns a setting of a station.
func one(name string, l sim.Layer) setting {
	knee := float64(l.Workers)
	if c := l.Contention; c.Kappa > 0 {
		knee = min(knee, math.Sqrt((1-c.Sigma)/c.Kappa))
	}
	return setting{name: name, layers: []sim.Layer{l}, knee: knee, capacity: universal(l, knee)}
}

// play runs a setting with a load that goes up to a share of its capacity, or of its knee, and returns the
// recording.
func (s setting) play(t testing.TB, share float64, seed uint64) (all []recording.Record) {
	t.Helper()
	// 40,000 requests, or 150 times as long as requests take, if that is more.
	length := time.Duration(max(40_000/s.capacity, 150*s.knee/s.capacity, 20) * 1e9)
	run := func(offset, length time.Duration, c sim.Client) {
		c.Name, c.Mix = "users", s.mix
		sc := sim.Scenario{Name: "setting", Duration: length, Seed: seed, Layers: s.layers, Clients: []sim.Client{c}}
		record := func(r trace.Record) {
			r.Intended, r.Start, r.End = r.Intended+offset, r.Start+offset, r.End+offset
			all = append(all, recorded.FromTrace(r))
		}
		if _, err := sim.Run(t.Context(), sc, record, nil); err != nil {
			t.Fatal(err)
		}
	}
	if s.stairs {
		steps := []float64{0.08, 0.15, 0.25, 0.4, 0.6, 0.8, 1, 1.3, 1.7, 2.3, 3}
		for i, step := range steps {
			most := 3.0
			if share < 1 {
				most = share
			}
			users := max(int(step/3*most*s.knee), 1)
			run(time.Duration(i)*length/time.Duration(len(steps)), length/time.Duration(len(steps)), sim.Client{Users: users})
		}
		return all
	}
	run(0, length, sim.Client{Rate: fmt.Sprintf("%.4f..%.4f@%s,%.4f..%.4f@%s", 0.05*s.capacity, share*s.capacity, (length * 2 / 3).Round(time.Millisecond),
		share*s.capacity, 0.3*share*s.capacity, (length / 3).Round(time.Millisecond))})
	return all
}
