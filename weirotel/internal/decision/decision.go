// Package decision records the decisions about requests in traces.
package decision

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir"
)

// Names of attributes.
const (
	DecisionKey   = attribute.Key("weir.decision")
	ReasonKey     = attribute.Key("weir.reason")
	RuleKey       = attribute.Key("weir.rule")
	RetryAfterKey = attribute.Key("weir.retry_after")
	LimiterKey    = attribute.Key("weir.limiter")
)

// Scope is the name of the tracer of waits.
const Scope = "github.com/weir-go/weir/weirotel"

// shortest is the shortest wait that is a span.
const shortest = time.Millisecond

// A Decision is about a request under a recorded span. The zero Decision is not recorded.
type Decision struct {
	Span  trace.Span // nil if it is not recorded
	ctx   context.Context
	since time.Time
}

// Arrive begins the decision about a request.
func Arrive(ctx context.Context) Decision {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return Decision{}
	}
	return Decision{span, ctx, time.Now()}
}

// Recorded reports whether there is a span to record the decision.
func (d Decision) Recorded() bool { return d.Span != nil }

// Waited records a wait that ends now, unless it was short.
func (d Decision) Waited() {
	if time.Since(d.since) < shortest {
		return
	}
	_, wait := d.Span.TracerProvider().Tracer(Scope).Start(d.ctx, "weir.wait", trace.WithTimestamp(d.since))
	wait.End()
}

// Attributes returns what an error says about a decision.
func Attributes(err error) []attribute.KeyValue {
	rejection, rejected := errors.AsType[*weir.Rejection](err)
	switch {
	case err == nil:
		return []attribute.KeyValue{DecisionKey.String("admit")}
	case rejected:
		all := []attribute.KeyValue{DecisionKey.String("reject"), ReasonKey.String(rejection.Reason.String())}
		if rejection.RetryAfter > 0 && rejection.RetryAfter != weir.Never {
			all = append(all, RetryAfterKey.Float64(rejection.RetryAfter.Seconds()))
		}
		return all
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return []attribute.KeyValue{DecisionKey.String("cancel")}
	}
	return []attribute.KeyValue{DecisionKey.String("reject")}
}

// Admit records that the request is admitted.
func (d Decision) Admit() {
	d.Waited()
	d.Span.SetAttributes(Attributes(nil)...)
}

// Refuse records that the request is refused because of err.
func (d Decision) Refuse(err error) {
	d.Waited()
	d.Span.SetAttributes(Attributes(err)...)
}
