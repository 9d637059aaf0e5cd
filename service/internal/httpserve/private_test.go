package httpserve

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
)

// No web site that gives its name our address is served, whatever we listen on.
func TestPrivateHosts(t *testing.T) {
	for host, want := range map[string]struct{ local, remote int }{
		"127.0.0.1:8081": {200, 200}, "localhost": {200, 200}, "LOCALHOST.:1": {200, 200}, "[::1]:8081": {200, 200}, "weir.localhost": {200, 200},
		"192.0.2.1": {403, 200}, "[2001:db8::1]:8081": {403, 200}, "weir:8081": {403, 200}, "weir.default.svc:8081": {403, 200},
		"weir.default.svc.cluster.local": {403, 200}, "box.home.arpa": {403, 200}, "ip-10-0-0-1.ec2.internal": {403, 200},
		"ops.example.com": {200, 200}, "OPS.example.com.:8081": {200, 200},
		"evil.example:8081": {403, 403}, "127.0.0.1.evil.example": {403, 403}, "svc.example": {403, 403}, "notlocalhost": {403, 200},
		"ops.example.com.evil.example": {403, 403}, "": {403, 403}, ".": {403, 403},
	} {
		for local, want := range map[bool]int{true: want.local, false: want.remote} {
			h := Private(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), local, []string{"Ops.example.com"})
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("host %q, local %v: %d, want %d", host, local, w.Code, want)
			}
		}
	}
}

// A web site cannot change anything through a browser, not even by a form.
func TestPrivateOrigins(t *testing.T) {
	changed := 0
	h := Private(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { changed++ }), true, nil)
	for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: http://evil.example"} {
		r := testrig.Request("POST", "http://localhost/-/set", header)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 403 {
			t.Errorf("%s: %d: want 403", header, w.Code)
		}
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/-/set", nil)); w.Code != 200 || changed != 1 {
		t.Errorf("without a browser: %d, %d changes: want 200 and 1", w.Code, changed)
	}
}
