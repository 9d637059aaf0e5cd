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
		{"503 that is not a draining server's", status(503, `{"error":"too much at once; try again"}`), local},
		{"503 that says nothing", status(503, ""), local},
		{"408", status(408, `{"error":"the body came too slowly"}`), local},
		{"429 that is not the server's", status(429, "slow down"), local},
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
					s.refuses.Store(tt.fault == nil)
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
		want = "" // no limit of leases is known
	}
	check(t, "Lease", said(err), want)
	_, err = c.Hold(t.Context(), "a", 1)
	if want == "" {
		want = "rejected: closed"
	}
	check(t, "Hold", said(err), want)
}

// A server that is away costs callers nothing, and is asked by one probe at a
// time, less and less often. When it is back, that is noticed.
func TestProbes(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{"refuses connections": nil, "hangs": hang} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(1000, time.Second))
				s.refuses.Store(fault == nil)
				s.answer(fault)
				var told []string
				c := s.client(client.Config{OnAway: func(err error) { told = append(told, fmt.Sprint(err != nil)) }})
				lose(t, c)
				before := c.Stats().Requests
				for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
					asked := time.Now()
					takes(t, c, "a", 1, 1)
					if took := time.Since(asked); took > 0 {
						t.Fatalf("away, a call took %v", took)
					}
				}
				if n := c.Stats().Requests - before; n < 12 || n > 40 {
					t.Errorf("%d probes in a minute", n)
				}
				s.refuses.Store(false)
				s.answer(nil)
				for start := time.Now(); c.Stats().Away; time.Sleep(time.Millisecond) {
					takes(t, c, "a", 1, 1)
					if time.Since(start) > 6*time.Second {
						t.Fatal("still away after six seconds")
					}
				}
				local := c.Stats().LocalAllowed
				takes(t, c, "a", 1, 1)
				check(t, "decided here when it is back", c.Stats().LocalAllowed, local)
				synctest.Wait()
				check(t, "told", fmt.Sprint(told), "[true false]")
			})
		})
	}
}

// Two failures are not enough, and an answer starts the count anew.
func TestAFewFailuresAreBorne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t)
		c := s.client(client.Config{Away: client.Allow})
		for range 10 {
			s.answer(status(500, ""))
			takes(t, c, "a", 2, 2)
			s.answer(nil)
			takes(t, c, "a", 1, 1)
			check(t, "away", c.Stats().Away, false)
		}
		s.answer(status(500, ""))
		takes(t, c, "a", 3, 3)
		check(t, "away after three", c.Stats().Away, true)
	})
}

// A connection that leads nowhere is not asked again when the server is found to
// be away.
func TestADeadConnectionIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1000, time.Second))
		c := s.client(client.Config{})
		takes(t, c, "a", 1, 1)
		s.cut()
		lose(t, c)
		time.Sleep(100 * time.Millisecond)
		takes(t, c, "a", 1, 1) // the probe
		synctest.Wait()
		check(t, "away", c.Stats().Away, false)
	})
}

// A connection that takes longer to make than an answer may take is made all the
// same, and then used.
func TestSlowToConnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1000, time.Second))
		s.delay.Store(int64(200 * time.Millisecond))
		c := s.client(client.Config{})
		lose(t, c)
		for range 500 {
			takes(t, c, "a", 1, 1)
			time.Sleep(10 * time.Millisecond)
		}
		check(t, "away", c.Stats().Away, false)
	})
}

// OnAway is never called twice at a time, and knows the last state in the end.
func TestOnAwayIsSlow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1000, time.Second))
		var calls atomic.Int32
		var told []string
		c := s.client(client.Config{OnAway: func(err error) {
			check(t, "calls at once", calls.Add(1), 1)
			defer calls.Add(-1)
			told = append(told, fmt.Sprint(err))
			time.Sleep(time.Minute)
		}})
		for range 4 {
			s.answer(status(500, ""))
			lose(t, c)
			s.answer(nil)
			for c.Stats().Away {
				takes(t, c, "a", 1, 1)
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(5 * time.Minute)
		check(t, "told", fmt.Sprint(told), "[client: not an answer of weir serve: status 500 <nil>]")
	})
}

// While the server is away each key has the Client's share of what the server
// would give it, as it said when it was last heard of.
func TestShareOfWhatWasLearnt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		few, many := every(20, 10*time.Second), every(400, 10*time.Second)
		few.Name, few.Glob = "few", "few:*"
		s := newSite(t, few, many)
		c := s.client(client.Config{Share: 0.25, LocalQuota: gcra.Per(1, time.Hour, 3)})
		for _, key := range []string{"few:1", "few:2", "any"} {
			takes(t, c, key, 1, 1)
			time.Sleep(time.Second)
		}
		s.refuses.Store(true)
		s.answer(hang)
		lose(t, c)
		takes(t, c, "few:1", 5, 50)
		d, err := c.Take(t.Context(), "few:1", 0)
		must(t, err)
		check(t, "a look", d.OK, false)
		takes(t, c, "few:2", 5, 50)
		takes(t, c, "any", 100, 500)
		takes(t, c, "unheard of", 3, 50)
		time.Sleep(2 * time.Second)
		takes(t, c, "few:1", 1, 50) // a quarter of 2/s
		start := time.Now()
		_, err = c.For("few:1").Acquire(t.Context(), 1)
		must(t, err)
		check(t, "Acquire waits here", time.Since(start), 2*time.Second)
	})
}

// A limit that changes is heard of within a minute.
func TestLessonsAreRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10, time.Hour))
		c := s.client(client.Config{})
		for range 600 { // a minute
			_, err := c.Take(t.Context(), "a", 0)
			must(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		check(t, "lessons", s.requests("GET /rate/a"), 1)
		must(t, s.core.Reload(rules(every(20, time.Hour))))
		for range 20 {
			_, err := c.Take(t.Context(), "a", 0)
			must(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		check(t, "lessons", s.requests("GET /rate/a"), 2)
		s.refuses.Store(true)
		s.answer(hang)
		lose(t, c)
		takes(t, c, "a", 20, 50)
	})
}

// One lesson at a time, however many keys there are.
func TestLessonsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10, time.Hour))
		lessons := func(cfg client.Config, each time.Duration) int {
			before := s.requests("GET /rate/")
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "GET" {
					time.Sleep(each)
				}
				s.api.ServeHTTP(w, r)
			})
			c := s.client(cfg)
			for i := range 1000 {
				takes(t, c, fmt.Sprint(each, i, cfg.Away), 1, 1)
				time.Sleep(100 * time.Microsecond)
			}
			return s.requests("GET /rate/") - before
		}
		if n := lessons(client.Config{}, 0); n < 9 || n > 11 {
			t.Errorf("%d lessons in a tenth of a second", n)
		}
		check(t, "slow lessons", lessons(client.Config{}, 30*time.Millisecond), 3)
		check(t, "lessons of who does not need any", lessons(client.Config{Away: client.Allow}, 0), 0)
	})
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

// A server that dies while somebody waits there: the wait goes on here.
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
		check(t, "decided here", c.Stats().LocalAllowed, 1)
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
		check(t, "returned", st.Returned, 0)
		check(t, "settled", s.requests("POST /rate/a/"), 0)
	})
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Hour), atOnce(10, time.Minute))
		c := s.client(client.Config{MaxWait: time.Hour * 2})
		takes(t, c, "a", 1, 1)
		late, err := c.For("late").Acquire(t.Context(), 1)
		must(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := c.For("a").Acquire(t.Context(), 1)
			ended <- err
		}()
		synctest.Wait()
		must(t, c.Close())
		check(t, "the reason of who waits", reason(<-ended), weir.Closed)
		synctest.Wait()
		check(t, "waiting at the server", s.core.Waiting(), 0)
		for name, f := range map[string]func() error{
			"Take":  func() error { _, err := c.Take(t.Context(), "b", 1); return err },
			"For":   func() error { _, err := c.For("b").Acquire(t.Context(), 1); return err },
			"Lease": func() error { _, err := c.Lease("b").Acquire(t.Context(), 1); return err },
			"Hold":  func() error { _, err := c.Hold(t.Context(), "b", 1); return err },
		} {
			check(t, name, reason(f()), weir.Closed)
		}
		must(t, c.Close())
		late.Use(0)
		late.Release(weir.Success)
		check(t, "dropped", c.Stats().Dropped, 1)
	})
}

// Close returns what it can in a second.
func TestCloseIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(1000, time.Hour))
		c := s.client(client.Config{})
		for range 500 {
			hold(t, c)
		}
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(40 * time.Millisecond)
			s.api.ServeHTTP(w, r)
		})
		start := time.Now()
		must(t, c.Close())
		check(t, "took", time.Since(start), time.Second)
		st := c.Stats()
		check(t, "returned", st.Returned, 400) // by sixteen at a time
		check(t, "dropped", st.Dropped, 100)
	})
}

// Closed is closed, also if the server is away.
func TestCloseWhileAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, atOnce(10, time.Minute))
		c := s.client(client.Config{Away: client.Allow})
		h := hold(t, c)
		s.answer(hang)
		lose(t, c)
		start := time.Now()
		must(t, c.Close())
		check(t, "took", time.Since(start), 0)
		check(t, "cause", reason(context.Cause(h.Context())), weir.Closed)
		_, err := c.Take(t.Context(), "a", 1)
		check(t, "Take", reason(err), weir.Closed)
		_, err = c.Lease("a").Acquire(t.Context(), 1)
		check(t, "Lease", reason(err), weir.Closed)
	})
}

// A context that has ended is that, whoever is away.
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
