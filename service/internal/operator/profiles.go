package operator

import (
	"fmt"
	"net/http"
	"net/http/pprof"
)

// maxProfiles bounds concurrent profiles: each takes as long as its request asks.
const maxProfiles = 4

// ServeProfiles serves /debug/pprof/. Beyond maxProfiles at a time, a profile gets 503.
func ServeProfiles(mux *http.ServeMux) {
	bounded := atMost(maxProfiles)
	mux.HandleFunc("GET /debug/pprof/", bounded(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", bounded(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", bounded(pprof.Trace))
}

// atMost returns middleware that bounds the concurrent requests of its handlers.
func atMost(n int) func(http.HandlerFunc) http.HandlerFunc {
	room := make(chan struct{}, n)
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case room <- struct{}{}:
				defer func() { <-room }()
				next(w, r)
			default:
				Fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%d profiles are in progress: wait until one ends", n))
			}
		}
	}
}
