package upstream_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/upstream"
)

// serve serves POST /assign over HTTP/2, also in cleartext.
func serve(t *testing.T, h http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func newClient(t *testing.T, cfg upstream.Config) *upstream.Client {
	t.Helper()
	c, err := upstream.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// An exchange is sent with the token, and answered.
func TestExchange(t *testing.T) {
	x := leaf.Exchange{Leaf: "zone-a", Held: 1, Reports: []leaf.Report{{Key: "user:1", Used: 7, Wants: 12.5, Has: 10}}}
	want := leaf.Answer{TTLMS: 30_000, NextMS: 1000, Assignments: []leaf.Assignment{{Key: "user:1", Rate: 12.5, Burst: 3, Leaves: 2}}}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var got leaf.Exchange
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || !reflect.DeepEqual(got, x) {
			t.Errorf("%+v, %v: want %+v", got, err, x)
		}
		if r.Method+" "+r.URL.Path != "POST /base/assign" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %s, Authorization %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
		}
		_ = json.NewEncoder(w).Encode(want)
	})
	c := newClient(t, upstream.Config{URL: url + "/base/", Token: "secret"})
	if got, err := c.Exchange(t.Context(), &x); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v: want %+v", got, err, want)
	}
}

// Everything but an answer of weir serve is an error that says what came.
func TestNoAnswer(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{403, `{"error":"the token does not allow assign"}`, "403 Forbidden: " + `{"error":"the token does not allow assign"}`},
		{302, "", "302 Found"},
		{200, "<html>", "not an answer of weir serve"},
		{503, strings.Repeat("x", 1000), "503 Service Unavailable: " + strings.Repeat("x", 120) + "…"},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		_, err := newClient(t, upstream.Config{URL: url}).Exchange(t.Context(), &leaf.Exchange{Leaf: "a"})
		if err == nil || !strings.HasSuffix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want+": ") {
			t.Errorf("%d %s: %v: want %s", c.status, c.body, err, c.want)
		}
	}
}

// An upstream that does not answer costs the timeout at most.
func TestTimeout(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := newClient(t, upstream.Config{URL: url, Timeout: time.Millisecond}).Exchange(t.Context(), &leaf.Exchange{Leaf: "a"})
	if err == nil {
		t.Error("no error")
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  upstream.Config
		want string
	}{
		{upstream.Config{}, `upstream: URL = "": must be http://host:port or https://host:port`},
		{upstream.Config{URL: "redis://a"}, `upstream: URL = "redis://a": must be http://host:port or https://host:port`},
		{upstream.Config{URL: "http://a:b@c%zz"}, "upstream: URL: not a URL: must be http://host:port or https://host:port"},
		{upstream.Config{URL: "127.0.0.1:8080"}, "upstream: URL: not a URL: must be http://host:port or https://host:port"},
		{upstream.Config{URL: "http://me:secret@host"}, `upstream: URL = "http://me:xxxxx@host": must have no user, no query and no fragment`},
		{upstream.Config{URL: "http://host", Timeout: -1}, "upstream: Timeout = -1ns: must be >= 0"},
	} {
		if _, err := upstream.New(c.cfg); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v: want %s", c.cfg, err, c.want)
		}
	}
}
