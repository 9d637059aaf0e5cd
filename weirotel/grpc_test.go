package weirotel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/weirotel"
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

func TestGRPCServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, tr := one(t), newTracer()
		i, err := grpclimit.New(grpclimit.Config{Limiter: lim, Rules: []grpclimit.Rule{grpclimit.Overall("all", rate.NewLimiter(1, 3))}})
		fatal(t, err)
		unary, streams := weirotel.UnaryServer(i), weirotel.StreamServer(i)
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
					hold(t, lim, time.Second)
				case 2:
					hold(t, lim, time.Minute)
				case 3:
					time.Sleep(time.Hour)
					for range 3 {
						_ = call(t.Context())
					}
				}
				got := tr.within(t.Context(), func(ctx context.Context) { err = call(ctx) })
				if !strings.HasPrefix(got, strings.TrimSuffix(want, " retry_after=")) || (step < 2) != (err == nil) {
					t.Errorf("%s, step %d: %s, %v: want %s", name, step, got, err, want)
				}
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestGRPCClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, tr := one(t), newTracer()
		c, err := grpclimit.NewClient(grpclimit.ClientConfig{Limiter: lim})
		fatal(t, err)
		unary, streams := weirotel.UnaryClient(c), weirotel.StreamClient(c)
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
					hold(t, lim, []time.Duration{0, time.Second, time.Minute}[step])
				}
				got := tr.within(t.Context(), func(ctx context.Context) { err = call(ctx) })
				if !strings.HasPrefix(got, want) || (step < 2) != errors.Is(err, broken) {
					t.Errorf("%s, step %d: %s, %v: want %s", name, step, got, err, want)
				}
				_ = call(context.Background()) // without a span
			}
			time.Sleep(time.Hour)
		}
	})
}
