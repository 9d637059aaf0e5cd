// Package site holds the limits and the server that the examples share.
package site

import (
	"log"
	"net/http"
	"net/netip"
	"time"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

// Middleware limits the rate of each client, and the concurrency of each route.
func Middleware() *httplimit.Middleware {
	perClient, err := keyed.New[netip.Addr](rate.Per(60, time.Minute, 5), keyed.Config{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Config{
		Rules:    []httplimit.Rule{httplimit.PerKey("per-client", perClient, httplimit.Address())},
		PerClass: httplimit.Auto,
	})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// Serve serves a handler until the program is killed.
func Serve(h http.Handler) {
	s := http.Server{Addr: "127.0.0.1:8083", ReadHeaderTimeout: 5 * time.Second, Handler: h}
	log.Fatal(s.ListenAndServe())
}
