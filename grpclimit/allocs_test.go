//go:build !race

package grpclimit_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/grpclimit"
	"google.golang.org/grpc"
)

// Admission allocates nothing where there are no rules, and one context where there are. One limit
// for all methods costs another one, which has the route. A refusal is shared.
func TestAllocs(t *testing.T) {
	ctx := served(t.Context())
	info := &grpc.UnaryServerInfo{FullMethod: emptyCall}
	next := func(context.Context, any) (any, error) { return nil, nil }
	refused := refuse{weir.Reject(weir.OverLimit, 0)}
	for _, tt := range []struct {
		name string
		cfg  grpclimit.Config
		most float64
	}{
		{"auto", grpclimit.Config{PerClass: grpclimit.Auto}, 0},
		{"a rule", grpclimit.Config{Rules: []grpclimit.Rule{perClient(t)}}, 1},
		{"one limit", grpclimit.Config{Limiter: grpclimit.Auto("")}, 1},
		{"refused", grpclimit.Config{PerClass: func(string) weir.Limiter { return refused }}, 0},
		{"refused by one limit", grpclimit.Config{Limiter: refused}, 1},
	} {
		unary := interceptor(t, tt.cfg).Unary()
		for range 2000 { // the shared ones are made
			_, _ = unary(ctx, nil, info, next)
		}
		if n := testing.AllocsPerRun(1000, func() { _, _ = unary(ctx, nil, info, next) }); n > tt.most {
			t.Errorf("%s: %v allocations, want %v", tt.name, n, tt.most)
		}
	}
}
