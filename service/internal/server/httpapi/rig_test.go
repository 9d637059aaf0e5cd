package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/httpapi"
)

// A site is an API that is asked without a network.
type site struct {
	*httpapi.API
	server *server.Server
	t      testing.TB
}

// newSite returns the API of a server with rules, all of which count.
func newSite(t testing.TB, cfg httpapi.Config, rules ...config.Rule) *site {
	t.Helper()
	return siteOf(t, cfg, config.Rules{Apply: config.All, Rules: rules})
}

func siteOf(t testing.TB, cfg httpapi.Config, rules config.Rules) *site {
	t.Helper()
	srv, err := server.New(server.Config{Rules: &rules, MaxLimit: cfg.MaxLimit, MaxQueue: cfg.MaxQueue})
	if err != nil {
		t.Fatal(err)
	}
	cfg.GetDecides = true // as in GoCC
	api, err := httpapi.New(srv, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &site{api, srv, t}
}

// allKeys returns a rule for all keys.
func allKeys(n int, period time.Duration, algorithm config.Algorithm) config.Rule {
	return config.Rule{Name: "everybody", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: n, Period: period}, Algorithm: algorithm}}
}

// An answer is one that has been read.
type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any // nil if it is no object
}

// text returns a member that is a string.
func (a *answer) text(member string) string {
	s, _ := a.json[member].(string)
	return s
}

// ask sends a request with headers given as "Name: value", and sees to it that
// openapi.yaml has its answer.
func (s *site) ask(method, url, body string, headers ...string) *answer {
	s.t.Helper()
	w := httptest.NewRecorder()
	r := newRequest(method, url, body, headers...)
	s.ServeHTTP(w, r)
	return read(s.t, r, w.Result())
}

func newRequest(method, url, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// read reads an answer.
func read(t testing.TB, r *http.Request, resp *http.Response) *answer {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
	_ = json.Unmarshal(body, &a.json) // not all are objects
	theContract().check(t, r, a)
	return a
}

// A wire is a server over pipes, so that it runs in virtual time.
type wire struct {
	*pipenet.Listener
	t *testing.T
}

// serve serves in a bubble, until the test ends. It repeats the server of httplimit's tests,
// because what both could import would have package testing outside of tests.
func serve(t *testing.T, h http.Handler, words ...*log.Logger) *wire {
	w := &wire{pipenet.Listen(), t}
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols), DisableGeneralOptionsHandler: true, WriteTimeout: httpapi.DefaultAnswerTimeout}
	for _, l := range words {
		srv.ErrorLog = l
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	go srv.Serve(w)
	t.Cleanup(func() {
		srv.Close()
		time.Sleep(time.Minute) // the server lingers
	})
	return w
}

// dial returns a connection to the server.
func (w *wire) dial() net.Conn {
	client, err := w.Dial(w.t.Context(), "", "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { client.Close() })
	return client
}

// client returns a Client of the server, of HTTP/1 or HTTP/2.
func (w *wire) client(version int) *http.Client {
	return newClient(w.t, version, w.Dial)
}

func newClient(t testing.TB, version int, dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	tr := &http.Transport{DialContext: dial, DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(version == 1)
	tr.Protocols.SetUnencryptedHTTP2(version == 2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
