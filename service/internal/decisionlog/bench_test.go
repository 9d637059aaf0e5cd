package decisionlog_test

import (
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/decisionlog"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// BenchmarkDecide decides for a thousand keys: without a Recorder, with one, and with one of which another goroutine writes what it can.
func BenchmarkDecide(b *testing.B) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(1_000_000+i)
	}
	for _, name := range []string{"without", "recorded", "written"} {
		b.Run(name, func(b *testing.B) {
			s, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{{
				Name: "all", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 1_000_000_000, Period: time.Second}},
			}}}})
			if err != nil {
				b.Fatal(err)
			}
			d, rec := decider.Decider(s), decisionlog.New()
			rec.Follow(s.Now)
			if name != "without" {
				d = decisionlog.Record(s, rec)
			}
			if name == "written" {
				w := decisionlog.NewWriter(io.Discard, rec.Epoch(), decisionlog.Info{Separators: "|=:"}, decisionlog.NewSalt())
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					for tick := time.NewTicker(10 * time.Millisecond); ; {
						select {
						case <-tick.C:
							_ = rec.Drain(w)
						case <-stop:
							return
						}
					}
				}()
				defer func() {
					close(stop)
					<-stopped
					b.ReportMetric(float64(rec.Counters().Lost)/float64(max(rec.Recorded(), 1)), "lost/op")
				}()
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req, v := decider.Request{N: 1}, new(decider.Verdict)
				for i := 0; pb.Next(); i++ {
					req.Key = keys[i%len(keys)]
					_ = d.Decide(b.Context(), &req, v)
				}
			})
		})
	}
}

// A decision is recorded without an allocation.
func TestRecordAllocates(t *testing.T) {
	s, err := server.New(server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rec := decisionlog.New()
	rec.Follow(s.Now)
	d, w := decisionlog.Record(s, rec), decisionlog.NewWriter(io.Discard, rec.Epoch(), decisionlog.Info{}, decisionlog.NewSalt())
	req, v := decider.Request{Key: "user:42", N: 1}, new(decider.Verdict)
	for range 10_000 {
		_ = d.Decide(t.Context(), &req, v)
	}
	_ = rec.Drain(w)
	if n := testing.AllocsPerRun(5000, func() { _ = d.Decide(t.Context(), &req, v) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
