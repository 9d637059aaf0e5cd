package metric_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/internal/wrappedtest"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/metric"
)

// Each bucket has the trace of the last request in it that was traced, in the format OpenMetrics alone.
func TestExemplars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bounds := []time.Duration{time.Millisecond, time.Second}
		took := metric.Histogram("took_seconds", "Time.")
		e := metric.NewExemplars(bounds)
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(metric.NewCollector(nil, []*metric.Family{took}, func(s metric.Scrape) {
			s.With(e).SendHistogram(took, bounds, []uint64{1, 2, 3}, time.Minute)
		}))
		if text := openMetrics(reg); !strings.Contains(text, "took_seconds_bucket{le=\"+Inf\"} 6\n") || strings.Contains(text, "} # {") {
			t.Errorf("%s\nwant no exemplar", text)
		}
		e.Note(time.Millisecond, "first")
		e.Note(time.Second, "second")
		e.Note(time.Minute, "over")
		for _, ignored := range []string{"", "\xff", strings.Repeat("a", 101)} {
			e.Note(time.Minute, ignored)
		}
		e.Note(time.Microsecond, "last")
		now := ` 9.466848e+08` // of synctest
		for _, want := range []string{
			`took_seconds_bucket{le="0.001"} 1 # {trace_id="last"} 1e-06` + now,
			`took_seconds_bucket{le="1.0"} 3 # {trace_id="second"} 1.0` + now,
			`took_seconds_bucket{le="+Inf"} 6 # {trace_id="over"} 60.0` + now,
		} {
			if text := openMetrics(reg); !strings.Contains(text, "\n"+want+"\n") {
				t.Errorf("%s\nwant %s", text, want)
			}
		}
		if text := string(scrape(t, reg)); strings.Contains(text, "trace_id") {
			t.Errorf("%s\nwant no exemplar", text)
		}
	})
}

// The classes of a Middleware have the waits of requests that are traced. Requests that are refused have none.
func TestWaits(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		waits := metric.NewWaits(func(ctx context.Context) string {
			id, _ := ctx.Value(key{}).(string)
			return id
		})
		m, err := httplimit.New(httplimit.Config{
			Class: func(r *http.Request) string { return r.URL.Path },
			PerClass: waits.PerClass(func(class string) weir.Limiter {
				if class == "/free" {
					return nil
				}
				l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), Depth: 1})
				testrig.Must(t, err)
				return l
			}),
		})
		testrig.Must(t, err)
		h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(300 * time.Millisecond) }))
		var asked sync.WaitGroup
		for _, r := range []struct{ path, trace string }{{"/a", ""}, {"/a", "waits"}, {"/a", "refused"}, {"/\xff", "at-once"}, {"/free", "free"}} {
			asked.Go(func() {
				req := httptest.NewRequest("GET", "/", nil)
				req.URL.Path = r.path
				h.ServeHTTP(httptest.NewRecorder(), req.WithContext(context.WithValue(t.Context(), key{}, r.trace)))
			})
			synctest.Wait()
		}
		asked.Wait()
		text := openMetrics(register(t, metric.NewHTTP("api", m, waits), metric.NewHTTP("plain", m)))
		var lines []string
		for line := range strings.Lines(text) {
			if strings.Contains(line, "trace_id") {
				lines = append(lines, line)
			}
		}
		want := `weir_wait_seconds_bucket{class="/a",name="api",le="0.5"} 2 # {trace_id="waits"} 0.3 9.466848003e+08
`
		if got := strings.Join(lines, ""); !strings.Contains(got, want) || strings.Count(got, "\n") != 2 || !strings.Contains(got, `{trace_id="at-once"} 0.0 `) {
			t.Errorf("%s\nin %s", got, text)
		}
	})
}

// Exemplars change no decision.
func TestWaitsChangeNoDecision(t *testing.T) {
	traced := metric.NewWaits(func(context.Context) string { return "id" })
	wrappedtest.ChangesNoDecision(t, func(l weir.Limiter) weir.Limiter {
		return traced.PerClass(func(string) weir.Limiter { return l })("")
	})
}

// openMetrics returns a scrape in the format OpenMetrics.
func openMetrics(reg *prometheus.Registry) string {
	r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	return w.Body.String()
}

// A request that is not traced costs nothing.
func TestExemplarsAllocate(t *testing.T) {
	e := metric.NewExemplars([]time.Duration{time.Second})
	if n := testing.AllocsPerRun(100, func() { e.Note(time.Minute, "") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkExemplars(b *testing.B) {
	e := metric.NewExemplars([]time.Duration{time.Second})
	for name, id := range map[string]string{"traced": "0af7651916cd43dd8448eb211c80319c", "untraced": ""} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Note(time.Minute, id)
			}
		})
	}
}
