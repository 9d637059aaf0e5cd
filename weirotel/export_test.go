package weirotel

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/weirotel/internal/instrument"
)

// Register registers the metrics of Stats made up by a test.
func Register[S any](meter metric.Meter, name string, source *measure.Source[S], stats S) (metric.Registration, error) {
	return instrument.Register(meter, name, source, func() S { return stats })
}
