// Package instrument observes the metrics of package measure for OpenTelemetry.
package instrument

import (
	"context"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/internal/measure"
)

// Need returns source. It panics if that is nil.
func Need[T any](source *T) *T {
	if source == nil {
		panic("weirotel: the source is nil")
	}
	return source
}

// Register registers a callback that reads stats and observes them.
func Register[S any](meter metric.Meter, name string, source *measure.Source[S], stats func() S) (metric.Registration, error) {
	if name == "" || !utf8.ValidString(name) {
		panic("weirotel: the name is empty or not UTF-8")
	}
	instruments, all, err := instrumentsOf(meter, source.Metrics)
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		source.Send(&observer{to, name, instruments}, stats())
		return nil
	}, all...)
}

// An instrument observes the values of a Metric.
type instrument struct {
	whole  metric.Int64Observable   // nil for a number with a fraction; of a histogram: the count
	real   metric.Float64Observable // nil for a whole number; of a histogram: the sum
	bucket metric.Int64Observable   // nil unless it is a histogram
}

// instrumentsOf returns the instruments of metrics, by metric and as a list. A meter returns the
// same instrument for equal ones of several sources.
func instrumentsOf(meter metric.Meter, metrics []*measure.Metric) (map[*measure.Metric]instrument, []metric.Observable, error) {
	byMetric, all := make(map[*measure.Metric]instrument), []metric.Observable(nil)
	for _, m := range metrics {
		i, err := instrumentOf(meter, m)
		if err != nil {
			return nil, nil, err
		}
		if byMetric[m] = i; i.whole != nil {
			all = append(all, i.whole)
		}
		if i.real != nil {
			all = append(all, i.real)
		}
		if i.bucket != nil {
			all = append(all, i.bucket)
		}
	}
	return byMetric, all, nil
}

func instrumentOf(meter metric.Meter, m *measure.Metric) (i instrument, err error) {
	help, unit := metric.WithDescription(m.Help), metric.WithUnit(m.Unit)
	switch {
	case m.Kind == measure.Histogram:
		return histogramOf(meter, m)
	case m.Kind == measure.Counter:
		i.whole, err = meter.Int64ObservableCounter(m.Name, help, unit)
	case m.Unit == "1" || m.Unit == "s":
		i.real, err = meter.Float64ObservableGauge(m.Name, help, unit)
	default:
		i.whole, err = meter.Int64ObservableUpDownCounter(m.Name, help, unit)
	}
	return i, err
}

// histogramOf returns counters in place of a histogram, because the API has none that a callback
// observes.
func histogramOf(meter metric.Meter, m *measure.Metric) (i instrument, err error) {
	whole := func(suffix, help string) (c metric.Int64ObservableCounter) {
		if err == nil {
			c, err = meter.Int64ObservableCounter(m.Name+suffix, metric.WithDescription(m.Help+help), metric.WithUnit("{wait}"))
		}
		return c
	}
	i.whole = whole(".count", " The number of waits.")
	i.bucket = whole(".bucket", " The number of waits of at most le seconds.")
	if err == nil {
		i.real, err = meter.Float64ObservableCounter(m.Name+".time", metric.WithDescription(m.Help+" The sum of waits."), metric.WithUnit(m.Unit))
	}
	return i, err
}

// An observer observes the values of one reading of a source.
type observer struct {
	metric.Observer
	name        string
	instruments map[*measure.Metric]instrument
}

func (o *observer) Value(m *measure.Metric, v float64, labels ...string) {
	with := o.attributes(m, labels)
	if i := o.instruments[m]; i.whole != nil {
		o.ObserveInt64(i.whole, int64(v), with)
	} else {
		o.ObserveFloat64(i.real, v, with)
	}
}

func (o *observer) Histogram(m *measure.Metric, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) {
	i, n := o.instruments[m], uint64(0)
	for k, c := range counts {
		n += c
		le := "+Inf"
		if k < len(bounds) {
			le = strconv.FormatFloat(bounds[k].Seconds(), 'g', -1, 64)
		}
		o.ObserveInt64(i.bucket, int64(n), o.attributes(m, labels, attribute.String("le", le)))
	}
	with := o.attributes(m, labels)
	o.ObserveInt64(i.whole, int64(n), with)
	o.ObserveFloat64(i.real, sum.Seconds(), with)
}

func (o *observer) attributes(m *measure.Metric, labels []string, more ...attribute.KeyValue) metric.ObserveOption {
	set := append(more, attribute.String("weir.name", o.name))
	for i, value := range measure.Quote(slices.Clone(labels)) {
		set = append(set, attribute.String("weir."+m.Labels[i], value))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}
