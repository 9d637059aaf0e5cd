// Package adminapi serves the state of weir serve to its operators: as JSON, as an
// HTML page, and as metrics. It also reloads the rules. It must be served on a
// listener that is not public, because it shows keys and accepts reloads.
//
//	GET  /                     the page
//	GET  /-/health             200 while the process serves
//	GET  /-/ready              200, or 503 and why not
//	POST /-/reload             200 and an operator.Reloaded; or 422 and an operator.Error: files with errors keep their last good content
//	POST /-/reset?key=KEY      200 and a Reset: the key has its whole limit again; 404 if no rule with a rate matches
//	GET  /-/status             a Status; ?rules=N bounds its rules, ?since=MS adds the history after that time
//	GET  /-/top                a Top; ?n=20&by=denied, requests or waiting
//	GET  /-/explain?key=KEY    an Explanation
//	GET  /-/recording          the recording: see package blackbox
//	GET  /metrics, /debug/pprof/
//
// Times are in milliseconds, instants since 1970. Members are only ever added.
package adminapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// Config configures an API. Its functions must be safe for concurrent use.
type Config struct {
	// Server is required.
	Server *server.Server
	// Explain explains a decision. If nil, the Server does.
	Explain func(ctx context.Context, key string) (decider.Explanation, error)
	// Reset returns the tokens of a key: see server.Server.Reset. If nil, the Server does.
	Reset func(ctx context.Context, key string) ([]decider.Reset, error)
	// Store returns the state of the store of shared limits. If nil, there is none.
	Store func() server.StoreStats
	// Upstream returns the state of a leaf and of its upstream. If nil, there is none.
	Upstream func() server.TierStats
	// UpstreamURL is the address of the upstream.
	UpstreamURL string
	// Peers returns the state of the fleet. If nil, there is none.
	Peers func() ring.Stats
	// Ready returns why the server is not ready for requests, or nil. If Ready is nil,
	// the server is always ready.
	Ready func() error
	// Reload loads the files again and describes the changes of the rules. A file with
	// an error keeps its last good content. It must be safe for concurrent use. If nil, rules cannot be reloaded.
	Reload func() (string, error)
	// ConfigStatus describes the file of rules. If nil, there is none.
	ConfigStatus func() ConfigStatus
	// Metrics serves /metrics. If nil, there are none.
	Metrics http.Handler
	// Recording serves /-/recording. If nil, there is none.
	Recording http.Handler
	// Pprof serves /debug/pprof/.
	Pprof bool
	// Local and Hosts say which Host headers are allowed: see httpserve.Private.
	Local bool
	Hosts []string
	// Tokens authorizes requests: see operator.Guard. If nil, all are allowed.
	Tokens *token.Guard
	// Log receives a line for each request that may change something. If nil, there is none.
	Log *slog.Logger
}

// ConfigStatus describes the source of the rules and the last loads. The zero value
// means that they are not from a file.
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

	history history
	keys    tracker

	end func() // ends the samples
}

// New returns an API. It samples the Server every second, until Close.
func New(cfg Config) *API {
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Explain == nil {
		cfg.Explain = cfg.Server.Explain
	}
	if cfg.Reset == nil {
		cfg.Reset = cfg.Server.Reset
	}
	a := &API{cfg: cfg, started: time.Now(), keys: tracker{server: cfg.Server}}
	a.handler = httpserve.Private(operator.Guard(a.routes(), cfg.Tokens, cfg.Log), cfg.Local, cfg.Hosts)
	a.end = operator.Sampling(func() { a.history.add(a.read(cfg.Server.Stats())) })
	return a
}

// Close ends the samples. Requests are still served.
func (a *API) Close() { a.end() }

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

func (a *API) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/health", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /-/ready", a.serveReady)
	mux.HandleFunc("POST /-/reload", a.serveReload)
	mux.HandleFunc("POST /-/reset", a.serveReset)
	mux.HandleFunc("GET /-/status", a.serveStatus)
	mux.HandleFunc("GET /-/top", a.serveTop)
	mux.HandleFunc("GET /-/explain", a.serveExplain)
	if a.cfg.Metrics != nil {
		mux.Handle("GET /metrics", a.cfg.Metrics)
	}
	if a.cfg.Recording != nil {
		mux.Handle("GET /-/recording", a.cfg.Recording)
	}
	if a.cfg.Pprof {
		operator.ServeProfiles(mux)
	}
	operator.ServePage(mux, assets)
	return mux
}

func (a *API) serveReady(w http.ResponseWriter, _ *http.Request) {
	if err := a.cfg.Ready(); err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	plain(w, http.StatusOK, "ready")
}

func (a *API) serveReload(w http.ResponseWriter, _ *http.Request) {
	if a.cfg.Reload == nil {
		operator.Fail(w, http.StatusNotFound, "nothing to reload: the rules are not from a file")
		return
	}
	change, err := a.cfg.Reload()
	if err != nil {
		operator.Fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	operator.Answer(w, http.StatusOK, operator.Reloaded{Change: change})
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
