package metric

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/wrapped"
)

// Exemplars hold, for each bucket of a histogram of durations, the trace of the last request
// in it that was traced. They are safe for concurrent use.
//
// Prometheus gets them if it scrapes in the format OpenMetrics, which
// promhttp.HandlerOpts.EnableOpenMetrics allows, with the label trace_id.
type Exemplars struct {
	bounds []time.Duration
	last   []atomic.Pointer[prometheus.Exemplar]
}

// NewExemplars returns Exemplars of a histogram with these bounds.
func NewExemplars(bounds []time.Duration) *Exemplars {
	return &Exemplars{bounds, make([]atomic.Pointer[prometheus.Exemplar], len(bounds)+1)}
}

// maxTraceID is the longest ID of a trace, in bytes: OpenMetrics allows 128 with the name of the label.
const maxTraceID = 100

// Note holds a duration and the ID of its trace. It ignores an ID that is empty, not UTF-8, or longer
// than 100 bytes.
func (e *Exemplars) Note(d time.Duration, traceID string) {
	if traceID == "" || len(traceID) > maxTraceID || !utf8.ValidString(traceID) {
		return
	}
	i, _ := slices.BinarySearch(e.bounds, d)
	e.last[i].Store(&prometheus.Exemplar{Value: d.Seconds(), Labels: prometheus.Labels{"trace_id": traceID}, Timestamp: time.Now()})
}

// add returns a histogram with the exemplars.
func (e *Exemplars) add(to prometheus.Metric) prometheus.Metric {
	var all []prometheus.Exemplar
	for i := range e.last {
		if x := e.last[i].Load(); x != nil {
			all = append(all, *x)
		}
	}
	if all == nil {
		return to
	}
	return prometheus.MustNewMetricWithExemplars(to, all...)
}

// Waits hold the exemplars of weir_wait_seconds of an httplimit.Middleware:
//
//	waits := metric.NewWaits(func(ctx context.Context) string {
//		if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
//			return c.TraceID().String()
//		}
//		return ""
//	})
//	m, err := httplimit.New(httplimit.Config{PerClass: waits.PerClass(httplimit.Auto)})
//	...
//	prometheus.MustRegister(metric.NewHTTP("api", m, waits))
//
// They are safe for concurrent use.
type Waits struct {
	traceID func(context.Context) string
	classes sync.Map // *Exemplars by class
}

// NewWaits returns Waits. The function traceID returns the ID of the trace of a request, or "" if
// that is not sampled.
func NewWaits(traceID func(ctx context.Context) string) *Waits { return &Waits{traceID: traceID} }

// PerClass returns a httplimit.Config.PerClass with the limiters of another one. Limiters of
// package inflight get exemplars.
func (w *Waits) PerClass(next func(class string) weir.Limiter) func(class string) weir.Limiter {
	return func(class string) weir.Limiter {
		l := next(class)
		if _, ok := wrapped.Innermost(l).(*inflight.Limiter); !ok {
			return l
		}
		e := NewExemplars(inflight.WaitBounds[:])
		w.classes.Store(class, e)
		return &traced{l, w.traceID, e}
	}
}

// add returns the histogram of a class with its exemplars.
func (w *Waits) add(labels []string, to prometheus.Metric) prometheus.Metric {
	if e, ok := w.classes.Load(labels[0]); ok {
		return e.(*Exemplars).add(to)
	}
	return to
}

// A traced limiter notes the waits of requests that are traced.
type traced struct {
	weir.Limiter
	traceID   func(context.Context) string
	exemplars *Exemplars
}

func (t *traced) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	id := t.traceID(ctx)
	if id == "" {
		return t.Limiter.Acquire(ctx, n)
	}
	came := time.Now()
	p, err := t.Limiter.Acquire(ctx, n)
	if err == nil {
		t.exemplars.Note(time.Since(came), id)
	}
	return p.Move(), err
}

// Try and Unwrap implement wrapped.Wrapper.
func (t *traced) Try(ctx context.Context, n int) (weir.Permit, error) {
	return wrapped.Try(ctx, t.Limiter, n)
}
func (t *traced) Unwrap() weir.Limiter { return t.Limiter }
