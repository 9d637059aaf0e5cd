// Package site holds the cache and the server that the examples share.
package site

import (
	"log"
	"net/http"
	"time"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/rate"
)

// Cache keeps responses for ten seconds, and allows one call a second.
func Cache() *httpcache.Cache {
	c, err := httpcache.New(httpcache.Config{
		DefaultTTL: 10 * time.Second,
		Refresh: cache.Refresh{
			Stale:           5 * time.Second, // one client waits for a new response, the others get the old one
			StaleIfRejected: time.Minute,     // an old response instead of 429
			Limiter:         rate.New(rate.Per(1, time.Second, 1), rate.Config{Queue: -1}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// InFront caches the responses of GET /calculate/ of a router.
func InFront(router http.Handler, c *httpcache.Cache) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /calculate/", c.Handler(router))
	mux.Handle("/", router)
	return mux
}

// Calculate takes a second.
func Calculate(x string) (string, error) {
	time.Sleep(time.Second)
	return x + ": done at " + time.Now().Format(time.StampMilli) + "\n", nil
}

// Serve serves a handler until the program is killed.
func Serve(h http.Handler) {
	s := http.Server{Addr: "127.0.0.1:8089", ReadHeaderTimeout: 5 * time.Second, Handler: h}
	log.Fatal(s.ListenAndServe())
}
