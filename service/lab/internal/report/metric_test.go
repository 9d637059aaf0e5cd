package report_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A scrape has the buckets, and percentiles that are interpolated within a bucket, as
// Prometheus does, are nearly right.
func TestMetrics(t *testing.T) {
	for _, latency := range []time.Duration{ms, 20 * ms, 999 * ms, s, 1003 * ms, 3 * s, 70 * s} {
		m := report.NewMetrics(func() report.Traffic { return report.Traffic{Connections: 4, Sent: 5, Received: 6} }, func() int64 { return 7 })
		for i := range 100 {
			m.Add(trace.Record{End: latency, Status: 200})
			m.Add(trace.Record{End: latency, Status: 503, Reason: fmt.Sprint("reason ", i)})
			m.Add(trace.Record{End: latency, Reason: trace.Refused})
			m.Add(trace.Record{End: latency, Reason: trace.Canceled})
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{
			"weir_load_connections_total": 4, "weir_load_sent_bytes_total": 5, "weir_load_received_bytes_total": 6, "weir_load_inflight_requests": 7,
		} {
			metric := families[name].GetMetric()[0]
			if got := metric.GetCounter().GetValue() + metric.GetGauge().GetValue(); got != want {
				t.Errorf("%s: %v: want %v", name, got, want)
			}
		}
		if n := len(families["weir_load_requests_total"].GetMetric()); n != 51 {
			t.Errorf("%d statuses: want 50, and other", n)
		}
		outcomes := families["weir_load_latency_seconds"].GetMetric()
		if len(outcomes) != 3 {
			t.Fatalf("%d outcomes: want three", len(outcomes))
		}
		for _, metric := range outcomes {
			var buckets [][2]float64
			for _, b := range metric.GetHistogram().GetBucket() {
				buckets = append(buckets, [2]float64{b.GetUpperBound(), float64(b.GetCumulativeCount())})
			}
			for _, q := range []float64{0.01, 0.5, 0.95, 0.99} {
				if got := quantile(buckets, 100*q); math.Abs(got/latency.Seconds()-1) > 0.1 || latency > 900*ms && latency < 1100*ms && math.Abs(got/latency.Seconds()-1) > 0.05 {
					t.Errorf("all took %v: the %v quantile is %v", latency, q, got)
				}
			}
			if h := metric.GetHistogram(); h.GetSampleCount() != 100 {
				t.Errorf("%v: %d: want 100", metric.GetLabel(), h.GetSampleCount())
			}
		}
	}
}

// quantile interpolates between the boundaries of buckets, which have the number of
// values up to there, like histogram_quantile of Prometheus.
func quantile(buckets [][2]float64, rank float64) float64 {
	from, below := 0.0, 0.0
	for _, b := range buckets {
		if b[1] >= rank {
			return from + (b[0]-from)*(rank-below)/(b[1]-below)
		}
		from, below = b[0], b[1]
	}
	return from
}

// The boundaries grow by a tenth, and no round number is at a boundary.
func TestBuckets(t *testing.T) {
	buckets := report.Buckets()
	if len(buckets) > 160 || buckets[0] > 0.0002 || buckets[len(buckets)-1] < 120 {
		t.Errorf("%d from %v to %v", len(buckets), buckets[0], buckets[len(buckets)-1])
	}
	for i := 1; i < len(buckets); i++ {
		if ratio := buckets[i] / buckets[i-1]; ratio < 1.09 || ratio > 1.11 {
			t.Errorf("%v after %v", buckets[i], buckets[i-1])
		}
		for _, round := range []float64{0.001, 0.01, 0.1, 1, 10, 100} {
			if math.Abs(buckets[i]/round-1) < 0.03 {
				t.Errorf("%v is at %v", buckets[i], round)
			}
		}
	}
}
