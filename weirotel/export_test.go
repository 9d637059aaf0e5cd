package weirotel

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/internal/measure"
)

// Register registers the metrics of Stats made up by a test.
func Register[S any](meter metric.Meter, name string, source *measure.Source[S], stats S) (metric.Registration, error) {
	return register(meter, name, source, func() S { return stats })
}
