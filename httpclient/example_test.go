package httpclient_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir/httpclient"
)

// A server allows two requests, and says so. The third waits at the client
// until there is more, so that none is refused.
func ExampleTransport() {
	left := 2
	began := time.Now()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if time.Since(began) > time.Second {
			left = 2
		}
		if left == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		left--
		w.Header().Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=2`, left))
	}))
	defer srv.Close()

	t, err := httpclient.New(httpclient.Config{})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: t}
	for range 3 {
		resp, err := client.Get(srv.URL)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	fmt.Println("waited:", t.Stats().Waited > 0)
	// Output:
	// 200
	// 200
	// 200
	// waited: true
}
