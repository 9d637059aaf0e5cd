// Package oteltest has what the tests of weirotel and of grpcotel share.
package oteltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// scope is the name of the tracer of waits.
const scope = "github.com/weir-go/weir/weirotel"

// A Tracer makes spans that are kept in memory.
type Tracer struct {
	*sdktrace.TracerProvider
	spans *tracetest.InMemoryExporter
}

// NewTracer returns a Tracer.
func NewTracer() *Tracer {
	spans := tracetest.NewInMemoryExporter()
	return &Tracer{sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), spans}
}

// Within runs work under a span, and returns what the spans say: the attributes, the waits and
// the events.
func (tr *Tracer) Within(ctx context.Context, work func(context.Context)) string {
	tr.spans.Reset()
	ctx, span := tr.Tracer("test").Start(ctx, "request")
	work(ctx)
	span.End()
	var said []string
	for _, s := range tr.spans.GetSpans() {
		if s.Name == "weir.wait" {
			if s.Parent.SpanID() != span.SpanContext().SpanID() || s.InstrumentationScope.Name != scope {
				said = append(said, "(stray)")
			}
			said = append(said, fmt.Sprintf("waited=%v", s.EndTime.Sub(s.StartTime)))
			continue
		}
		said = append(said, spell(s.Attributes)...)
		for _, e := range s.Events {
			said = append(said, e.Name+":", strings.Join(spell(e.Attributes), ","))
		}
	}
	return strings.Join(said, " ")
}

func spell(attributes []attribute.KeyValue) (all []string) {
	for _, a := range attributes {
		all = append(all, strings.TrimPrefix(string(a.Key), "weir.")+"="+a.Value.String())
	}
	slices.Sort(all)
	return all
}

// One returns a limiter of one unit, for which requests wait for up to two seconds.
func One(t *testing.T) *inflight.Limiter {
	t.Helper()
	lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), MaxWait: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// Hold holds the only unit of a limiter for a time.
func Hold(t *testing.T, lim *inflight.Limiter, d time.Duration) {
	t.Helper()
	p, err := lim.Acquire(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(d, func() { p.Release(weir.Success) })
}
