package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/proxy"
)

// What the origin learns about the client, and by which address the proxy knows it.
func TestForwarded(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}
	for _, tt := range []struct {
		name, peer, header string
		sends              []string
		want               string // X-Forwarded-For; -Host; -Proto; Forwarded; X-Real-Ip
		client             string // by which shares are counted
	}{
		{"a client", "192.0.2.1:5", "", nil, "192.0.2.1; shop.example; http; ; ", "192.0.2.1:5"},
		{"a client that lies", "192.0.2.1:5", "", []string{"X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9", "X-Forwarded-Host: evil", "X-Forwarded-Proto: https"},
			"192.0.2.1; shop.example; http; ; ", "192.0.2.1:5"},
		{"a proxy", "10.0.0.1:5", "", []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: www.example", "X-Forwarded-Proto: https"},
			"192.0.2.7, 10.0.0.1; www.example; https; ; ", "192.0.2.7:0"},
		{"a proxy with an IPv4 address in IPv6 form", "[::ffff:10.0.0.1]:5", "", []string{"X-Forwarded-For: 192.0.2.7"}, "192.0.2.7, 10.0.0.1; shop.example; http; ; ", "192.0.2.7:0"},
		{"a proxy of a client that lies", "10.0.0.1:5", "", []string{"X-Forwarded-For: 203.0.113.9, 192.0.2.7"}, "203.0.113.9, 192.0.2.7, 10.0.0.1; shop.example; http; ; ", "192.0.2.7:0"},
		{"two proxies", "10.0.0.1:5", "", []string{"X-Forwarded-For: 192.0.2.7, 10.0.0.2"}, "192.0.2.7, 10.0.0.2, 10.0.0.1; shop.example; http; ; ", "192.0.2.7:0"},
		{"several lines", "10.0.0.1:5", "", []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-For: 10.0.0.2"}, "192.0.2.7, 10.0.0.2, 10.0.0.1; shop.example; http; ; ", "192.0.2.7:0"},
		{"a proxy itself", "10.0.0.1:5", "", nil, "10.0.0.1; shop.example; http; ; ", "10.0.0.1:5"},
		{"a proxy that says nonsense", "10.0.0.1:5", "", []string{"X-Forwarded-For: unknown"}, "unknown, 10.0.0.1; shop.example; http; ; ", "10.0.0.1:5"},
		{"an IPv6 client", "[2001:db8:1::1]:5", "", []string{"X-Forwarded-For: 2001:db8:9::7"}, "2001:db8:9::7, 2001:db8:1::1; shop.example; http; ; ", "[2001:db8:9::7]:0"},
		{"Forwarded", "10.0.0.1:5", "Forwarded", []string{`Forwarded: for="[2001:db8:9::7]:80";proto=https`, "X-Forwarded-For: 203.0.113.9"},
			`203.0.113.9, 10.0.0.1; shop.example; http; for="[2001:db8:9::7]:80";proto=https, for=10.0.0.1;proto=http; `, "[2001:db8:9::7]:0"},
		{"Forwarded, by IPv6", "[2001:db8:1::1]:5", "forwarded", []string{`Forwarded: for=192.0.2.7`}, `2001:db8:1::1; shop.example; http; for=192.0.2.7, for="[2001:db8:1::1]";proto=http; `, "192.0.2.7:0"},
		{"X-Real-IP", "10.0.0.1:5", "X-Real-IP", []string{"X-Real-IP: 192.0.2.7"}, "10.0.0.1; shop.example; http; ; 192.0.2.7", "192.0.2.7:0"},
		{"a client that sends X-Real-IP", "192.0.2.1:5", "X-Real-IP", []string{"X-Real-IP: 203.0.113.9"}, "192.0.2.1; shop.example; http; ; 192.0.2.1", "192.0.2.1:5"},
		{"no address at all", "@", "", nil, "@; shop.example; http; ; ", "@"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			p := newProxy(t, proxy.Config{
				Trust: proxy.Trust{Networks: trusted, Header: tt.header},
				Transport: origin(func(r *http.Request) (*http.Response, error) {
					var all []string
					for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-Ip"} {
						all = append(all, strings.Join(r.Header[name], " | "))
					}
					got = strings.Join(all, "; ")
					return answer(200), nil
				}),
			})
			r := testrig.Request("GET", "http://shop.example/", tt.sends...)
			r.RemoteAddr = tt.peer
			p.ServeHTTP(httptest.NewRecorder(), r)
			if got != tt.want {
				t.Errorf("the origin gets %s: want %s", got, tt.want)
			}
			if client := p.ClientOf(r); client != tt.client {
				t.Errorf("the client is %s: want %s", client, tt.client)
			}
		})
	}
}

// The clients of a trusted proxy share the places for long-lived exchanges by their own
// addresses.
func TestLongLivedBehindAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{
			Transport: origin(ample), Limit: proxy.FixedLimit(20), LongLived: 10,
			Trust: proxy.Trust{Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}},
		})
		stream := func(client string) {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://shop.example/events", nil)
			r.RemoteAddr = "192.0.2.1:5"
			r.Header.Set("X-Forwarded-For", client)
			go p.ServeHTTP(httptest.NewRecorder(), r)
			time.Sleep(s)
		}
		for range 8 {
			stream("198.51.100.1")
		}
		if n := p.Stats().LongLived; n != 5 {
			t.Errorf("%d long-lived of one client: want half of ten", n)
		}
		stream("198.51.100.2")
		if n := p.Stats().LongLived; n != 6 {
			t.Errorf("%d long-lived: want one of another client", n)
		}
		time.Sleep(time.Hour)
		long(t, p, 0)
	})
}

// A body beyond MaxBody gets 413, and reaches the origin only in part, if at all.
func TestMaxBody(t *testing.T) {
	for name, tt := range map[string]struct {
		length, says int64
		want         int
	}{
		"small":               {100, 100, 200},
		"as large as allowed": {1000, 1000, 200},
		"larger":              {1001, 1001, 413},
		"chunked":             {1000, -1, 200},
		"chunked, larger":     {100_000, -1, 413},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, proxy.Config{MaxBody: 1000, Transport: answers(200, 0)})
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://shop.example/", strings.NewReader(strings.Repeat("x", int(tt.length))))
			r.ContentLength = tt.says
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("%d %s: want %d", w.Code, w.Body, tt.want)
			}
			want(t, p, 0, 0)
		})
	}
}
