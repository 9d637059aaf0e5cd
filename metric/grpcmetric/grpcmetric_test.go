package grpcmetric_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"

	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/metric/grpcmetric"
	"github.com/weir-go/weir/throttle"
)

// Both constructors read their sources, beside those of package metric.
func TestConstructors(t *testing.T) {
	lim, err := inflight.New(inflight.Config{})
	testrig.Must(t, err)
	server, err := grpclimit.New(grpclimit.Config{PerClass: grpclimit.Auto})
	testrig.Must(t, err)
	client, err := grpclimit.NewClient(grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 2}, Limiter: lim})
	testrig.Must(t, err)
	site, err := httplimit.New(httplimit.Config{PerClass: httplimit.Auto})
	testrig.Must(t, err)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(grpcmetric.NewServer("grpc", server), grpcmetric.NewClient("client", client), metric.NewHTTP("http", site))

	_, err = server.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/shop.Cart/Add"},
		func(ctx context.Context, _ any) (any, error) { return "added", nil })
	testrig.Must(t, err)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, line := range []string{
		`weir_decisions_total{class="/shop.Cart/Add",decision="admit",name="grpc",reason=""} 1`,
		`weir_wait_seconds_bucket{class="/shop.Cart/Add",name="grpc",le="0.001"} 1`,
		`weir_wasted_total{class="/shop.Cart/Add",name="grpc"} 0`,
		`weir_long_lived{name="grpc"} 0`,
		`weir_throttle_refusal_ratio{name="client"} 0`,
		`weir_client_refused_total{name="client",reason="cancel"} 0`,
		`weir_client_refused_total{name="client",reason="paced"} 0`,
		`weir_limit{class="",name="client"} 10`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}

// Mistakes of the caller panic.
func TestMistakes(t *testing.T) {
	client, err := grpclimit.NewClient(grpclimit.ClientConfig{})
	testrig.Must(t, err)
	for want, mistake := range map[string]func(){
		"metric: the source is nil":              func() { grpcmetric.NewServer("a", nil) },
		"metric: the name is empty or not UTF-8": func() { grpcmetric.NewClient("", client) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("%v: want %s", got, want)
				}
			}()
			mistake()
		}()
	}
}
