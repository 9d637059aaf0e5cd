package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/inline"
	"github.com/weir-go/weir/service/internal/server"
)

// Fields show the policies in force, and the cache of policies is bounded.
func TestPoliciesAreThoseInForce(t *testing.T) {
	const each = 100 // rules of a version
	rules := func(first int) *config.Rules {
		r := new(config.Rules)
		for n := first; n < first+each; n++ {
			name := fmt.Sprint("r", n-first)
			r.Rules = append(r.Rules, config.Rule{Name: name, Glob: name, Quota: config.Quota{Rate: config.Rate{Count: n, Period: time.Hour}, Algorithm: config.Fixed}})
		}
		return r
	}
	s, err := server.New(server.Config{Rules: rules(10)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for first := 10; first < maxPolicies+2*each; first += each {
		if err := s.Reload(rules(first)); err != nil {
			t.Fatal(err)
		}
		for i := range 2 * each {
			name := fmt.Sprint("r", i/2)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequest("POST", "/rate/"+name+"?n=0", nil))
			if got, want := w.Header().Get("RateLimit-Policy"), fmt.Sprintf(`"%s";q=%d;w=3600`, name, first+i/2); got != want {
				t.Errorf("%s: want %s", got, want)
			}
		}
		kept := 0
		for range a.policies.Range {
			kept++
		}
		if kept > maxPolicies {
			t.Errorf("%d policies are cached", kept)
		}
	}
}

// An inlineWriter is a ResponseWriter of the inline transport.
type inlineWriter struct{ *httptest.ResponseRecorder }

func (w inlineWriter) Facts() inline.Facts { return inline.Facts{} }

func (w inlineWriter) SetField(f *inline.Field) { w.Header()[f.Name] = f.Values }

func (w inlineWriter) SetValue(name string, value []byte) { w.Header().Set(name, string(value)) }

func (w inlineWriter) Now() time.Time { return time.Time{} }

func (w inlineWriter) Status() int { return w.Code }

// The fields of one rule, or of several, are the same for the inline transport.
func TestFieldsInline(t *testing.T) {
	for n, want := range []string{"", `"r0";q=10;w=3600`, `"r0";q=10;w=3600, "r1";q=11;w=3600`, `"r0";q=10;w=3600, "r1";q=11;w=3600, "r2";q=12;w=3600`} {
		rules := &config.Rules{Apply: config.All}
		for i := range n {
			rules.Rules = append(rules.Rules, config.Rule{Name: fmt.Sprint("r", i), Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 10 + i, Period: time.Hour}, Algorithm: config.Fixed}})
		}
		s, err := server.New(server.Config{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(s, Config{})
		if err != nil {
			t.Fatal(err)
		}
		std, w := httptest.NewRecorder(), inlineWriter{httptest.NewRecorder()}
		for _, to := range []http.ResponseWriter{std, w} {
			a.ServeHTTP(to, httptest.NewRequest("POST", "/rate/a?n=0", nil))
			if got := to.Header().Get("Ratelimit-Policy"); got != want {
				t.Errorf("%d rules: %s: want %s", n, got, want)
			}
		}
		if got, want := w.Header().Get("Ratelimit"), std.Header().Get("Ratelimit"); got != want {
			t.Errorf("%d rules: %s: want %s", n, got, want)
		}
	}
}
