package web_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/lab/internal/web"
)

func TestHandler(t *testing.T) {
	for path, want := range map[string]struct {
		status int
		kind   string
	}{
		"/":                        {200, "text/html"},
		"/app.js":                  {200, "text/javascript"},
		"/charts.js":               {200, "text/javascript"},
		"/view.js":                 {200, "text/javascript"},
		"/style.css":               {200, "text/css"},
		"/icon.svg":                {200, "image/svg+xml"},
		"/uplot/uPlot.iife.min.js": {200, "text/javascript"},
		"/uplot/uPlot.min.css":     {200, "text/css"},
		"/uplot/LICENSE":           {200, "text/plain"},
		"/nothing":                 {404, "text/plain"},
		"/../web.go":               {404, "text/plain"},
	} {
		w := httptest.NewRecorder()
		web.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://a"+path, nil))
		if kind := w.Header().Get("Content-Type"); w.Code != want.status || !strings.HasPrefix(kind, want.kind) {
			t.Errorf("%s: %d, %s: want %d, %s", path, w.Code, kind, want.status, want.kind)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") {
			t.Errorf("%s: policy %q: want nothing from elsewhere", path, csp)
		}
	}
}
