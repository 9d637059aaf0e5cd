package weirotel_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir/internal/measure"
)

// newMeter returns a meter, and a function that returns its metrics as Prometheus shows them.
func newMeter(t *testing.T) (metric.Meter, func() []string) {
	t.Helper()
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	return provider.Meter("test"), func() []string {
		t.Helper()
		var all metricdata.ResourceMetrics
		testrig.Must(t, reader.Collect(t.Context(), &all))
		var lines []string
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				lines = append(lines, linesOf(t, m)...)
			}
		}
		slices.Sort(lines)
		return lines
	}
}

func linesOf(t *testing.T, m metricdata.Metrics) (lines []string) {
	t.Helper()
	if m.Description == "" {
		t.Errorf("%s has no description", m.Name)
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			lines = append(lines, line(prometheusName(m, data.IsMonotonic), p.Attributes, float64(p.Value)))
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			lines = append(lines, line(prometheusName(m, data.IsMonotonic), p.Attributes, p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			lines = append(lines, line(prometheusName(m, false), p.Attributes, p.Value))
		}
	default:
		t.Errorf("%s is a %T", m.Name, m.Data)
	}
	return lines
}

// prometheusName returns the name that Prometheus gives to a metric of OpenTelemetry.
func prometheusName(m metricdata.Metrics, monotonic bool) string {
	name := strings.ReplaceAll(m.Name, ".", "_") + map[string]string{"s": "_seconds", "By": "_bytes", "1": "_ratio"}[m.Unit]
	if monotonic {
		name += "_total"
	}
	return name
}

func line(name string, set attribute.Set, v float64) string {
	labels := []string{}
	for _, kv := range set.ToSlice() {
		labels = append(labels, fmt.Sprintf("%s=%q", strings.TrimPrefix(string(kv.Key), "weir."), kv.Value.AsString()))
	}
	slices.Sort(labels)
	return name + "{" + strings.Join(labels, ",") + "} " + strconv.FormatFloat(v, 'g', -1, 64)
}

// A prometheus is a measure.Sink that records lines as module metric exports them.
type prometheus struct {
	name  string
	lines []string
}

func (p *prometheus) Value(m *measure.Metric, v float64, labels ...string) {
	set := []attribute.KeyValue{attribute.String("name", p.name)}
	for i, value := range measure.Quote(labels) {
		set = append(set, attribute.String(m.Labels[i], value))
	}
	name := m.Prometheus
	if name == "weir_cache_bytes" {
		name = "weir_cache_size_bytes"
	}
	p.lines = append(p.lines, line(name, attribute.NewSet(set...), v))
}

func (p *prometheus) Histogram(m *measure.Metric, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) {
	count, bucket, total := *m, *m, *m
	name := strings.TrimSuffix(m.Prometheus, "_seconds")
	count.Prometheus, bucket.Prometheus, total.Prometheus = name+"_count_total", name+"_bucket_total", name+"_time_seconds_total"
	bucket.Labels = append(slices.Clone(m.Labels), "le")
	n := uint64(0)
	for i, c := range counts {
		n += c
		le := "+Inf"
		if i < len(bounds) {
			le = fmt.Sprint(bounds[i].Seconds())
		}
		p.Value(&bucket, float64(n), append(slices.Clone(labels), le)...)
	}
	p.Value(&count, float64(n), labels...)
	p.Value(&total, sum.Seconds(), labels...)
}
