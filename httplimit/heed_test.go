package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/testrig"
)

func TestCriticality(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		remote string
		values []string
		want   weir.Priority
	}{
		{"none", "192.0.2.1:80", nil, weir.Critical},
		{"sheddable", "192.0.2.1:80", []string{"sheddable"}, weir.Sheddable},
		{"sheddable_plus", "192.0.2.1:80", []string{"sheddable_plus"}, weir.SheddablePlus},
		{"critical", "192.0.2.1:80", []string{"critical"}, weir.Critical},
		{"critical_plus, of anybody", "192.0.2.1:80", []string{"critical_plus"}, weir.Critical},
		{"critical_plus, of a trusted peer", "10.0.0.1:80", []string{"critical_plus"}, weir.CriticalPlus},
		{"of a trusted peer in IPv6 form", "[::ffff:10.0.0.1]:80", []string{"critical_plus"}, weir.CriticalPlus},
		{"of a peer without an address", "@", []string{"critical_plus"}, weir.Critical},
		{"any spelling", "192.0.2.1:80", []string{" Sheddable "}, weir.Sheddable},
		{"the first of several", "10.0.0.1:80", []string{"sheddable", "critical_plus"}, weir.Sheddable},
		{"several in one", "10.0.0.1:80", []string{"sheddable, critical_plus"}, weir.Critical},
		{"a number", "10.0.0.1:80", []string{"-2"}, weir.Critical},
		{"rubbish", "10.0.0.1:80", []string{"critical-plus"}, weir.Critical},
		{"nothing", "10.0.0.1:80", []string{""}, weir.Critical},
	} {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v, Criticality: "x-criticality", Trusted: proxies}, func(_ http.ResponseWriter, r *http.Request) {
			if got := weir.ClassOf(r.Context()); got.Priority != tt.want || got.Tenant != "ada" {
				t.Errorf("%s: the handler is of %+v: want %d, of ada", tt.rule, got, tt.want)
			}
		})
		r := from(tt.remote)
		r.Header["X-Criticality"] = tt.values
		s.do(r.WithContext(weir.WithClass(r.Context(), weir.Class{Tenant: "ada"})))
		s.ran(1)
		if got := v.Asked()[0].Priority; got != tt.want {
			t.Errorf("%s: the limiter is asked with %d: want %d", tt.rule, got, tt.want)
		}
	}
}

// Headers that are not configured have no effect.
func TestHeadersThatAreNotConfigured(t *testing.T) {
	v := new(testrig.Limiter)
	s := newSite(t, Config{Limiter: v}, func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Deadline(); ok {
			t.Error("there is a deadline")
		}
	})
	s.get(200, "/", ": sheddable", "Criticality: sheddable", "Deadline: 1", "X-Deadline: 1")
	if got := v.Asked()[0]; got != (weir.Class{Route: "/"}) {
		t.Errorf("%+v", got)
	}
}

func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  time.Duration // 0: there is none
	}{
		{"250", 250 * time.Millisecond},
		{"1", time.Millisecond},
		{" 250\t", 250 * time.Millisecond},
		{"1.5s", 1500 * time.Millisecond},
		{"250ms", 250 * time.Millisecond},
		{"1m30s", 90 * time.Second},
		{"100us", 100 * time.Microsecond},
		{"1ns", 1},
		{"24h", 24 * time.Hour},
		{"86400000", 24 * time.Hour},
		{"", 0}, {"0", 0}, {"0s", 0}, {"-1", 0}, {"-1s", 0}, {"1.5", 0}, {"NaN", 0}, {"Inf", 0}, {"1e9", 0}, {"0x10", 0}, {"1_000", 0},
		{"soon", 0}, {"1s, 2s", 0}, {"1 s", 0}, {"24h1ns", 0}, {"86400001", 0}, {"4294967296", 0}, {"18446744073709551617", 0},
		{"9223372036854775807ns", 0}, {"99999999999999999999h", 0}, {"0.00000000000000000000000000001s", 0},
		{"1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1", 0},
	} {
		bubble(t, tt.value, func(t *testing.T) {
			v := new(testrig.Limiter)
			began := time.Now()
			var inside context.Context
			s := newSite(t, Config{Limiter: v, Deadline: "x-deadline"}, func(_ http.ResponseWriter, r *http.Request) {
				inside = r.Context()
				at, ok := inside.Deadline()
				if ok != (tt.want != 0) || ok && at.Sub(began) != tt.want {
					t.Errorf("%v %v: want %v", at.Sub(began), ok, tt.want)
				}
			})
			s.get(200, "/", "X-Deadline: "+tt.value)
			if tt.want != 0 && inside.Err() != context.Canceled {
				t.Errorf("after the handler, the context is not over: %v", inside.Err())
			}
		})
	}
}

// A deadline is kept in the queue, and told when the work has ended after it; a
// nearer one of the server's own stays.
func TestDeadlineOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v, Deadline: "D"}, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			time.Sleep(time.Second)
		})
		began := time.Now()
		s.get(200, "/", "D: 3s")
		if d := time.Since(began); d != 4*time.Second {
			t.Errorf("the context was over after %v: want 3s", d-time.Second)
		}
		near, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.do(testrig.Request("GET", "/", "D: 1h").WithContext(near))
		if d := time.Since(began); d != 6*time.Second {
			t.Errorf("the server's own deadline was forgotten: %v", d)
		}
		v.WantEnded(t, outcome.Late, outcome.Late)
	})
}

func TestExempt(t *testing.T) {
	below := Config{Exempt: []string{"/static/", "/ping"}}
	for _, tt := range []struct {
		cfg    Config
		method string
		url    string
		want   bool
	}{
		{Config{}, "GET", "/healthz", true},
		{Config{}, "HEAD", "/healthz", true},
		{Config{}, "GET", "/metrics?name[]=x", true},
		{Config{}, "GET", "http://other.example/livez", true},
		{Config{}, "GET", "/%68ealthz", true},
		{Config{}, "POST", "/healthz", false},
		{Config{}, "OPTIONS", "/healthz", false},
		{Config{}, "get", "/healthz", false},
		{Config{}, "GET", "/healthz/", false},
		{Config{}, "GET", "/healthz/x", false},
		{Config{}, "GET", "/Healthz", false},
		{Config{}, "GET", "//healthz", false},
		{Config{}, "GET", "/healthz/../x", false},
		{Config{}, "GET", "/x/../healthz", false},
		{Config{}, "GET", "/./healthz", false},
		{Config{}, "GET", "/healthz%00", false},
		{Config{}, "GET", "/healthz;x", false},
		{Config{}, "GET", "/", false},
		{Config{Exempt: []string{}}, "GET", "/healthz", false},
		{below, "GET", "/healthz", false},
		{below, "GET", "/ping", true},
		{below, "GET", "/static/", true},
		{below, "GET", "/static/a/b.css", true},
		{below, "GET", "/static/a..b", true},
		{below, "GET", "/static", false},
		{below, "GET", "/statics/a", false},
		{below, "GET", "/static/../admin", false},
		{below, "GET", "/static/..", false},
		{below, "GET", "/static/a/%2e%2e/%2e%2e/admin", false},
		{below, "GET", "/static/..%2fadmin", false},
		{below, "GET", "/static%2f..%2fadmin", false},
		{below, "GET", "/static//../admin", false},
		{below, "GET", "//static/a", false},
		{below, "GET", "/static//a", false},
		{below, "DELETE", "/static/a", false},
		{Config{Exempt: []string{"/"}}, "GET", "/anything", true},
		{Config{Exempt: []string{"/"}}, "GET", "/a/../b", false},
	} {
		v := testrig.Rejecting(refusedByLimiter, 0)
		q := allow(t, "q", 1)
		tt.cfg.Limiter, tt.cfg.Rules = v, []Rule{q.Rule}
		s := newSite(t, tt.cfg, nil)
		w := s.do(testrig.Request(tt.method, tt.url))
		if (w.Code == 200) != tt.want || (s.Stats().Exempt == 1) != tt.want || (len(v.Asked()) == 0) != tt.want {
			t.Errorf("%s %s, exempt %q: %d, %+v: want exempt %v", tt.method, tt.url, tt.cfg.Exempt, w.Code, s.Stats(), tt.want)
		}
		if tt.want && len(w.Header()) > 0 {
			t.Errorf("%s %s: %v: want no headers", tt.method, tt.url, w.Header())
		}
	}
}

func TestConfigsThatMakeNoSense(t *testing.T) {
	q := allow(t, "q", 1)
	for want, cfg := range map[string]Config{
		"httplimit: PerClass: must be nil, since Limiter is not":                                                            {Limiter: new(testrig.Limiter), PerClass: Auto},
		"httplimit: Fields = 32: must be made of FieldsDraft, FieldsDraftNext, FieldsDelta, FieldsUnix and FieldsNone":      {Fields: 32},
		"httplimit: Fields = 9: FieldsNone stands alone, FieldsDelta excludes FieldsUnix, and FieldsDraft FieldsDraftNext":  {Fields: FieldsDraft | FieldsNone},
		"httplimit: Fields = 6: FieldsNone stands alone, FieldsDelta excludes FieldsUnix, and FieldsDraft FieldsDraftNext":  {Fields: FieldsDelta | FieldsUnix},
		"httplimit: Fields = 17: FieldsNone stands alone, FieldsDelta excludes FieldsUnix, and FieldsDraft FieldsDraftNext": {Fields: FieldsDraft | FieldsDraftNext},
		"httplimit: RetryJitter = -1ns: must be >= 0":                                                                       {RetryJitter: -1},
		`httplimit: Exempt[1] = "x": must begin with a slash`:                                                               {Exempt: []string{"/", "x"}},
		`httplimit: Exempt[0] = "": must begin with a slash`:                                                                {Exempt: []string{""}},
		"httplimit: Rules[0]: is empty: PerKey and Overall make rules":                                                      {Rules: []Rule{{}}},
		"httplimit: Rules[0].MaxWait = -1s: must be >= 0":                                                                   {Rules: []Rule{q.Wait(-time.Second)}},
		`httplimit: Rules[1].Name = "q": another rule has that name`:                                                        {Rules: []Rule{q.Rule, q.Shadow()}},
		`httplimit: Rules[0].Name = "": must be 1 to 64 printable ASCII characters`:                                         {Rules: []Rule{allow(t, "", 1).Rule}},
		`httplimit: Rules[0].Name = "a\nb": must be 1 to 64 printable ASCII characters`:                                     {Rules: []Rule{allow(t, "a\nb", 1).Rule}},
		`httplimit: Rules[0].Name = "é": must be 1 to 64 printable ASCII characters`:                                        {Rules: []Rule{allow(t, "é", 1).Rule}},
		fmt.Sprintf("httplimit: Rules[0].Name = %q: must be 1 to 64 printable ASCII characters", name65):                    {Rules: []Rule{allow(t, name65, 1).Rule}},
	} {
		if _, err := New(cfg); err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
	}
	if _, err := New(Config{Rules: []Rule{allow(t, name65[1:], 1).Rule}}); err != nil {
		t.Error(err)
	}
}

var name65 = fmt.Sprintf("%065d", 0)
