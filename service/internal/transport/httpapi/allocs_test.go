//go:build !race

package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// Acceptance: what an answer may allocate, beside what net/http does.
func TestAllocations(t *testing.T) {
	plenty := allKeys(1e9, s, "")
	for _, tt := range []struct {
		name, method, url string
		cfg               httpapi.Config
		rule              config.Rule
		most              float64
	}{
		{"granted", "POST", "/rate/x", httpapi.Config{}, plenty, 2}, // RateLimit, and its header
		{"granted without fields", "GET", "/rate/x?canWait=true&n=3", httpapi.Config{Fields: httpapi.FieldsNone}, plenty, 0},
		{"denied", "POST", "/rate/x", httpapi.Config{}, allKeys(0, time.Hour, ""), 2},
		{"denied by a window, without fields", "POST", "/rate/x", httpapi.Config{Fields: httpapi.FieldsNone}, allKeys(0, time.Hour, config.Fixed), 0},
		{"an escaped key", "POST", "/rate/x%2Fy", httpapi.Config{Fields: httpapi.FieldsNone}, plenty, 2},
		{"no such key", "GET", "/debug/x", httpapi.Config{}, plenty, 1},
		{"a check", "GET", "/check/a/b?c", httpapi.Config{}, plenty, 4}, // RateLimit and RateLimit-Policy of two keys
		{"a check that is denied", "GET", "/check", httpapi.Config{Fields: httpapi.FieldsNone}, allKeys(0, time.Hour, ""), 0},
	} {
		site := newSite(t, tt.cfg, tt.rule)
		w, r := &blank{http.Header{}}, newRequest(tt.method, tt.url, "")
		r.Header["Weir-Address"], r.Header["Weir-Key"] = []string{"192.0.2.1"}, []string{"key:x"}
		if n := testing.AllocsPerRun(1000, func() {
			clear(w.h)
			site.ServeHTTP(w, r)
		}); n > tt.most {
			t.Errorf("%s: %v allocations: want %v at most", tt.name, n, tt.most)
		}
	}
}
