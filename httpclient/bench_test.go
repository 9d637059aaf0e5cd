package httpclient

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/httplimit"
)

// instant is a Base that answers at once, with the same response.
type instant struct{ resp *http.Response }

func (i instant) RoundTrip(*http.Request) (*http.Response, error) { return i.resp, nil }

// What a Transport adds to a Base that costs nothing.
func BenchmarkTransport(b *testing.B) {
	response := func(headers ...string) *http.Response {
		resp := reply(200, headers...)
		resp.Body = http.NoBody
		return resp
	}
	fields := []string{`RateLimit: "default";r=50;t=30`, `RateLimit-Policy: "default";q=100;w=60`}
	named := Config{Deadline: "X-Request-Timeout", Criticality: "X-Criticality"}
	for _, c := range []struct {
		name string
		cfg  *Config
		resp *http.Response
	}{
		{"base", nil, response()},
		{"off", &Config{MaxHold: -1, Throttle: noThrottle, Retry: noRetry}, response()},
		{"default", &Config{}, response()},
		{"limit", &Config{PerHost: httplimit.Auto}, response()},
		{"RateLimit", &Config{}, response(fields...)},
		{"headers", &named, response()},
	} {
		b.Run(c.name, func(b *testing.B) {
			var rt http.RoundTripper = instant{c.resp}
			if c.cfg != nil {
				c.cfg.Base = rt
				tr, err := New(*c.cfg)
				testrig.Must(b, err)
				rt = tr
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				r := get(ctx, "https://one.example/path")
				for pb.Next() {
					resp, err := rt.RoundTrip(r)
					testrig.Must(b, err)
					resp.Body.Close()
				}
			})
		})
	}
}

// What it adds over loopback.
func BenchmarkTransportOverLoopback(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Ratelimit"] = []string{`"default";r=50;t=30`}
		io.WriteString(w, "hello")
	}))
	defer srv.Close()
	base := srv.Client().Transport
	tr, err := New(Config{Base: base, PerHost: httplimit.Auto})
	testrig.Must(b, err)
	for name, rt := range map[string]http.RoundTripper{"base": base, "transport": tr} {
		b.Run(name, func(b *testing.B) {
			client := &http.Client{Transport: rt}
			b.ReportAllocs()
			for b.Loop() {
				resp, err := client.Get(srv.URL)
				testrig.Must(b, err)
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}

// A request that nothing holds back costs no allocation, nor does one that is
// refused.
func TestAllocationsOfATransport(t *testing.T) {
	ok := reply(200)
	ok.Body = http.NoBody
	tr, err := New(Config{Base: instant{ok}, PerHost: httplimit.Auto})
	testrig.Must(t, err)
	r := get(context.Background(), "https://one.example:443/path")
	allocations(t, "sent", 0, func() { tr.RoundTrip(r) })

	limited := reply(429, "Retry-After: 3600")
	limited.Body = http.NoBody
	if tr, err = New(Config{Base: instant{limited}}); err != nil {
		t.Fatal(err)
	}
	tr.RoundTrip(r)
	allocations(t, "refused", 0, func() {
		if _, err := tr.RoundTrip(r); err == nil {
			t.Fatal("it was sent")
		}
	})
}

func allocations(t *testing.T, what string, most float64, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n > most {
		t.Errorf("%s: %v allocations: want %v", what, n, most)
	}
}
