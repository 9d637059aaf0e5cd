package proxy_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/clients"
)

// What the origin learns about the client, and by which address the proxy knows it.
func TestForwarded(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}
	const unix = "unix:@" // a peer at a Unix socket, and what net/http says of its address
	for _, tt := range []struct {
		name, peer, header string
		sends              []string
		want               string // X-Forwarded-For; -Host; -Proto; -Port; Forwarded; X-Real-Ip
		client             string // by which shares are counted
	}{
		{"a client", "192.0.2.1:5", "", nil, "192.0.2.1; shop.example; http; ; ; ", "192.0.2.1:5"},
		{"a client of IPv6", "[2001:db8:9::7]:5", "", nil, "2001:db8:9::7; shop.example; http; ; ; ", "[2001:db8:9::7]:5"},
		{"a client that lies", "192.0.2.1:5", "", []string{"X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9", "X-Forwarded-Host: evil", "X-Forwarded-Proto: https",
			"X-Forwarded-Port: 8443", "X-Real-IP: 203.0.113.9"},
			"192.0.2.1; shop.example; http; 80; ; 192.0.2.1", "192.0.2.1:5"},
		{"a proxy", "10.0.0.1:5", "", []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: www.example", "X-Forwarded-Proto: https", "X-Forwarded-Port: 8443"},
			"192.0.2.7, 10.0.0.1; www.example; https; 8443; ; ", "192.0.2.7:0"},
		{"a proxy that lets its client choose X-Real-IP", "10.0.0.1:5", "", []string{"X-Forwarded-For: 192.0.2.7", "X-Real-IP: 203.0.113.9"},
			"192.0.2.7, 10.0.0.1; shop.example; http; ; ; 192.0.2.7", "192.0.2.7:0"},
		{"a proxy with an IPv4 address in IPv6 form", "[::ffff:10.0.0.1]:5", "", []string{"X-Forwarded-For: 192.0.2.7"}, "192.0.2.7, 10.0.0.1; shop.example; http; ; ; ", "192.0.2.7:0"},
		{"a proxy of a client that lies", "10.0.0.1:5", "", []string{"X-Forwarded-For: 203.0.113.9, 192.0.2.7"}, "203.0.113.9, 192.0.2.7, 10.0.0.1; shop.example; http; ; ; ", "192.0.2.7:0"},
		{"two proxies", "10.0.0.1:5", "", []string{"X-Forwarded-For: 192.0.2.7, 10.0.0.2"}, "192.0.2.7, 10.0.0.2, 10.0.0.1; shop.example; http; ; ; ", "192.0.2.7:0"},
		{"several lines", "10.0.0.1:5", "", []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-For: 10.0.0.2"}, "192.0.2.7, 10.0.0.2, 10.0.0.1; shop.example; http; ; ; ", "192.0.2.7:0"},
		{"a proxy itself", "10.0.0.1:5", "", nil, "10.0.0.1; shop.example; http; ; ; ", "10.0.0.1:5"},
		{"a proxy that says nonsense", "10.0.0.1:5", "", []string{"X-Forwarded-For: unknown"}, "unknown, 10.0.0.1; shop.example; http; ; ; ", "10.0.0.1:5"},
		{"an IPv6 client", "[2001:db8:1::1]:5", "", []string{"X-Forwarded-For: 2001:db8:9::7"}, "2001:db8:9::7, 2001:db8:1::1; shop.example; http; ; ; ", "[2001:db8:9::7]:0"},
		{"Forwarded", "10.0.0.1:5", "Forwarded", []string{`Forwarded: for="[2001:db8:9::7]:80";proto=https`, "X-Forwarded-For: 203.0.113.9"},
			`203.0.113.9, 10.0.0.1; shop.example; http; ; for="[2001:db8:9::7]:80";proto=https, for=10.0.0.1;proto=http; `, "[2001:db8:9::7]:0"},
		{"Forwarded, with an obfuscated port", "10.0.0.1:5", "Forwarded", []string{`Forwarded: for="192.0.2.7:_a"`},
			`10.0.0.1; shop.example; http; ; for="192.0.2.7:_a", for=10.0.0.1;proto=http; `, "192.0.2.7:0"},
		{"Forwarded, by IPv6", "[2001:db8:1::1]:5", "forwarded", []string{`Forwarded: for=192.0.2.7`}, `2001:db8:1::1; shop.example; http; ; for=192.0.2.7, for="[2001:db8:1::1]";proto=http; `, "192.0.2.7:0"},
		{"X-Real-IP", "10.0.0.1:5", "X-Real-IP", []string{"X-Real-IP: 192.0.2.7"}, "10.0.0.1; shop.example; http; ; ; 192.0.2.7", "192.0.2.7:0"},
		{"a client that sends X-Real-IP", "192.0.2.1:5", "X-Real-IP", []string{"X-Real-IP: 203.0.113.9"}, "192.0.2.1; shop.example; http; ; ; 192.0.2.1", "192.0.2.1:5"},
		{"no address at all", "@", "", []string{"X-Forwarded-For: 203.0.113.9", "X-Real-IP: 203.0.113.9"}, "; shop.example; http; ; ; ", "@"},
		{"a Unix socket", unix, "", []string{"X-Forwarded-For: 203.0.113.9", "X-Real-IP: 203.0.113.9"}, "; shop.example; http; ; ; ", "unix:"},
		{"a Unix socket with the name of a client", "unix:192.0.2.9:5", "", nil, "; shop.example; http; ; ; ", "unix:"},
		{"a Unix socket with the name of a proxy", "unix:10.0.0.1:5", "", []string{"X-Forwarded-For: 203.0.113.9"}, "; shop.example; http; ; ; ", "unix:"},
		{"a Unix socket that is trusted", unix, "trusted", []string{"X-Forwarded-For: 203.0.113.9, 192.0.2.7, 10.0.0.2", "X-Forwarded-Proto: https"},
			"203.0.113.9, 192.0.2.7, 10.0.0.2; shop.example; https; ; ; ", "192.0.2.7:0"},
		{"a Unix socket that is trusted, and says nothing", unix, "trusted", nil, "; shop.example; http; ; ; ", "unix:"},
		{"a Unix socket that is trusted, with Forwarded", unix, "trusted Forwarded", []string{"Forwarded: for=192.0.2.7"}, "; shop.example; http; ; for=192.0.2.7, for=unknown;proto=http; ", "192.0.2.7:0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			header, trustsUnix := strings.CutPrefix(tt.header, "trusted")
			p := newProxy(t, proxy.Config{
				Trust: clients.Trust{Proxies: caller.Trust(trusted, trustsUnix), Header: strings.TrimSpace(header)},
				Transport: origin(func(r *http.Request) (*http.Response, error) {
					var all []string
					for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "Forwarded", "X-Real-Ip"} {
						all = append(all, strings.Join(r.Header[name], " | "))
					}
					got = strings.Join(all, "; ")
					return answer(200), nil
				}),
			})
			r := testrig.Request("GET", "http://shop.example/", tt.sends...)
			remote, isUnix := strings.CutPrefix(tt.peer, "unix:")
			if r.RemoteAddr = remote; isUnix {
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/weir.sock", Net: "unix"}))
			}
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

// An X-Forwarded-Port becomes the port of the Host, or that of the protocol.
func TestForwardedPort(t *testing.T) {
	for host, want := range map[string]string{
		"shop.example": "80", "shop.example:8080": "8080", "[2001:db8::1]": "80", "[2001:db8::1]:81": "81", "shop.example:": "80", "shop.example:x": "80", "": "80",
	} {
		p := newProxy(t, proxy.Config{Transport: origin(func(r *http.Request) (*http.Response, error) {
			if got := r.Header["X-Forwarded-Port"]; len(got) != 1 || got[0] != want {
				t.Errorf("of Host %q: %q: want %s", host, got, want)
			}
			return answer(200), nil
		})})
		r := testrig.Request("GET", "http://shop.example/", "X-Forwarded-Port: 1")
		r.Host = host
		p.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// The rules of a proxy count the clients behind a Unix socket that is trusted one by one; all others
// at Unix sockets are one client.
func TestRulesOfUnixSockets(t *testing.T) {
	for unix, want := range map[bool]int{true: 200, false: 429} {
		p := withRules(t, "rules: [{name: a, by: address, rate: 1/h}]", proxy.Config{
			Trust: clients.Trust{Proxies: caller.Trust(nil, unix)}, Transport: answers(200, 0),
		})
		for i, client := range []string{"192.0.2.7", "192.0.2.8"} {
			r := testrig.Request("GET", "http://shop.example/", "X-Forwarded-For: "+client)
			r.RemoteAddr = client + ":5" // as the path of the client
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/weir.sock", Net: "unix"}))
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if i == 1 && w.Code != want {
				t.Errorf("trusted %v: the second client gets %d: want %d", unix, w.Code, want)
			}
		}
	}
}

// The clients of a trusted proxy share the places for long-lived exchanges by their own
// addresses.
func TestLongLivedBehindAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{
			Transport: origin(ample), Limit: proxy.FixedLimit(20), LongLived: 10,
			Trust: clients.Trust{Proxies: caller.Trust([]netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}, false)},
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
