package grpcotel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/weirotel/grpcotel"
	"github.com/weir-go/weir/weirotel/internal/oteltest"
)

// A stream is a grpc.ServerStream with a context.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context     { return s.ctx }
func (s stream) SetTrailer(metadata.MD)       {}
func (s stream) SetHeader(metadata.MD) error  { return nil }
func (s stream) SendHeader(metadata.MD) error { return nil }

// Both functions read their sources.
func TestMeasure(t *testing.T) {
	reader := sdk.NewManualReader()
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
	i, err := grpclimit.New(grpclimit.Config{PerClass: grpclimit.Auto})
	testrig.Must(t, err)
	c, err := grpclimit.NewClient(grpclimit.ClientConfig{})
	testrig.Must(t, err)
	_, err = grpcotel.MeasureServer(meter, "server", i)
	testrig.Must(t, err)
	_, err = grpcotel.MeasureClient(meter, "client", c)
	testrig.Must(t, err)
	var all metricdata.ResourceMetrics
	testrig.Must(t, reader.Collect(t.Context(), &all))
	var names []string
	for _, m := range all.ScopeMetrics[0].Metrics {
		names = append(names, m.Name)
	}
	for _, want := range []string{"weir.long_lived", "weir.throttle.refusal"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	defer func() {
		if got := recover(); got != "weirotel: the source is nil" {
			t.Errorf("without a source: %v", got)
		}
	}()
	_, _ = grpcotel.MeasureClient(meter, "a", nil)
}

func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, tr := oteltest.One(t), oteltest.NewTracer()
		i, err := grpclimit.New(grpclimit.Config{Limiter: lim, Rules: []grpclimit.Rule{grpclimit.Overall("all", rate.NewLimiter(1, 3))}})
		testrig.Must(t, err)
		unary, streams := grpcotel.UnaryServer(i), grpcotel.StreamServer(i)
		calls := map[string]func(context.Context) error{
			"unary": func(ctx context.Context) error {
				_, err := unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/B"}, func(context.Context, any) (any, error) { return nil, nil })
				return err
			},
			"stream": func(ctx context.Context) error {
				return streams(nil, stream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/a/B"}, func(any, grpc.ServerStream) error { return nil })
			},
		}
		for name, call := range calls {
			for step, want := range []string{
				"decision=admit", "waited=1s decision=admit", "waited=2s decision=reject reason=overdue retry_after=", "decision=reject reason=over_rate retry_after=",
			} {
				switch step {
				case 1:
					oteltest.Hold(t, lim, time.Second)
				case 2:
					oteltest.Hold(t, lim, time.Minute)
				case 3:
					time.Sleep(time.Hour)
					for range 3 {
						_ = call(t.Context())
					}
				}
				got := tr.Within(t.Context(), func(ctx context.Context) { err = call(ctx) })
				if !strings.HasPrefix(got, strings.TrimSuffix(want, " retry_after=")) || (step < 2) != (err == nil) {
					t.Errorf("%s, step %d: %s, %v: want %s", name, step, got, err, want)
				}
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, tr := oteltest.One(t), oteltest.NewTracer()
		c, err := grpclimit.NewClient(grpclimit.ClientConfig{Limiter: lim})
		testrig.Must(t, err)
		unary, streams := grpcotel.UnaryClient(c), grpcotel.StreamClient(c)
		broken := status.Error(codes.NotFound, "broken")
		calls := map[string]func(context.Context) error{
			"unary": func(ctx context.Context) error {
				return unary(ctx, "/a/B", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return broken })
			},
			"stream": func(ctx context.Context) error {
				_, err := streams(ctx, &grpc.StreamDesc{}, nil, "/a/B", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
					return nil, broken
				})
				return err
			},
		}
		for name, call := range calls {
			for step, want := range []string{"decision=admit", "waited=1s decision=admit", "waited=2s decision=reject reason=overdue"} {
				if step > 0 {
					oteltest.Hold(t, lim, []time.Duration{0, time.Second, time.Minute}[step])
				}
				got := tr.Within(t.Context(), func(ctx context.Context) { err = call(ctx) })
				if !strings.HasPrefix(got, want) || (step < 2) != errors.Is(err, broken) {
					t.Errorf("%s, step %d: %s, %v: want %s", name, step, got, err, want)
				}
				_ = call(context.Background()) // without a span
			}
			time.Sleep(time.Hour)
		}
	})
}
