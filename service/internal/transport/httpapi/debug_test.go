package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

func TestDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := 400
		rule := allKeys(2, s, config.Fixed)
		rule.Queue = &queue
		site := newSite(t, httpapi.Config{}, rule)
		for _, key := range []string{"y", "x", "x", "x", "z%22/"[:4]} {
			site.ask("POST", "/rate/"+key, "")
		}
		site.ask("GET", "/rate/only-looked-at?n=0", "")
		go site.ask("POST", "/rate/x?canWait=true", "")
		synctest.Wait()
		instance := func(key string, approved, denied, waiting int) string {
			return fmt.Sprintf(`{"Key":"%s","Config":{"WindowMillis":1000,"MaxRequestsPerWindow":2,"MaxRequestsInQueue":400},`+
				`"NumApprovedThisWindow":%d,"NumDeniedThisWindow":%d,"NumWaiting":%d,"Found":true}`, key, approved, denied, waiting)
		}
		for url, want := range map[string]string{
			"/debug/x":              instance("x", 2, 1, 1),
			"/debug/%20x":           instance("x", 2, 1, 1),
			"/debug/only-looked-at": `{"Key":"only-looked-at","Found":false}`,
			"/debug/un%22known":     `{"Key":"un\"known","Found":false}`,
			"/debug":                `{"Instances":{"x":` + instance("x", 2, 1, 1) + `,"y":` + instance("y", 1, 0, 0) + `,"z\"":` + instance(`z\"`, 1, 0, 0) + `}}`,
			"/debug/":               `{"Instances":{"x":` + instance("x", 2, 1, 1) + `,"y":` + instance("y", 1, 0, 0) + `,"z\"":` + instance(`z\"`, 1, 0, 0) + `}}`,
		} {
			if a := site.ask("GET", url, ""); a.status != 200 || a.body != want+"\n" {
				t.Errorf("%s: %d\n%s\nwant\n%s", url, a.status, a.body, want)
			}
			site.ask("HEAD", url, "")
		}
		time.Sleep(3 * s)
		for url, want := range map[string]string{"/debug/x": `{"Key":"x","Found":false}`, "/debug": `{"Instances":{}}`} {
			if a := site.ask("GET", url, ""); a.status != 200 || a.body != want+"\n" {
				t.Errorf("%s, after some windows: %d %s: want %s", url, a.status, a.body, want)
			}
		}
	})
}

// However many keys there are, the answer is bounded, and JSON.
func TestDebugOfManyKeys(t *testing.T) {
	site := newSite(t, httpapi.Config{}, allKeys(2, time.Hour, ""))
	for i := range 3 {
		for k := range 10_000 {
			site.ServeHTTP(&kept{header: map[string][]string{}}, newRequest("POST", fmt.Sprint("/rate/", i, "-", k), ""))
		}
	}
	a := site.ask("GET", "/debug", "")
	if n := len(a.json["Instances"].(map[string]any)); n < 9_000 || n > 10_000 {
		t.Errorf("%d instances: want 10000, or a few less", n)
	}
}

// A slow finder needs longer to find the keys than the time-out of an answer.
type slowFinder struct{ decider.Decider }

func (f slowFinder) Top(ctx context.Context, n int) ([]decider.Seen, error) {
	time.Sleep(2 * httpapi.DefaultAnswerTimeout)
	return f.Decider.Top(ctx, n)
}

// The time-out of an answer is the client's, not that of the search for keys.
func TestDebugThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{}, allKeys(2, time.Hour, ""))
		site.ask("POST", "/rate/x", "")
		api, err := httpapi.New(slowFinder{site.server}, httpapi.Config{})
		testrig.Must(t, err)
		w := serve(t, api)
		for version := 1; version <= 2; version++ {
			resp, err := w.Client(t, version).Get("http://weir/debug")
			if err != nil {
				t.Errorf("HTTP/%d: %v", version, err)
				continue
			}
			if a := read(t, resp.Request, resp); a.status != 200 || len(a.json["Instances"].(map[string]any)) != 1 {
				t.Errorf("HTTP/%d: %d %s: want one key", version, a.status, a.body)
			}
		}
	})
}

// A gatedFinder finds keys once its gate is open, and then the same key without end. It
// counts explanations, and ends a request after some.
type gatedFinder struct {
	decider.Decider
	gate      chan struct{}
	explained int
	leave     func()
}

func (f *gatedFinder) Top(context.Context, int) ([]decider.Seen, error) {
	<-f.gate
	seen := make([]decider.Seen, 1000)
	for i := range seen {
		seen[i].Key = fmt.Sprint(i)
	}
	return seen, nil
}

func (f *gatedFinder) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	if f.explained++; f.explained == 10 && f.leave != nil {
		f.leave()
	}
	return f.Decider.Explain(ctx, key)
}

// Clients that ask for all keys at a time are refused beyond a few: each answer takes a
// processor for a while.
func TestDebugAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{}, allKeys(2, time.Hour, ""))
		finder := &gatedFinder{Decider: site.server, gate: make(chan struct{})}
		var err error
		if site.API, err = httpapi.New(finder, httpapi.Config{}); err != nil {
			t.Fatal(err)
		}
		const asked = 10
		answers := make(chan *answer, asked)
		for range asked {
			go func() { answers <- site.ask("GET", "/debug", "") }()
		}
		synctest.Wait()
		if n := len(answers); n != asked-2 { // one client has half of the places
			t.Errorf("%d of %d were answered while the others wait: want %d", n, asked, asked-2)
		}
		for range len(answers) {
			if a := <-answers; a.status != 503 || a.header.Get("Retry-After") != "1" {
				t.Errorf("%d, Retry-After: %q: want 503, 1", a.status, a.header.Get("Retry-After"))
			}
		}
		for range 2 {
			finder.gate <- struct{}{}
			if a := <-answers; a.status != 200 {
				t.Errorf("%d: want 200", a.status)
			}
		}
		close(finder.gate)
		if a := site.ask("GET", "/debug", ""); a.status != 200 {
			t.Errorf("afterwards: %d: want 200", a.status)
		}
	})
}

// The answer to a client that leaves is not computed further.
func TestDebugOfAClientThatLeaves(t *testing.T) {
	site := newSite(t, httpapi.Config{}, allKeys(2, time.Hour, ""))
	ctx, leave := context.WithCancel(t.Context())
	finder := &gatedFinder{Decider: site.server, gate: make(chan struct{}), leave: leave}
	close(finder.gate)
	api, err := httpapi.New(finder, httpapi.Config{})
	testrig.Must(t, err)
	w := &kept{header: map[string][]string{}}
	api.ServeHTTP(w, newRequest("GET", "/debug", "").WithContext(ctx))
	if finder.explained != 10 || len(w.body) > 0 {
		t.Errorf("%d keys were explained to a client that left after 10, and %q written", finder.explained, w.body)
	}
}

// A brokenFinder cannot explain a key, and its Explanation is half filled; or it panics.
type brokenFinder struct {
	decider.Decider
	panics bool
}

func (f *brokenFinder) Explain(context.Context, string) (decider.Explanation, error) {
	if f.panics {
		panic("broken")
	}
	return decider.Explanation{Rules: make([]decider.RuleState, 1)}, errors.New("the store does not answer")
}

// A key that cannot be explained is left out. A call that panics gives its place back.
func TestDebugOfABrokenDecider(t *testing.T) {
	site := newSite(t, httpapi.Config{}, allKeys(2, time.Hour, ""))
	site.ask("POST", "/rate/x", "")
	finder := &brokenFinder{Decider: site.server, panics: true}
	var err error
	if site.API, err = httpapi.New(finder, httpapi.Config{}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		func() {
			defer func() { _ = recover() }()
			site.ServeHTTP(httptest.NewRecorder(), newRequest("GET", "/debug", ""))
		}()
	}
	finder.panics = false
	if a := site.ask("GET", "/debug", ""); a.status != 200 || a.body != "{\"Instances\":{}}\n" {
		t.Errorf("%d %s: want no instances", a.status, a.body)
	}
}
