// Package adminapi is what an operator sees of weir serve: its state as JSON, a
// page that shows it, and a way to load the rules again. It belongs on a
// listener of its own that is not public: whoever reaches it sees keys, and can
// reload.
//
//	GET  /                     the page
//	GET  /-/health             200 while the process serves
//	GET  /-/ready              200, or 503 and why not
//	POST /-/reload             200 and a Reloaded, or 422 and an Error: then nothing has changed
//	GET  /-/status             a Status; ?rules=N bounds its rules, ?since=MS adds the history after that time
//	GET  /-/top                a Top; ?n=20&by=denied, requests or waiting
//	GET  /-/explain?key=KEY    an Explanation
//	GET  /metrics, /debug/pprof/
//
// Times are in milliseconds, instants since 1970. Members are only ever added.
package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/server"
)

// Config is what an API tells of. All functions may be called at the same time.
type Config struct {
	// Server is required.
	Server *server.Server
	// Ready says why the server should get no requests, nil if it should. If nil, it
	// always should.
	Ready func() error
	// Reload loads the rules again, and says what has changed; after an error
	// nothing has. If nil, there is nothing to reload.
	Reload func(context.Context) (string, error)
	// ConfigStatus tells of the file. If nil, there is none.
	ConfigStatus func() ConfigStatus
	// Metrics serves /metrics. If nil, there are none.
	Metrics http.Handler
	// Pprof serves /debug/pprof/.
	Pprof bool
	// Local refuses requests that name another host than this machine, so that no
	// site makes a browser ask under the site's own name (DNS rebinding). It is for
	// listeners on loopback.
	Local bool
}

// ConfigStatus says where the rules are from, and how the loading of them went.
// The zero value says that they are from nowhere.
type ConfigStatus struct {
	Path    string
	Hash    string    // of the rules in force
	Success time.Time // of the last load that succeeded
	Failure time.Time // of the last load that failed; zero if none has
	Error   error     // of the last load; nil if it succeeded
}

// An API serves an operator. It is safe for concurrent use.
type API struct {
	cfg     Config
	started time.Time
	handler http.Handler

	reloading sync.Mutex
	history   history
	keys      tracker

	stop   chan struct{}
	closed sync.Once
	ended  sync.WaitGroup
}

// New returns an API, which takes a sample of the Server every second. Close it.
func New(cfg Config) *API {
	a := &API{cfg: cfg, started: time.Now(), stop: make(chan struct{}), keys: tracker{server: cfg.Server}}
	a.handler = a.guard(a.routes())
	a.history.add(a.read(cfg.Server.Stats()))
	a.ended.Go(a.sample)
	return a
}

// Close ends the samples. Requests are still served.
func (a *API) Close() {
	a.closed.Do(func() { close(a.stop) })
	a.ended.Wait()
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

func (a *API) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/health", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /-/ready", a.serveReady)
	mux.HandleFunc("POST /-/reload", a.serveReload)
	mux.HandleFunc("GET /-/status", a.serveStatus)
	mux.HandleFunc("GET /-/top", a.serveTop)
	mux.HandleFunc("GET /-/explain", a.serveExplain)
	if a.cfg.Metrics != nil {
		mux.Handle("GET /metrics", a.cfg.Metrics)
	}
	if a.cfg.Pprof {
		profiles := few(maxProfiles)
		mux.HandleFunc("GET /debug/pprof/", profiles(pprof.Index))
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", profiles(pprof.Profile))
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", profiles(pprof.Trace))
	}
	servePage(mux)
	return mux
}

// maxProfiles bounds the profiles that are taken at a time: each takes as long as its
// caller says.
const maxProfiles = 4

// few returns what lets so many requests at a time come to handlers.
func few(n int) func(http.HandlerFunc) http.HandlerFunc {
	room := make(chan struct{}, n)
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case room <- struct{}{}:
				defer func() { <-room }()
				next(w, r)
			default:
				fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%d profiles are taken already: wait for one to end", n))
			}
		}
	}
}

// guard keeps other sites out: a browser must not let them reload, nor read.
func (a *API) guard(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		if a.cfg.Local && !local(r.Host) {
			fail(w, http.StatusForbidden, "the host is not this machine: ask for localhost")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a Host header names this machine.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host = strings.ToLower(strings.Trim(host, "[]")); host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (a *API) notReady() error {
	if a.cfg.Ready == nil {
		return nil
	}
	return a.cfg.Ready()
}

func (a *API) serveReady(w http.ResponseWriter, _ *http.Request) {
	if err := a.notReady(); err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	plain(w, http.StatusOK, "ready")
}

// Reloaded is the answer to a reload that succeeded.
type Reloaded struct {
	Change string `json:"change"`
}

// Error is the answer to what failed.
type Error struct {
	Error string `json:"error"`
}

func (a *API) serveReload(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Reload == nil {
		fail(w, http.StatusNotFound, "there is nothing to reload: the rules are not from a file")
		return
	}
	a.reloading.Lock()
	defer a.reloading.Unlock()
	change, err := a.cfg.Reload(r.Context())
	if err != nil {
		fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, http.StatusOK, Reloaded{change})
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

func fail(w http.ResponseWriter, status int, text string) { answer(w, status, Error{text}) }

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(v) // who has left needs no answer
}
