package mismatch_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/mismatch"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/upstream"
)

// other is another program with HTTP.
var other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Server", "other/1.0")
	http.Error(w, "<html><title>Not\nfound</title></html>", http.StatusNotFound)
})

// raw serves TLS without HTTP: what is no TLS gets an alert.
func raw(t *testing.T) (host string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte("\x15\x03\x01\x00\x02\x02\x46"))
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	return ln.Addr().String()
}

// A link and an exchange with another program, or with TLS or without it by mistake, say what is wrong.
func TestExplain(t *testing.T) {
	plain, secure := httptest.NewServer(other), httptest.NewTLSServer(other)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	trust := secure.Client().Transport.(*http.Transport).TLSClientConfig
	plainHost, secureHost := strings.TrimPrefix(plain.URL, "http://"), strings.TrimPrefix(secure.URL, "https://")
	rawHost := raw(t)
	for _, c := range []struct{ url, link, exchange string }{
		{plain.URL, `it answers status 404 to GET /-/leaf: "Not found" (Server: "other/1.0"): it is no weir serve that can be an upstream`, "it serves TLS (then give https://" + plainHost + "), or is no weir serve"},
		{secure.URL, `it answers status 404 to GET /-/leaf: "Not found" (Server: "other/1.0"): it is no weir serve that can be an upstream`, secureHost + " does not speak HTTP/2 over TLS: it is no weir serve, or "},
		{"http://" + secureHost, secureHost + " serves TLS: give https://" + secureHost, "it serves TLS (then give https://" + secureHost + "), or is no weir serve"},
		{"https://" + plainHost, plainHost + " does not serve TLS: give http://" + plainHost, plainHost + " does not serve TLS: give http://" + plainHost},
		{"http://" + rawHost, rawHost + " serves TLS: give https://" + rawHost, "it serves TLS (then give https://" + rawHost + "), or is no weir serve"},
		{"http://127.0.0.1:1", "dial tcp 127.0.0.1:1", "upstream: dial tcp 127.0.0.1:1"},
	} {
		states := make(chan peer.State, 10)
		link, err := peer.New(peer.Config{URL: c.url, Path: wire.LeafPath, TLS: trust, OnState: func(s peer.State) { states <- s }})
		if err != nil {
			t.Fatal(err)
		}
		if s := <-states; s.Err == nil || !strings.Contains(s.Err.Error(), c.link) {
			t.Errorf("a link to %s: %v, want %s", c.url, s.Err, c.link)
		}
		_ = link.Close()
		client, err := upstream.New(upstream.Config{URL: c.url, TLS: trust, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Exchange(t.Context(), &leaf.Exchange{Leaf: "a"}); err == nil || !strings.Contains(err.Error(), c.exchange) {
			t.Errorf("an exchange with %s: %v, want %s", c.url, err, c.exchange)
		}
		client.Close()
	}
}

// The text of an answer is one short line.
func TestText(t *testing.T) {
	for body, want := range map[string]string{
		"": "", "not found\n": "not found", "<p>a <b>c</b>\r\n\td": "a c d", `{"error":"x < y"}`: `{"error":"x < y"}`,
		strings.Repeat("é", 70): strings.Repeat("é", 60) + "…", "\xffa": "a",
	} {
		if got := mismatch.Text(body); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}
