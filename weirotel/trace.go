package weirotel

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/wrapped"
	"github.com/weir-go/weir/weirotel/internal/decision"
)

// Scope is the name of the tracer of waits.
const Scope = "github.com/weir-go/weir/weirotel"

// Limiter returns a Limiter that records the decisions of another one. The name becomes the
// attribute weir.limiter.
func Limiter(name string, l weir.Limiter) weir.Limiter { return traced{name, l} }

type traced struct {
	name string
	weir.Limiter
}

func (t traced) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	return t.record(ctx, n, t.Limiter.Acquire)
}

// Try and Unwrap implement wrapped.Wrapper.
func (t traced) Try(ctx context.Context, n int) (weir.Permit, error) {
	return t.record(ctx, n, func(ctx context.Context, n int) (weir.Permit, error) { return wrapped.Try(ctx, t.Limiter, n) })
}
func (t traced) Unwrap() weir.Limiter { return t.Limiter }

func (t traced) record(ctx context.Context, n int, decide func(context.Context, int) (weir.Permit, error)) (weir.Permit, error) {
	d := decision.Arrive(ctx)
	if !d.Recorded() {
		return decide(ctx, n)
	}
	p, err := decide(ctx, n)
	d.Waited()
	d.Span.AddEvent("weir.decision", trace.WithAttributes(append(decision.Attributes(err), decision.LimiterKey.String(t.name))...))
	return p.Move(), err
}
