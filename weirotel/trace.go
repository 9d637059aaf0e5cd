package weirotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir"
)

// Scope is the name of the tracer of waits.
const Scope = "github.com/weir-go/weir/weirotel"

// shortest is the shortest wait that is a span.
const shortest = time.Millisecond

// A decision is about a request under a recorded span. The zero decision records nothing.
type decision struct {
	span  trace.Span // nil if it is not recorded
	ctx   context.Context
	since time.Time
}

// arrive begins the decision about a request.
func arrive(ctx context.Context) decision {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return decision{}
	}
	return decision{span, ctx, time.Now()}
}

func (d decision) recorded() bool { return d.span != nil }

// waited records a wait that ends now, unless it was short.
func (d decision) waited() {
	if time.Since(d.since) < shortest {
		return
	}
	_, wait := d.span.TracerProvider().Tracer(Scope).Start(d.ctx, "weir.wait", trace.WithTimestamp(d.since))
	wait.End()
}

// attributes returns what an error says about a decision.
func attributes(err error) []attribute.KeyValue {
	rejection, rejected := errors.AsType[*weir.Rejection](err)
	switch {
	case err == nil:
		return []attribute.KeyValue{decisionKey.String("admit")}
	case rejected:
		all := []attribute.KeyValue{decisionKey.String("reject"), reasonKey.String(rejection.Reason.String())}
		if rejection.RetryAfter > 0 && rejection.RetryAfter != weir.Never {
			all = append(all, retryAfterKey.Float64(rejection.RetryAfter.Seconds()))
		}
		return all
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return []attribute.KeyValue{decisionKey.String("cancel")}
	}
	return []attribute.KeyValue{decisionKey.String("reject")}
}

// admit records that the request is admitted.
func (d decision) admit() {
	d.waited()
	d.span.SetAttributes(attributes(nil)...)
}

// refuse records that the request is refused because of err.
func (d decision) refuse(err error) {
	d.waited()
	d.span.SetAttributes(attributes(err)...)
}

// Limiter returns a Limiter that records the decisions of another one. The name becomes the
// attribute weir.limiter.
func Limiter(name string, l weir.Limiter) weir.Limiter { return traced{name, l} }

type traced struct {
	name string
	weir.Limiter
}

func (t traced) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	d := arrive(ctx)
	if !d.recorded() {
		return t.Limiter.Acquire(ctx, n)
	}
	p, err := t.Limiter.Acquire(ctx, n)
	d.waited()
	d.span.AddEvent("weir.decision", trace.WithAttributes(append(attributes(err), limiterKey.String(t.name))...))
	return p.Move(), err
}
