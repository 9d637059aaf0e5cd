//go:build unix

package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// BenchmarkExchange takes exchanges of 1,000 reports of any of 100,000 keys, each of which 20
// leaves have. An operation is one exchange.
func BenchmarkExchange(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit int
		drift bool // wants change
	}{{"spare/same", 100_000, false}, {"spare/drift", 100_000, true}, {"contended/drift", 100, true}} {
		b.Run(c.name, func(b *testing.B) { benchExchange(b, c.limit, c.drift) })
	}
}

func benchExchange(b *testing.B, limit int, drift bool) {
	const keys, leaves, reports = 100_000, 20, 1000
	before := heapBytes()
	s, err := server.New(server.Config{MaxAssignments: 2 * keys * leaves, Rules: &config.Rules{Rules: []config.Rule{one("all", quota(limit, time.Second, ""))}}})
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.KeepAlive(s)
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("tenant:", i)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	var got decider.LeafAnswer
	x := &decider.LeafExchange{Exchange: leaf.Exchange{Reports: make([]leaf.Report, reports)}}
	exchange := func() {
		if err := s.Exchange(context.Background(), x, &got); err != nil || got.Assignments[reports-1].Error != "" {
			b.Fatal(err, got.Assignments[reports-1].Error)
		}
	}
	for i := range keys * leaves {
		x.Reports[i%reports] = leaf.Report{Key: names[i/reports/leaves*reports+i%reports], Used: 1, Wants: 10, Has: 5}
		if i%reports == reports-1 {
			x.Leaf = fmt.Sprint("leaf-", i/reports%leaves)
			exchange()
		}
	}
	memory := heapBytes() - before
	x.Held = keys
	b.ReportAllocs()
	start := cpuTime()
	for i := 0; b.Loop(); i++ {
		x.Leaf = fmt.Sprint("leaf-", i%leaves)
		for j := range x.Reports {
			r := leaf.Report{Key: names[rnd.IntN(keys)], Used: 3, Wants: 10, Has: 5}
			if drift {
				r.Wants = 9 + 2*rnd.Float64()
			}
			x.Reports[j] = r
		}
		exchange()
	}
	b.ReportMetric(float64(memory)/keys/leaves, "B/assignment")
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N)/reports, "cpu-ns/report")
}

// cpuTime returns the processor time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
