package httplimit

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
)

// Of nested Middlewares, the one with the least left sets the headers.
func TestLegacyOfNestedMiddlewares(t *testing.T) {
	within := func(outer, inner int) string {
		var h http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for _, burst := range []int{inner, outer} {
			h = middleware(t, Config{Fields: FieldsDelta, Rules: []Rule{perAddress(t, gcra.Per(1, time.Second, burst))}}).Handler(h)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return w.Header().Get("X-RateLimit-Limit")
	}
	if got := within(5, 9); got != "5" {
		t.Errorf("the outer has least: %q", got)
	}
	if got := within(9, 5); got != "5" {
		t.Errorf("the inner has least: %q", got)
	}
}
