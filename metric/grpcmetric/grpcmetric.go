// Package grpcmetric exports the servers and clients of package grpclimit to Prometheus, as
// package metric does for other limiters. Package metric documents the metrics. It is a
// separate package, so that a service without gRPC does not link it.
package grpcmetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/metric/internal/collector"
)

// NewServer returns a collector of an Interceptor. It panics if that is nil, or if the name is
// empty or not UTF-8.
func NewServer(name string, i *grpclimit.Interceptor) prometheus.Collector {
	collector.Need(i)
	return collector.New(name, &measure.GRPC, func() admission.Stats { return admission.Stats(i.Stats()) })
}

// NewClient returns a collector of a gRPC client. It panics as NewServer does.
func NewClient(name string, c *grpclimit.Client) prometheus.Collector {
	collector.Need(c)
	return collector.New(name, &measure.GRPCClient, func() measure.Client { return measure.Client(c.Stats()) })
}
