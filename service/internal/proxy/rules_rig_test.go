package proxy_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A file of rules that a test changes.
type file struct {
	mu   sync.Mutex
	text string
	err  error
}

func (f *file) set(text string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text, f.err = text, err
}

func (f *file) load() (*proxyrule.Rules, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	return proxyrule.Parse("proxy.yaml", []byte(f.text))
}

// A ruled proxy is one with a file of rules.
type ruled struct {
	*proxy.Proxy
	t    testing.TB
	file *file
}

// withRules returns a proxy with rules and, unless cfg says otherwise, a limit of 1000.
func withRules(t testing.TB, rules string, cfg proxy.Config) *ruled {
	t.Helper()
	f := &file{text: rules}
	cfg.LoadRules, cfg.RulesPath = f.load, "proxy.yaml"
	if cfg.Limit == (proxy.Limit{}) {
		cfg.Limit = proxy.FixedLimit(1000)
	}
	return &ruled{newProxy(t, cfg), t, f}
}

// reload loads other rules.
func (p *ruled) reload(rules string) {
	p.t.Helper()
	p.file.set(rules, nil)
	if _, err := p.Reload(); err != nil {
		p.t.Error(err)
	}
}

// send sends a request, as proxyrule.ParseRequest reads it.
func (p *ruled) send(text string) *httptest.ResponseRecorder {
	p.t.Helper()
	r, err := proxyrule.ParseRequest(text)
	if err != nil {
		p.t.Fatal(err)
	}
	r = r.WithContext(p.t.Context())
	r.Body = http.NoBody
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// expect sends a request, and compares the status of the answer and its reason.
func (p *ruled) expect(text string, status int, reason string) *httptest.ResponseRecorder {
	p.t.Helper()
	w := p.send(text)
	if got := w.Header().Get(proxy.ReasonHeader); w.Code != status || got != reason {
		p.t.Errorf("%s: %d %s: want %d %s", text, w.Code, got, status, reason)
	}
	return w
}

// class returns the report of a class.
func (p *ruled) class(name string) proxy.ClassReport {
	p.t.Helper()
	for _, c := range p.Report().Classes {
		if c.Name == name {
			return c
		}
	}
	p.t.Fatalf("there is no class %s", name)
	return proxy.ClassReport{}
}

// rule returns the report of a rule.
func (p *ruled) rule(name string) proxy.RuleReport {
	p.t.Helper()
	for _, r := range p.Report().Rules {
		if r.Name == name {
			return r
		}
	}
	p.t.Fatalf("there is no rule %s", name)
	return proxy.RuleReport{}
}

// counted compares the counts of a rule.
func (p *ruled) counted(name string, allowed, denied, wouldDeny uint64) {
	p.t.Helper()
	if r := p.rule(name); r.Allowed != allowed || r.Denied != denied || r.WouldDeny != wouldDeny {
		p.t.Errorf("rule %s: %d allowed, %d denied, %d would be denied: want %d, %d, %d", name, r.Allowed, r.Denied, r.WouldDeny, allowed, denied, wouldDeny)
	}
}

var errBadFile = errors.New("proxy.yaml:1:1: bad")

// body returns a request with a body of a length, which is declared if known is set.
func body(t testing.TB, length int, known bool) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", length)))
	if !known {
		r.ContentLength = -1
	}
	return r
}
