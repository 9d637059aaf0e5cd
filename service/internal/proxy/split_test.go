package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
)

// unequal is an origin whose routes differ in cost: /cheap takes 1 ms, /dear 100 ms, and so does
// what it does not know.
func unequal(r *http.Request) (*http.Response, error) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/cheap"):
		time.Sleep(time.Millisecond)
	case strings.HasPrefix(r.URL.Path, "/unknown"):
		time.Sleep(100 * time.Millisecond)
		return answer(http.StatusNotFound), nil
	default:
		time.Sleep(100 * time.Millisecond)
	}
	return answer(http.StatusOK), nil
}

const splitting = "default:\n  limit: auto\n"

// splitter returns a proxy that splits routes.
func splitter(t *testing.T, rules string, cfg proxy.Config) *ruled {
	cfg.SplitRoutes, cfg.Transport = true, origin(unequal)
	return withRules(t, rules, cfg)
}

// visit sends requests for /cheap and for other paths, one after the other.
func (p *ruled) visit(paths ...string) {
	for i := range 64 {
		p.send("GET /cheap")
		for _, path := range paths {
			p.send("GET " + strings.ReplaceAll(path, "#", fmt.Sprint(1000+i)))
		}
	}
}

// split expects the routes that have a limit of their own.
func (p *ruled) split(want ...string) {
	p.t.Helper()
	var got []string
	for _, c := range p.Report().Classes {
		if c.Own && c.Name != "default" {
			got = append(got, c.Name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Errorf("routes with limits of their own: %q: want %q", got, want)
	}
}

func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := splitter(t, splitting+"  timeout: 3s\n  priority: sheddable\n", proxy.Config{})
		p.visit("/dear/#/items")
		p.split("GET /dear/{id}/items")
		before := p.class("default").Requests
		p.expect("GET /dear/99/items", 200, "")
		p.expect("HEAD /dear/98/items", 200, "")
		p.expect("POST /dear/98/items", 200, "")
		if x := p.Explain(httptest.NewRequest("GET", "/dear/99/items", nil)); x.Class != "GET /dear/{id}/items" || x.LimitOf != x.Class {
			t.Errorf("a request is explained by the class %q and the limit of %q", x.Class, x.LimitOf)
		}
		c := p.class("GET /dear/{id}/items")
		if got := p.class("default").Requests - before; got != 1 {
			t.Errorf("%d requests in the class default: want 1, of another method", got)
		}
		if time.Duration(c.Timeout) != 3*time.Second || c.Priority != "sheddable" {
			t.Errorf("timeout %v, priority %s: want those of the class default", time.Duration(c.Timeout), c.Priority)
		}
		p.reload(splitting + "  timeout: 4s\n")
		p.split() // a file with other classes could have other routes
		p.visit("/dear/#/items")
		p.split("GET /dear/{id}/items")
		p.reload(p.file.text)
		p.split("GET /dear/{id}/items")
		if c := p.class("GET /dear/{id}/items"); time.Duration(c.Timeout) != 4*time.Second {
			t.Errorf("timeout %v: want 4s", time.Duration(c.Timeout))
		}
	})
}

// Where a number bounds all requests, no other limit is beside it.
func TestSplitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := splitter(t, splitting, proxy.Config{})
		admin := p.Admin()
		change := func(body string) {
			t.Helper()
			if w := set(admin, "application/json", body); w.Code != 200 {
				t.Errorf("%s: %d %s", body, w.Code, w.Body)
			}
		}
		p.visit("/dear")
		p.split("GET /dear")
		change(`{"class":"GET /dear","queue":3}`)
		p.split("GET /dear")
		change(`{"limit":7}`)
		p.split()
		p.visit("/dear")
		p.split()
		change(`{"limit":"auto"}`)
		p.visit("/dear")
		p.split("GET /dear")
		p.reload("default: {limit: auto, max_limit: 100}\n")
		p.split()
		p.visit("/dear")
		p.split()
	})
}

func TestNotSplit(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		cfg   proxy.Config
		paths []string
	}{
		"a fixed limit":           {"default: {limit: 20}\n", proxy.Config{}, []string{"/dear"}},
		"another algorithm":       {"default: {limit: aimd}\n", proxy.Config{}, []string{"/dear"}},
		"an upper bound":          {splitting, proxy.Config{Auto: limit.Config{Max: 200}}, []string{"/dear"}},
		"a cache":                 {splitting + "  cache: {ttl: 1s}\n", proxy.Config{}, []string{"/dear"}},
		"a class of the file":     {splitting + "classes: [{name: x, routes: [/dear], limit: auto}]\n", proxy.Config{}, []string{"/dear"}},
		"paths that do not exist": {splitting, proxy.Config{}, []string{"/unknown"}},
		"equal costs":             {splitting, proxy.Config{}, []string{"/cheap2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := splitter(t, c.rules, c.cfg)
				p.visit(c.paths...)
				for _, class := range p.Report().Classes {
					if class.Own && class.Name != "default" && class.Name != "x" {
						t.Errorf("the route %s has a limit of its own", class.Name)
					}
				}
			})
		})
	}
}

// At most eight routes have limits of their own, whatever clients ask for.
func TestSplitMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := splitter(t, splitting, proxy.Config{})
		for i := range 30 {
			p.visit(fmt.Sprintf("/dear-%c", 'a'+i))
		}
		if n := len(p.Report().Classes); n != 9 {
			t.Errorf("%d classes: want 8 and the class default", n)
		}
	})
}
