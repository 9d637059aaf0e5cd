package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// assignSite returns the API of a server that has learnt what leaves have.
func assignSite(t *testing.T, cfg httpapi.Config) *site {
	s := newSite(t, cfg, config.Rule{Name: "all", Glob: "k*", Quota: config.Quota{Rate: config.Rate{Count: 100, Period: time.Second}, Burst: 10}})
	time.Sleep(server.DefaultAssignmentTTL)
	return s
}

func TestAssign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := assignSite(t, httpapi.Config{})
		for _, step := range []struct{ body, want string }{
			{`{"leaf":"a","reports":[{"key":"k","wants":10},{"key":"free","used":3}]}`,
				`{"ttlMs":30000,"nextMs":5000,"leaves":1,"assignments":[{"key":"k","rate":33.211512,"burst":6.660575,"limitRate":100,"limitBurst":10,"leaves":1},{"key":"free","rate":0,"burst":0,"unlimited":true}]}`},
			{`{"leaf":"a","held":2}`, `{"ttlMs":30000,"nextMs":5000,"leaves":1,"assignments":[]}`},
			{`{"leaf":"a","held":3}`, `{"ttlMs":30000,"nextMs":5000,"resync":true,"leaves":1,"assignments":[]}`},
			{`{"leaf":"b","reports":[{"key":"k","wants":1000}]}`,
				`{"ttlMs":30000,"nextMs":250,"leaves":2,"watch":["k"],"assignments":[{"key":"k","rate":66.788487,"burst":3.339424,"contended":true,"limitRate":100,"limitBurst":10,"leaves":2}]}`},
			{`{"leaf":"a","held":2}`, `{"ttlMs":30000,"nextMs":1000,"leaves":2,"watch":["k"],"assignments":[]}`},
			{`{"leaf":"a","held":2,"reports":[{"key":"k","wants":10,"has":33.211512}]}`,
				`{"ttlMs":30000,"nextMs":100,"leaves":2,"assignments":[{"key":"k","rate":10.899999,"burst":2,"contended":true,"limitRate":100,"limitBurst":10,"leaves":2}]}`},
			{`{"leaf":"a","held":2,"reports":[{"key":"k","wants":10,"has":10.899999}]}`,
				`{"ttlMs":30000,"nextMs":1000,"leaves":2,"assignments":[{"key":"k","rate":10.899999,"burst":2,"contended":true,"limitRate":100,"limitBurst":10,"leaves":2}]}`},
			{`{"leaf":"b","held":1,"reports":[{"key":"k","wants":1000,"has":66.788487}]}`,
				`{"ttlMs":30000,"nextMs":1000,"leaves":2,"assignments":[{"key":"k","rate":89.099999,"burst":7.999999,"contended":true,"limitRate":100,"limitBurst":10,"leaves":2}]}`},
			{`{"leaf":"a","held":2,"reports":[{"key":"k","done":true}]}`, `{"ttlMs":30000,"nextMs":5000,"leaves":2,"assignments":[{"key":"k","rate":0,"burst":0}]}`},
			{`{"leaf":"b","leave":true}`, `{"ttlMs":30000,"nextMs":5000,"assignments":[]}`},
			{`{"leaf":"c","reports":[{"key":"k","wants":1000}]}`,
				`{"ttlMs":30000,"nextMs":1000,"leaves":2,"assignments":[{"key":"k","rate":100,"burst":10,"contended":true,"limitRate":100,"limitBurst":10,"leaves":1}]}`},
		} {
			if a := s.ask("POST", "/assign", step.body); a.status != 200 || strings.TrimSuffix(a.body, "\n") != step.want {
				t.Errorf("%s\n%d %s\nwant %s", step.body, a.status, a.body, step.want)
			}
		}
	})
}

func TestAssignRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := assignSite(t, httpapi.Config{MaxBody: 1 << 20})
		many := `{"leaf":"a","reports":[` + strings.TrimSuffix(strings.Repeat(`{"key":"k"},`, 10_001), ",") + `]}`
		for name, tt := range map[string]struct {
			body, kind string
			status     int
			want       string
		}{
			"no JSON":           {"leaf=a", "", 400, "cannot read the exchange: line 1, column 1: want an object with leaf, held and reports"},
			"no leaf":           {"{}", "", 400, "cannot read the exchange: line 1, column 3: leaf is missing"},
			"an unknown member": {`{"leaf":"a","reports":[{"key":"k","want":1}]}`, "", 400, `cannot read the exchange: line 1, column 35: unknown member "want": a report has key, used, wants, has and done`},
			"negative wants":    {`{"leaf":"a","reports":[{"key":"k","wants":-1}]}`, "", 400, "cannot read the exchange: line 1, column 43: wants must be a number >= 0"},
			"too much used":     {`{"leaf":"a","reports":[{"key":"k","used":2147483648}]}`, "", 400, "cannot read the exchange: line 1, column 42: used must be a whole number from 0 to 2147483647"},
			"a long name":       {`{"leaf":"` + strings.Repeat("a", 257) + `"}`, "", 400, "cannot read the exchange: line 1, column 9: the name of the leaf is no valid key of at most 256 bytes"},
			"many reports":      {many, "", 413, "an exchange has at most 10000 reports"},
			"a large body":      {`{"leaf":"a"` + strings.Repeat(" ", 1<<20) + "}", "", 413, "the body is too large"},
			"lines":             {`{"leaf":"a"}`, "Content-Type: application/x-ndjson", 415, "the Content-Type must be application/json"},
		} {
			headers := []string{"Content-Type: application/json"}
			if tt.kind != "" {
				headers[0] = tt.kind
			}
			if a := s.ask("POST", "/assign", tt.body, headers...); a.status != tt.status || a.text("error") != tt.want {
				t.Errorf("%s: %d %s\nwant %d %s", name, a.status, a.body, tt.status, tt.want)
			}
		}
		if a := s.ask("GET", "/assign", ""); a.status != 405 {
			t.Errorf("GET: %d", a.status)
		}
	})
}

// A forbidden key does not hinder the others.
func TestAssignAuthorizesEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all error
		s := assignSite(t, httpapi.Config{Authorize: func(_ *http.Request, action token.Action, key string) error {
			if action == token.Decide && strings.HasPrefix(key, "kx") {
				return errors.New("not yours")
			}
			return all
		}})
		a := s.ask("POST", "/assign", `{"leaf":"a","reports":[{"key":"kx1"},{"key":"k1"},{"key":"kx2"},{"key":"kx3"},{"key":"k2"},{"key":"kx4"}]}`)
		var got []string
		list, _ := a.json["assignments"].([]any)
		for _, one := range list {
			m := one.(map[string]any)
			got = append(got, fmt.Sprint(m["key"], " ", m["error"], " ", m["rate"]))
		}
		const want = "kx1 not yours 0,k1 <nil> 25,kx2 not yours 0,kx3 not yours 0,k2 <nil> 25,kx4 not yours 0"
		if strings.Join(got, ",") != want {
			t.Errorf("%d %s\nwant %s", a.status, a.body, want)
		}
		all = token.ErrUnknown
		if a := s.ask("POST", "/assign", `{"leaf":"a","reports":[{"key":"k1"}]}`); a.status != 401 {
			t.Errorf("an unknown token: %d %s", a.status, a.body)
		}
	})
}

// A leaf with a token for some keys counts only for leaves with the same token.
func TestLeavesOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := ""
		s := assignSite(t, httpapi.Config{
			Client: func(*http.Request) string { return name },
			Authorize: func(_ *http.Request, _ token.Action, key string) error {
				if name == "tenant" && key != "k1" {
					return token.ErrForbidden
				}
				return nil
			},
		})
		for i, want := range []float64{1, 1, 3, 2} {
			name = []string{"tenant", "operator"}[i%2]
			if a := s.ask("POST", "/assign", fmt.Sprintf(`{"leaf":"l%d","reports":[{"key":"k1","wants":1}]}`, i)); a.json["leaves"] != want {
				t.Errorf("leaf %d, of the %s: %s: want leaves: %v", i, name, a.body, want)
			}
		}
	})
}

// A client cannot end the assignments of another one.
func TestLeavesBelongToClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := "one"
		s := assignSite(t, httpapi.Config{Client: func(*http.Request) string { return name }})
		s.ask("POST", "/assign", `{"leaf":"a","reports":[{"key":"k1","wants":1}]}`)
		needs := func() any { return s.ask("POST", "/assign", `{"leaf":"a","held":1}`).json["resync"] }
		name = "two"
		s.ask("POST", "/assign", `{"leaf":"a","leave":true}`)
		if needs() != true {
			t.Error("the leaf of another client is known")
		}
		name = "one"
		if got := needs(); got == true {
			t.Error("the leaf has been ended by another client")
		}
	})
}

// A long answer comes in parts, and whole.
func TestLongAssign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := assignSite(t, httpapi.Config{})
		var reports []string
		for i := range 2000 {
			reports = append(reports, fmt.Sprintf(`{"key":"k%d","wants":1}`, i))
		}
		a := s.ask("POST", "/assign", `{"leaf":"a","reports":[`+strings.Join(reports, ",")+`]}`)
		if list, _ := a.json["assignments"].([]any); a.status != 200 || len(list) != 2000 {
			t.Errorf("%d: %d assignments", a.status, len(list))
		}
	})
}
