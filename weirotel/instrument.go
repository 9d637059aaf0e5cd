package weirotel

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/internal/measure"
)

// Names of attributes.
const (
	nameKey       = attribute.Key("weir.name")
	decisionKey   = attribute.Key("weir.decision")
	reasonKey     = attribute.Key("weir.reason")
	ruleKey       = attribute.Key("weir.rule")
	retryAfterKey = attribute.Key("weir.retry_after")
	limiterKey    = attribute.Key("weir.limiter")
)

// An instrument observes the values of a Metric.
type instrument struct {
	whole metric.Int64Observable   // nil for a number with a fraction
	real  metric.Float64Observable // of a histogram: the sum
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
	}
	return byMetric, all, nil
}

func instrumentOf(meter metric.Meter, m *measure.Metric) (i instrument, err error) {
	help, unit := metric.WithDescription(m.Help), metric.WithUnit(m.Unit)
	switch {
	case m.Kind == measure.Histogram:
		if i.whole, err = meter.Int64ObservableCounter(m.Name+".count", metric.WithDescription(m.Help+" The number of waits."), metric.WithUnit("{wait}")); err != nil {
			return i, err
		}
		i.real, err = meter.Float64ObservableCounter(m.Name+".time", metric.WithDescription(m.Help+" The sum of waits."), unit)
	case m.Kind == measure.Counter && m.Unit == "s":
		i.real, err = meter.Float64ObservableCounter(m.Name, help, unit)
	case m.Kind == measure.Counter:
		i.whole, err = meter.Int64ObservableCounter(m.Name, help, unit)
	case m.Unit == "1":
		i.real, err = meter.Float64ObservableGauge(m.Name, help, unit)
	default:
		i.whole, err = meter.Int64ObservableUpDownCounter(m.Name, help, unit)
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

func (o *observer) Histogram(m *measure.Metric, _ []time.Duration, counts []uint64, sum time.Duration, labels ...string) {
	with, n := o.attributes(m, labels), uint64(0)
	for _, c := range counts {
		n += c
	}
	o.ObserveInt64(o.instruments[m].whole, int64(n), with)
	o.ObserveFloat64(o.instruments[m].real, sum.Seconds(), with)
}

func (o *observer) attributes(m *measure.Metric, labels []string) metric.ObserveOption {
	set := []attribute.KeyValue{nameKey.String(o.name)}
	for i, value := range measure.Quote(slices.Clone(labels)) {
		set = append(set, attribute.String("weir."+m.Labels[i], value))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}
