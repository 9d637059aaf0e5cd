package httpapi_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
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
	testrig.Must(t, err)
	cfg.GetDecides = true // as in GoCC
	api, err := httpapi.New(srv, cfg)
	testrig.Must(t, err)
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
	testrig.AddHeader(r.Header, headers...)
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

// serve serves in a bubble, until the test ends.
func serve(t *testing.T, h http.Handler, words ...*log.Logger) *testrig.Network {
	srv := &http.Server{Handler: h, DisableGeneralOptionsHandler: true, WriteTimeout: httpapi.DefaultAnswerTimeout}
	for _, l := range words {
		srv.ErrorLog = l
	}
	return testrig.Serve(t, srv)
}
