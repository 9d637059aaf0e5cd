// Package operator has the common parts of what weir serve and weir proxy show to their
// operators: the listener, files of pages, JSON answers, rates, and a bounded history.
package operator

import (
	"embed"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strconv"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/web"
)

//go:embed assets
var assets embed.FS

// policy lets a page load only files of the same server.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// MaxConns bounds the connections of operators.
const MaxConns = 100

// Serve serves operators until stop is called: over TLS if the server has a TLSConfig.
func Serve(srv *http.Server, ln net.Listener, log *slog.Logger) (stop func()) {
	conns := connlimit.New(ln, MaxConns)
	srv.ConnState = conns.ConnState
	serve := srv.Serve
	if srv.TLSConfig != nil {
		serve = func(ln net.Listener) error { return srv.ServeTLS(ln, "", "") }
	}
	go func() { log.Debug("the admin listener is closed", "reason", serve(conns)) }()
	return func() { _ = srv.Close() }
}

// ServePage serves the files of a page at /, page.html also as / itself, the files of
// this package under /operator/, and the icon and what plots need from package web.
func ServePage(mux *http.ServeMux, page fs.ReadDirFS) {
	serveFiles(mux, "/", page)
	serveFiles(mux, "/operator/", assets)
	mux.Handle("GET /{$}", file(page, "page.html"))
	mux.Handle("GET /icon.svg", web.Handler())
	mux.Handle("GET /legend.js", web.Handler())
	mux.Handle("GET /uplot/", web.Handler())
}

// serveFiles serves the directory assets of files.
func serveFiles(mux *http.ServeMux, prefix string, files fs.ReadDirFS) {
	all, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // the directory is embedded
	}
	for _, f := range all {
		mux.Handle("GET "+prefix+f.Name(), file(files, f.Name()))
	}
}

func file(files fs.FS, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		http.ServeFileFS(w, r, files, "assets/"+name)
	}
}

// Error is the answer to a request that failed.
type Error struct {
	Error string `json:"error"`
}

// Reloaded is the answer to a reload that succeeded.
type Reloaded struct {
	Change string `json:"change"`
	Hash   string `json:"hash,omitempty"` // of the rules of weir proxy
}

// Fail answers with an Error.
func Fail(w http.ResponseWriter, status int, text string) { Answer(w, status, Error{text}) }

// Answer answers with v as JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(v) // a client that is gone needs no answer
}

// Number reads a whole number >= 0; an empty text means otherwise. If the text is
// invalid, Number answers with an Error and returns false.
func Number(w http.ResponseWriter, text string, otherwise int) (int, bool) {
	if text == "" {
		return otherwise, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		Fail(w, http.StatusBadRequest, strconv.Quote(text)+": want a whole number >= 0")
		return 0, false
	}
	return n, true
}
