package gate_test

import (
	"testing"

	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// One request goes through the queue: it enters, waits and starts when another
// leaves, while ten are in flight and fifty wait.
func BenchmarkQueue(b *testing.B) {
	for _, bb := range []struct {
		name string
		cfg  gate.Config
	}{
		{"fifo", gate.Config{Queue: 100}},
		{"codel", gate.Config{Queue: 100, Discipline: gate.CoDel}},
		{"lifo", gate.Config{Queue: 100, Discipline: gate.AdaptiveLIFO}},
		{"fair", gate.Config{Queue: 100, FairQueues: 64}},
		{"partitions", gate.Config{Queue: 100, Partitions: []float64{0.5, 0.2}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			g := gate.New[int](limit.Fixed(10), bb.cfg)
			r := gate.Request{N: 1}
			for i := range 60 {
				r.Tenant = uint64(i % 8)
				if v, _ := g.Enter(r); v == gate.Wait {
					g.Join(0, r, i)
				}
			}
			i := uint64(0)
			for b.Loop() {
				i++
				r.Tenant = i % 8
				if v, _ := g.Enter(r); v == gate.Wait {
					g.Join(0, r, 0)
				}
				g.Next(0)
				g.Leave(limit.Sample{}, r)
				for _, ok := g.Next(0); ok; _, ok = g.Next(0) {
				}
				g.Deadline()
			}
		})
	}
}

func BenchmarkRefuse(b *testing.B) {
	g := gate.New[int](limit.Fixed(1), gate.Config{Queue: 1})
	r := gate.Request{N: 1}
	g.Enter(r)
	g.Enter(r)
	g.Join(0, r, 0)
	for b.Loop() {
		g.Enter(r)
	}
}

func BenchmarkAdmit(b *testing.B) {
	g := gate.New[int](limit.Fixed(1), gate.Config{Queue: 1})
	r := gate.Request{N: 1}
	for b.Loop() {
		g.Enter(r)
		g.Leave(limit.Sample{}, r)
	}
}
