package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// proxying runs weir proxy on free ports until the test ends.
func proxying(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	args = append([]string{"proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", "0s"}, args...)
	return watch(t, stop, func(log io.Writer) int { return program.Run(ctx, args, io.Discard, log) })
}

// get sends a request.
func (s *served) get() answered {
	s.t.Helper()
	a, err := tryAsk(http.DefaultClient, "GET", s.public)
	fatal(s.t, err)
	return a
}

// times waits until the log has a number of lines with a text.
func (s *served) times(text string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		seen := 0
		for _, line := range s.log {
			if strings.Contains(line, text) {
				seen++
			}
		}
		if seen >= n {
			return
		}
		if s.over {
			s.t.Fatalf("the log ends without %d times %q: %q", n, text, s.log)
		}
		s.grew.Wait()
	}
}

// echo is an origin that says how a request came to it.
func echo(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s for %s by %s, forwarded %s", r.Proto, r.Host, r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"], r.Header["Forwarded"])
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			fmt.Fprintf(w, ", certificate %d", r.TLS.PeerCertificates[0].SerialNumber)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// Clients speak HTTP/1.1 and HTTP/2 over TLS. Certificates and authorities are loaded again.
func TestProxyTLS(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t, "ours"), newAuthority(t, "another")
	files := newTLSFiles(t, ca)
	origin := echo(t)
	origin.Start()
	s := proxying(t, append(files.flags(), "--origin", origin.URL, "--tls-client-ca", files.ca)...)
	for _, tt := range []struct {
		rule   string
		client *http.Client
		proto  string // empty: refused
	}{
		{"HTTP/2", ca.client(t, ca, true), "HTTP/2.0"},
		{"HTTP/1.1", ca.client(t, ca, false), "HTTP/1.1"},
		{"a client without a certificate", ca.client(t, nil, true), ""},
		{"a certificate of another authority", ca.client(t, other, true), ""},
	} {
		a, err := tryAsk(tt.client, "GET", s.public)
		if (err != nil) != (tt.proto == "") || a.proto != tt.proto {
			t.Errorf("%s: %v, %v: want %s", tt.rule, a, err, tt.proto)
		}
		if want := "HTTP/1.1 " + strings.TrimPrefix(s.public, "https://") + " for [127.0.0.1] by [https], forwarded []"; err == nil && a.body != want {
			t.Errorf("%s: the origin gets %s: want %s", tt.rule, a.body, want)
		}
	}
	serial := func(c *http.Client) int64 {
		resp, err := c.Get(s.public)
		fatal(t, err)
		resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	files.renew(ca, 2)
	s.until("certificates and tokens reloaded")
	if n := serial(ca.client(t, ca, true)); n != 2 {
		t.Errorf("certificate %d: want the new one", n)
	}
	fatal(t, os.WriteFile(files.key, []byte("not a key"), 0o600))
	s.until("reload of certificates and tokens failed")
	if n := serial(ca.client(t, ca, true)); n != 2 {
		t.Errorf("certificate %d: want the last good one", n)
	}
	stays := ca.client(t, ca, true)
	stays.Transport.(*http.Transport).DisableKeepAlives = false
	serial(stays)
	files.renew(ca, 3)
	s.times("certificates and tokens reloaded", 2)
	files.trust(other)
	s.times("certificates and tokens reloaded", 3)
	if _, err := ca.client(t, ca, true).Get(s.public); err == nil {
		t.Error("a client of the authority that was removed is served on a new connection")
	}
	answers := 0
	for ; answers < 100; answers++ { // the first, and some that overtake GOAWAY
		resp, err := stays.Get(s.public)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if answers > 5 {
		t.Errorf("%d more answers on a connection from before", answers)
	}
	s.end()
}

// Origins are reached over HTTP/2, with TLS, an authority of our own and a certificate, or
// without TLS.
func TestProxyToTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ours")
	files := newTLSFiles(t, ca)
	cert, err := tls.LoadX509KeyPair(files.cert, files.key)
	fatal(t, err)
	origin := echo(t)
	origin.EnableHTTP2 = true
	origin.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}
	origin.StartTLS()
	client := newTLSFiles(t, ca)
	s := proxying(t, "--origin", origin.URL, "--origin-ca", files.ca, "--origin-cert", client.cert, "--origin-key", client.key)
	host := strings.TrimPrefix(s.public, "http://")
	if a := s.get(); a.body != "HTTP/2.0 "+host+" for [127.0.0.1] by [http], forwarded [], certificate 1" {
		t.Errorf("%d %s", a.status, a.body)
	}
	client.renew(ca, 7)
	s.until("certificates and tokens reloaded")
	if a := s.get(); !strings.HasSuffix(a.body, "certificate 7") {
		t.Errorf("%d %s: want the new certificate", a.status, a.body)
	}
	s.end()

	plain := proxying(t, "--origin", origin.URL) // no authority
	if a := plain.get(); a.status != 502 || !strings.Contains(a.body, "origin_unreachable") {
		t.Errorf("an unknown authority: %d %s", a.status, a.body)
	}
	named := proxying(t, "--origin", origin.URL, "--origin-ca", files.ca, "--origin-cert", client.cert, "--origin-key", client.key, "--origin-server-name", "other.example")
	if a := named.get(); a.status != 502 || !strings.Contains(a.body, "origin_unreachable") {
		t.Errorf("another name: %d %s", a.status, a.body)
	}

	cleartext := echo(t)
	cleartext.Config.Protocols = new(http.Protocols)
	cleartext.Config.Protocols.SetUnencryptedHTTP2(true)
	cleartext.Start()
	h2c := proxying(t, "--origin", strings.Replace(cleartext.URL, "http:", "h2c:", 1))
	if a := h2c.get(); !strings.HasPrefix(a.body, "HTTP/2.0 ") {
		t.Errorf("h2c: %d %s", a.status, a.body)
	}
}

// The proxy believes only trusted proxies about their clients.
func TestProxyTrust(t *testing.T) {
	origin := echo(t)
	origin.Start()
	ask := func(s *served, headers ...string) string {
		req, err := http.NewRequest("GET", s.public, nil)
		fatal(t, err)
		req.Host = "shop.example"
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Add(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		fatal(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		fatal(t, err)
		return strings.TrimPrefix(string(body), "HTTP/1.1 shop.example for ")
	}
	claims := []string{"X-Forwarded-For: 198.51.100.1, 203.0.113.5", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.5"}
	trusts := proxying(t, "--origin", origin.URL, "--trust", "127.0.0.0/8,::1")
	if got, want := ask(trusts, claims...), "[198.51.100.1, 203.0.113.5, 127.0.0.1] by [https], forwarded [for=203.0.113.5, for=127.0.0.1;proto=http]"; got != want {
		t.Errorf("of a trusted proxy: %s, want %s", got, want)
	}
	for _, s := range []*served{proxying(t, "--origin", origin.URL), proxying(t, "--origin", origin.URL, "--trust", "192.0.2.0/24")} {
		if got, want := ask(s, claims...), "[127.0.0.1] by [http], forwarded []"; got != want {
			t.Errorf("of another client: %s, want %s", got, want)
		}
	}
}

// With --proxy-protocol, connections have the address of the header, also with TLS behind it.
func TestProxyProtocol(t *testing.T) {
	origin := echo(t)
	origin.Start()
	ca := newAuthority(t, "ours")
	files := newTLSFiles(t, ca)
	header := proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("198.51.100.1:4711")), net.TCPAddrFromAddrPort(netip.MustParseAddrPort("203.0.113.5:443")))
	for _, secure := range []bool{false, true} {
		args := []string{"--origin", origin.URL, "--trust", "127.0.0.1", "--proxy-protocol"}
		if secure {
			args = append(args, files.flags()...)
		}
		s := proxying(t, args...)
		c, err := net.Dial("tcp", s.public[strings.Index(s.public, "//")+2:])
		fatal(t, err)
		defer c.Close()
		_, err = header.WriteTo(c)
		fatal(t, err)
		if secure {
			cfg := ca.config(t, nil)
			cfg.ServerName = "127.0.0.1"
			c = tls.Client(c, cfg)
		}
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		fatal(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		fatal(t, err)
		body, err := io.ReadAll(resp.Body)
		fatal(t, err)
		if !strings.Contains(string(body), "for [198.51.100.1] by") {
			t.Errorf("TLS %v: %s", secure, body)
		}
		bare, err := net.Dial("tcp", s.public[strings.Index(s.public, "//")+2:])
		fatal(t, err)
		defer bare.Close()
		_, err = io.WriteString(bare, "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		fatal(t, err)
		if got, _ := io.ReadAll(bare); len(got) > 0 {
			t.Errorf("a trusted proxy without a header: %q", got)
		}
		s.until("no header of the PROXY protocol")
	}
}

func TestProxyWireRefused(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	files := newTLSFiles(t, a)
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--tls-cert a", 2, "--tls-cert and --tls-key need each other"},
		{"--tls-client-ca a", 2, "--tls-client-ca needs --tls-cert and --tls-key"},
		{"--origin-key a", 2, "--origin-cert and --origin-key need each other"},
		{"--tls-cert /none --tls-key /none", 1, "--tls-cert, --tls-key, --tls-client-ca: open /none"},
		{"--tls-cert " + files.key + " --tls-key " + files.cert, 1, "--tls-cert, --tls-key, --tls-client-ca: "},
		{"--origin-ca " + files.key, 1, "there is no certificate in it"},
		{"--trust 10.0.0.0/8,ten", 2, "--trust=ten: must be a network such as 10.0.0.0/8, an address, or unix"},
		{"--trust 10.0.0.0/33", 2, "--trust=10.0.0.0/33"},
		{"--admin-tokens /none", 1, "--admin-tokens: open /none"},
		{"--admin-tls", 2, "--admin-tls needs --tls-cert and --tls-key"},
		{"--proxy-protocol", 2, "--proxy-protocol needs --trust"},
		{"--trust-header a:b", 2, `--trust-header="a:b"`},
		{"--max-header 10", 2, "--max-header=10"},
		{"--header-timeout 0s", 2, "--header-timeout=0s: must be >= 1ms"},
		{"--origin http://127.0.0.1:1", 2, `--origin="http://127.0.0.1:1": is there twice`},
		{"--origin gopher://a", 2, `--origin="gopher://a": must be an absolute http, https, h2c or unix URL`},
	} {
		args := append([]string{"proxy", "--origin", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, strings.Fields(tt.args)...)
		if code, _, stderr := weir(t, args...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit status %d, %s: want %d, %s", tt.args, code, stderr, tt.code, tt.want)
		}
	}
}
