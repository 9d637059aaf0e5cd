package httpcache_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/inflight"
)

// Three lines protect a handler: the cache answers what it can, requests for the
// same resource share one run, and the limiter bounds the runs at a time.
func ExampleCache() {
	calculate := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("calculating")
		fmt.Fprint(w, 6*7)
	})
	mux := http.NewServeMux()

	lim, err := inflight.New(inflight.Config{})
	if err != nil {
		panic(err)
	}
	c, err := httpcache.New(httpcache.Config{DefaultTTL: 10 * time.Second, Refresh: cache.Refresh{Limiter: lim}})
	if err != nil {
		panic(err)
	}
	mux.Handle("GET /calculate", c.Handler(calculate))

	for range 2 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/calculate", nil))
		fmt.Println(w.Code, w.Body, strings.TrimRight(w.Header().Get("Cache-Status"), "0123456789"))
	}
	// Output:
	// calculating
	// 200 42 weir; fwd=miss; stored
	// 200 42 weir; hit; ttl=
}
