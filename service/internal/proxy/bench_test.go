package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/weir-go/weir/service/internal/proxy"
)

// A request over loopback HTTP: to the origin itself, through the standard
// library's proxy with the same transport, through weir, and refused by weir.
func BenchmarkProxy(b *testing.B) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	}))
	defer origin.Close()
	target, err := url.Parse(origin.URL)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	defer transport.CloseIdleConnections()
	plain := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
		Transport: transport,
	}
	for _, c := range []struct {
		name    string
		handler http.Handler
		status  int
	}{
		{"origin", nil, 200},
		{"stdlib", plain, 200},
		{"weir", newProxy(b, proxy.Config{Origins: []string{origin.URL}, Limit: proxy.FixedLimit(1000)}), 200},
		{"weir-refuses", newProxy(b, proxy.Config{Origins: []string{origin.URL}, Limit: proxy.FixedLimit(0)}), 503},
	} {
		b.Run(c.name, func(b *testing.B) {
			to := origin.URL
			if c.handler != nil {
				front := httptest.NewServer(c.handler)
				defer front.Close()
				to = front.URL
			}
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					resp, err := client.Get(to)
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != c.status {
						b.Errorf("%d, %v", resp.StatusCode, err)
					}
					resp.Body.Close()
				}
			})
		})
	}
}

// What a refusal costs without the network around it.
func BenchmarkReject(b *testing.B) {
	p := newProxy(b, proxy.Config{Limit: proxy.FixedLimit(0)})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		p.ServeHTTP(w, r)
	}
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// What a file of rules adds to a request, without the network around it: none; a rate for all
// requests; and several rules and classes, of which some do not apply.
func BenchmarkRules(b *testing.B) {
	for _, c := range []struct{ name, rules string }{
		{"none", ""},
		{"empty", "mode: enforce"},
		{"one", "rules: [{name: a, by: address, rate: 1000000000/s}]"},
		{"several", `
rules:
- {name: clients, by: [header X-Api-Key, address], rate: 1000000000/s, except: [/healthz, /static/]}
- {name: logins, by: address, rate: 5/m, routes: POST /login}
classes:
- {name: reports, routes: [/reports/, "GET /export/{id}"], limit: 5}
`},
	} {
		b.Run(c.name, func(b *testing.B) {
			cfg := proxy.Config{Limit: proxy.FixedLimit(1000), Transport: origin(func(*http.Request) (*http.Response, error) { return answer(200), nil })}
			p := newProxy(b, cfg)
			if c.rules != "" {
				p = withRules(b, c.rules, cfg).Proxy
			}
			r := httptest.NewRequest(http.MethodGet, "/users/7", nil)
			b.ReportAllocs()
			for b.Loop() {
				p.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}
