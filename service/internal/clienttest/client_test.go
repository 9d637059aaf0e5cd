package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
)

func TestBadConfig(t *testing.T) {
	const url = "http://127.0.0.1:8080"
	for _, tt := range []struct {
		cfg  client.Config
		want string // in the error; empty: none
	}{
		{client.Config{URL: url}, ""},
		{client.Config{URL: "https://weir.example/limits/"}, ""},
		{client.Config{}, `URL = ""`},
		{client.Config{URL: "127.0.0.1:8080"}, "URL"},
		{client.Config{URL: "ftp://a"}, "URL"},
		{client.Config{URL: "http://"}, "URL"},
		{client.Config{URL: "http://a?b"}, "URL"},
		{client.Config{URL: "http://a#b"}, "URL"},
		{client.Config{URL: "http://user:secret@a"}, "URL"},
		{client.Config{URL: url, Token: "a\nb"}, "Token"},
		{client.Config{URL: url, Timeout: -1}, "Timeout = -1ns"},
		{client.Config{URL: url, MaxWait: -1}, "MaxWait = -1ns"},
		{client.Config{URL: url, MaxWait: math.MaxInt64}, "MaxWait"},
		{client.Config{URL: url, TTL: -1}, "TTL = -1ns"},
		{client.Config{URL: url, Queue: -1}, "Queue = -1"},
		{client.Config{URL: url, Away: 3}, "Away = 3"},
		{client.Config{URL: url, Share: -0.5}, "Share = -0.5"},
		{client.Config{URL: url, Share: 1.5}, "Share = 1.5"},
		{client.Config{URL: url, Share: math.NaN()}, "Share = NaN"},
	} {
		c, err := client.New(tt.cfg)
		if err == nil {
			must(t, c.Close())
		}
		switch {
		case tt.want == "":
			must(t, err)
		case err == nil || !strings.HasPrefix(err.Error(), "client: "+tt.want):
			t.Errorf("%+v: %v: want client: %s", tt.cfg, err, tt.want)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%v: tells a secret", err)
		}
	}
}

// The Client's own transport speaks HTTP/2, with TLS and without, sends the
// token, and puts the URL's path before those of the wire.
func TestOwnTransport(t *testing.T) {
	for scheme, start := range map[string]func(*httptest.Server){
		"http": func(s *httptest.Server) {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
		},
		"https": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		},
	} {
		t.Run(scheme, func(t *testing.T) {
			var proto, token, accept, path string
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proto, token, accept, path = r.Proto, r.Header.Get("Authorization"), r.Header.Get("Accept"), r.URL.Path
				_, _ = w.Write([]byte(`{"results":[{"ok":true,"remaining":3}]}`))
			}))
			start(s)
			defer s.Close()
			cfg := client.Config{URL: s.URL + "/limits/", Token: "open sesame", Timeout: 10 * time.Second, Away: client.Deny}
			if s.Certificate() != nil {
				cfg.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
				cfg.TLS.RootCAs.AddCert(s.Certificate())
			}
			c, err := client.New(cfg)
			must(t, err)
			defer c.Close()
			d, err := c.Take(t.Context(), "a", 1)
			must(t, err)
			check(t, "remaining", d.Remaining, 3)
			check(t, "protocol", proto, "HTTP/2.0")
			check(t, "token", token, "Bearer open sesame")
			check(t, "accept", accept, "application/json")
			check(t, "path", path, "/limits/rate")
		})
	}
}
