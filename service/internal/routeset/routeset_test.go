package routeset

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Another spelling of a path does not avoid a pattern.
func TestMatch(t *testing.T) {
	var s Set
	for _, pattern := range []string{"POST /login", "/api/", "GET /users/{id}", "/exact", "example.com/", "/api/", "GET /"} {
		if err := s.Add(pattern); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ method, target, want string }{
		{"POST", "/login", "POST /login"}, {"DELETE", "/login", ""}, {"GET", "/login", "GET /"},
		{"PUT", "/api/x/y", "/api/"}, {"PUT", "/api", "/api/"}, {"GET", "/users/7", "GET /users/{id}"}, {"HEAD", "/users/7", "GET /users/{id}"},
		{"PUT", "/users/7", ""}, {"PUT", "/exact", "/exact"}, {"PUT", "/exact/", ""}, {"PUT", "http://example.com/x", "example.com/"},
		{"PUT", "http://example.com:8080/x", "example.com/"}, {"PUT", "http://example.com/exact", "example.com/"},
		{"PUT", "http://EXAMPLE.com./x", "example.com/"}, {"PUT", "http://Example.com.:8080/x", "example.com/"}, {"PUT", "http://other.com./exact", "/exact"},
		{"PUT", "http://a//api//x", "/api/"}, {"PUT", "/x/../api/y", "/api/"}, {"PUT", "/x/%2e%2e/api/y", "/api/"}, {"PUT", "/%61pi/y", "/api/"},
		{"PUT", "/x%2f..%2fapi%2fy", "/api/"}, {"POST", "/%6Cogin", "POST /login"}, {"POST", "/./login", "POST /login"}, {"POST", "/login?a=b", "POST /login"},
		{"OPTIONS", "*", ""}, {"PUT", "/a%20b", ""}, {"PUT", "/%zz", ""},
	} {
		r := &http.Request{Method: tt.method}
		if u, err := http.NewRequest(tt.method, tt.target, nil); err == nil {
			r = u
		} else {
			continue // a server refuses it
		}
		if got, ok := s.Match(r); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s %s: %q, %v: want %q", tt.method, tt.target, got, ok, tt.want)
		}
	}
	var none Set
	if _, ok := none.Match(httptest.NewRequest("GET", "/", nil)); ok {
		t.Error("no pattern matches")
	}
}
