package operator_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weir-go/weir/service/internal/operator"
)

func TestHistory(t *testing.T) {
	var h operator.History[int]
	if got := h.Since(0); len(got) != 0 {
		t.Errorf("%v: want nothing", got)
	}
	for i := range 1000 {
		h.Add(int64(1000*i), i)
	}
	if got := h.Since(0); len(got) != 300 || got[0] != 700 || got[299] != 999 {
		t.Errorf("%d samples, from %d to %d: want 300, from 700 to 999", len(got), got[0], got[len(got)-1])
	}
	for at, want := range map[int64][]int{997_000: {998, 999}, 997_999: {998, 999}, 996_999: {997, 998, 999}, 999_000: {}, 1 << 60: {}} {
		if got := h.Since(at); !slices.Equal(got, want) {
			t.Errorf("since %d: %v, want %v", at, got, want)
		}
	}
}

func TestRest(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 0, 10 * time.Millisecond: 200 * time.Millisecond, time.Minute: 5 * time.Second} {
		if got := operator.Rest(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}

func TestServePage(t *testing.T) {
	page := fstest.MapFS{"assets/page.html": {Data: []byte("<!doctype html>")}, "assets/page.js": {Data: []byte("1")}}
	mux := http.NewServeMux()
	operator.ServePage(mux, page)
	for path, want := range map[string]struct {
		status int
		kind   string
	}{
		"/": {200, "text/html"}, "/page.html": {200, "text/html"}, "/page.js": {200, "text/javascript"},
		"/operator/base.css": {200, "text/css"}, "/operator/plot.js": {200, "text/javascript"},
		"/icon.svg": {200, "image/svg+xml"}, "/uplot/uPlot.iife.min.js": {200, "text/javascript"},
		"/operator/": {404, ""}, "/base.css": {404, ""}, "/operator/page.js": {404, ""},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		csp := w.Header().Get("Content-Security-Policy")
		if w.Code != want.status || w.Code == 200 && (!strings.HasPrefix(w.Header().Get("Content-Type"), want.kind) || !strings.Contains(csp, "default-src 'self'")) {
			t.Errorf("%s: %d, %s, policy %q: want %d, %s", path, w.Code, w.Header().Get("Content-Type"), csp, want.status, want.kind)
		}
	}
}
