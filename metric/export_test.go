package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/metric/internal/collector"
)

// A maker returns a collector of Stats made up by a test.
type maker[S any] func(name string, stats func() S) prometheus.Collector

func makes[S any](source *measure.Source[S]) maker[S] {
	return func(name string, stats func() S) prometheus.Collector { return collector.New(name, source, stats) }
}

var (
	HTTP       = makes(&measure.HTTP)
	Limiter    = makes(&measure.Limiter)
	Keyed      = makes(&measure.Keyed)
	Throttle   = makes(&measure.Throttle)
	Retries    = makes(&measure.Retries)
	Cache      = makes(&measure.Cache)
	HTTPCache  = makes(&measure.HTTPCache)
	Transport  = makes(&measure.Transport)
	Pressure   = makes(&measure.Pressure)
	GRPCClient = makes(&measure.GRPCClient)
)
