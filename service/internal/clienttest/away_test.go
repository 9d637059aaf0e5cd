package client_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/gcra"
)

// A server in each of these states, and what callers get. What is not an answer
// is decided as Away says; what is one goes to the caller.
func TestFailureModes(t *testing.T) {
	const local = "local"
	for _, tt := range []struct {
		mode  string
		fault http.HandlerFunc
		want  string
	}{
		{"refuses connections", nil, local},
		{"hangs", hang, local},
		{"500", status(500, "oops"), local},
		{"502 of a proxy", status(502, "<html>"), local},
		{"503 that is not a draining server's", status(503, `{"error":"too many requests at once; try again"}`), local},
		{"503 that says nothing", status(503, ""), local},
		{"408", status(408, `{"error":"the body was not received in time"}`), local},
		{"429 that is not the server's", status(429, "slow down"), local},
		{"429 of a gateway", status(429, `{"message":"slow down"}`), local},
		{"204", status(204, ""), local},
		{"garbage", status(200, "{\"results\":[{"), local},
		{"something else's JSON", status(200, `{"hello":"world"}`), local},
		{"too few results", status(200, `{"results":[]}`), local},
		{"too many results", status(200, `{"results":[{"ok":true},{"ok":true}]}`), local},
		{"an endless answer", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1<<10))
			}
		}, local},
		{"a body that comes slowly", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"results":`))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, local},
		{"a body that breaks off", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"results":`))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, local},
		{"400", status(400, `{"error":"no"}`), "client: 400 Bad Request: no"},
		{"401", status(401, `{"error":"who?"}`), "client: 401 Unauthorized: who?"},
		{"403", status(403, `{"error":"not you"}`), "client: 403 Forbidden: not you"},
		{"404 of something else", status(404, "not found"), "client: 404 Not Found: not found"},
		{"redirects", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
			"client: 307 Temporary Redirect: "},
		{"draining", status(503, `{"error":"about to end","reason":"closed","retry_after_ms":1000}`), "rejected: closed"},
	} {
		for away, allowed := range map[client.Away]int{client.Allow: 20, client.Deny: 0, client.Local: 5} {
			t.Run(fmt.Sprint(tt.mode, "/", away), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newSite(t)
					if tt.fault == nil {
						s.network.Refuse()
					}
					s.answer(tt.fault)
					c := s.client(client.Config{Away: away, LocalQuota: gcra.Per(1, time.Hour, 5), MaxWait: time.Second})
					got := 0
					for range 20 {
						start := time.Now()
						d, err := c.Take(t.Context(), "a", 1)
						if took := time.Since(start); took > client.DefaultTimeout {
							t.Errorf("took %v", took)
						}
						said := local
						if err != nil {
							said = err.Error()
						}
						check(t, "error", said, tt.want)
						if d.OK {
							got++
						}
					}
					if tt.want != local {
						allowed = 0
					}
					check(t, "allowed", got, allowed)
					check(t, "away", c.Stats().Away, tt.want == local)
					acquires(t, c, away, tt.want)
				})
			})
		}
	}
}

// acquires checks what For and Lease make of a server that Take has found out
// about.
func acquires(t *testing.T, c *client.Client, away client.Away, want string) {
	t.Helper()
	if want == "local" {
		want = map[client.Away]string{client.Allow: "", client.Deny: "rejected: closed", client.Local: "rejected: over_rate"}[away]
	}
	said := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	p, err := c.For("a").Acquire(t.Context(), 1)
	p.Release(weir.Success)
	check(t, "For", said(err), want)
	p, err = c.Lease("a").Acquire(t.Context(), 1)
	p.Release(weir.Success)
	if want == "rejected: over_rate" {
		want = "rejected: over_limit" // no limit of leases is known
	}
	check(t, "Lease", said(err), want)
	_, err = c.Hold(t.Context(), "a", 1)
	if want == "" || want == "rejected: over_limit" {
		want = "rejected: closed"
	}
	check(t, "Hold", said(err), want)
}

// An answer that comes too late is not waited for, and its tokens count for what
// was decided meanwhile: they stay taken if it went on, and come back if not.
func TestLateAnswers(t *testing.T) {
	for away, left := range map[client.Away]int{client.Allow: 9, client.Deny: 10} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(10, time.Hour))
				c := s.client(client.Config{Away: away})
				s.answer(func(w http.ResponseWriter, r *http.Request) {
					s.api.ServeHTTP(w, r)
					time.Sleep(30 * time.Millisecond)
				})
				var callers sync.WaitGroup
				callers.Go(func() { _, _ = c.Take(t.Context(), "b", 1) })
				synctest.Wait()
				start := time.Now()
				d, err := c.Take(t.Context(), "a", 1) // leaves 20 ms after it was sent
				must(t, err)
				check(t, "allowed", d.OK, away == client.Allow)
				check(t, "took", time.Since(start), client.DefaultTimeout)
				callers.Wait()
				time.Sleep(time.Second)
				check(t, "left", s.left("a"), left)
				st := c.Stats()
				check(t, "late", st.Late, 1)
				check(t, "failures", st.Failures, 0)
			})
		})
	}
}

// A server that dies while a call waits there: the wait continues in the client.
func TestAWaitGoesOnHere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Second))
		c := s.client(client.Config{LocalQuota: gcra.Per(1, time.Second, 1)})
		takes(t, c, "a", 1, 1)
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.RawQuery, "canWait") {
				panic(http.ErrAbortHandler)
			}
			s.api.ServeHTTP(w, r)
		})
		_, err := c.For("a").Acquire(t.Context(), 1)
		must(t, err)
		check(t, "decided here", c.Stats().Local, 1)
	})
}

// A server that accepts a wait and then says nothing costs the wait and Timeout.
func TestAHangingWaitEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Second))
		c := s.client(client.Config{Away: client.Deny, MaxWait: 2 * time.Second})
		takes(t, c, "a", 1, 1)
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.RawQuery, "canWait") {
				<-r.Context().Done()
				return
			}
			s.api.ServeHTTP(w, r)
		})
		start := time.Now()
		_, err := c.For("a").Acquire(t.Context(), 1)
		check(t, "reason", reason(err), weir.Closed)
		check(t, "took", time.Since(start), 2*time.Second+client.DefaultTimeout)
	})
}

// MaxWait and Timeout are for the whole of a call, whatever it goes through. A
// call that has waited at the server that long does not wait again in the client.
func TestBoundsAreForTheWholeCall(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		burst int
		want  weir.Reason
	}{
		{"no second wait", 1, weir.OverRate},
		{"none for what is there", 2, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const wait = 20 * time.Second
				s := newSite(t)
				s.answer(hang)
				c := s.client(client.Config{LocalQuota: gcra.Per(1, 3*wait/2, tt.burst), MaxWait: wait})
				takes(t, c, "a", 1, 1) // decided here
				s.answer(func(w http.ResponseWriter, r *http.Request) {
					if strings.Contains(r.URL.RawQuery, "canWait") {
						hang(w, r)
						return
					}
					time.Sleep(client.DefaultTimeout - time.Millisecond)
					status(200, `{"results":[{"ok":false,"reason":"over_rate","retry_after_ms":100}]}`)(w, r)
				})
				start := time.Now()
				_, err := c.For("a").Acquire(t.Context(), 1)
				check(t, "reason", reason(err), tt.want)
				check(t, "after", time.Since(start), wait+client.DefaultTimeout)
				check(t, "decided here", c.Stats().Local, 2)
			})
		})
	}
}

// What is no answer of the server does not end its absence, nor what is known of
// its limits; nor does an answer that says nothing of limits.
func TestWhatIsLearntLasts(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"a page":    status(200, "<html>back soon</html>"),
		"an object": status(200, "{}"),
		"no path": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" {
				status(404, "not found")(w, r)
				return
			}
			status(502, "")(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(10, time.Hour))
				var told atomic.Int32
				c := s.client(client.Config{OnAway: func(error) { told.Add(1) }})
				takes(t, c, "a", 1, 1)
				time.Sleep(2 * time.Minute) // it is time to ask again
				s.answer(fault)
				got := 0
				for range 1000 {
					d, err := c.Take(t.Context(), "a", 1)
					must(t, err)
					if d.OK {
						got++
					}
					time.Sleep(10 * time.Millisecond)
				}
				check(t, "allowed", got, 10)
				check(t, "told of absences, and of returns", told.Load(), 1)
			})
		})
	}
}

// What is to be told to a server that is away is dropped, and counted.
func TestSettlesAreDroppedWhenAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10, time.Hour))
		c := s.client(client.Config{})
		p, err := c.For("a").Acquire(t.Context(), 5)
		must(t, err)
		s.answer(hang)
		lose(t, c)
		p.Use(1)
		p.Release(weir.Success)
		synctest.Wait()
		st := c.Stats()
		check(t, "dropped", st.Dropped, 1)
		check(t, "settled", s.requests("POST /rate/a/"), 0)
	})
}

// A context that has ended is the error, also while the server is away.
func TestAnEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t)
		c := s.client(client.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			_, err := c.Take(ctx, "a", 1)
			check(t, "Take", err, context.Canceled)
			_, err = c.For("a").Acquire(ctx, 1)
			check(t, "For", err, context.Canceled)
			_, err = c.Lease("a").Acquire(ctx, 1)
			check(t, "Lease", err, context.Canceled)
			s.answer(hang)
			lose(t, c)
		}
	})
}
