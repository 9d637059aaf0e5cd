package routercheck

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir"
)

// quota checks that requests within the quota are told what is left, and that the
// next one is refused.
func quota(t *testing.T, r Router) {
	var ran atomic.Int64
	url, _ := start(t, r, perClient(t), func(http.ResponseWriter, *http.Request) { ran.Add(1) })
	for left := 2; left >= 0; left-- {
		a := get(t, url+"/hook")
		if a.StatusCode != 200 || a.Header.Get("RateLimit-Policy") != `"per-client";q=3;w=180` ||
			!strings.HasPrefix(a.Header.Get("RateLimit"), fmt.Sprintf(`"per-client";r=%d;t=`, left)) {
			t.Errorf("%s %v: want 200, and r=%d", a.Status, a.Header, left)
		}
	}
	refused(t, get(t, url+"/hook"), 429, "60")
	if ran.Load() != 3 {
		t.Errorf("the handler ran %d times, want 3", ran.Load())
	}
}

// refused checks the response to a refused request.
func refused(t *testing.T, a answer, status int, retryAfter string) {
	t.Helper()
	var problem struct{ Status int }
	err := json.Unmarshal([]byte(a.body), &problem)
	if a.StatusCode != status || a.Header.Get("Retry-After") != retryAfter || err != nil || problem.Status != status ||
		a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %v %s: want %d, Retry-After: %s, and a problem", a.Status, a.Header, a.body, status, retryAfter)
	}
}

// limits: the limit of one route refuses no request for another, and is held
// until the handler has ended.
func limits(t *testing.T, r Router) {
	entered, leave := make(chan bool, 2), make(chan bool)
	url, m := start(t, r, perClass(), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		entered <- true
		<-leave
	})
	t.Cleanup(func() { close(leave) })
	held := make(chan error, 1)
	go func() {
		a, err := ask(url + "/hook")
		if err == nil && a.StatusCode != http.StatusAccepted {
			err = fmt.Errorf("%s: want 202", a.Status)
		}
		held <- err
	}()
	<-entered
	refused(t, get(t, url+"/hook"), 503, "1")
	if c := class(t, m, r.Hook); c.admitted != 1 || c.refused != 1 || c.inflight != 1 {
		t.Errorf("%s, held: %+v", r.Hook, c)
	}
	for _, name := range []string{"ada", "bob"} {
		if a := get(t, url+"/hello/"+name); a.StatusCode != 200 || a.body != "hello, "+name+"\n" {
			t.Errorf("another route: %s %q", a.Status, a.body)
		}
	}
	leave <- true
	if err := <-held; err != nil {
		t.Error(err)
	}
	free(t, m, r.Hook)
	if c := class(t, m, r.Hello); c.admitted != 2 || c.outcomes[weir.Success] != 2 {
		t.Errorf("%s: %+v", r.Hello, c)
	}
	if c := class(t, m, r.Hook); c.outcomes[weir.Success] != 1 {
		t.Errorf("%s: %+v", r.Hook, c)
	}
}

// panics: what a handler held that panicked is free again.
func panics(t *testing.T, r Router) {
	url, m := start(t, r, perClass(), func(http.ResponseWriter, *http.Request) { panic("a bug") })
	for range 2 {
		a, err := ask(url + "/hook")
		if r.Recovers && (err != nil || a.StatusCode != 500) || !r.Recovers && err == nil {
			t.Errorf("%v, %v", a.Response, err)
		}
		free(t, m, r.Hook)
	}
	if c := class(t, m, r.Hook); c.admitted != 2 || c.outcomes[weir.Ignored] != 2 {
		t.Errorf("%+v: want both let in", c)
	}
}

// overload: the limit learns that a handler had too much to do.
func overload(t *testing.T, r Router) {
	url, m := start(t, r, perClass(), func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too much", http.StatusServiceUnavailable)
	})
	if a := get(t, url+"/hook"); a.StatusCode != 503 || a.body != "too much\n" {
		t.Errorf("%s %q", a.Status, a.body)
	}
	free(t, m, r.Hook)
	if c := class(t, m, r.Hook); c.outcomes[weir.Dropped] != 1 {
		t.Errorf("%+v", c)
	}
}
